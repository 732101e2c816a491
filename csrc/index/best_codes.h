// The best rows by estimated score, as many as are wanted, out of any number in any order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace sparsam {

// The result does not depend on the order in which rows came: ties go to the lowest row. Twice as many rows as wanted
// are gathered before about half of them, the worst, are dropped: that takes one pass, so O(1) per row.
class BestCodes {
 public:
  // Of the query that is being answered: score = factor * (unit * sum + base) + bias.
  float unit = 0.0f, over_unit = 0.0f, base = 0.0f;

  // Words that may be taken, noted while what else is known of them comes from memory.
  struct Noted {
    int32_t place, sum;
  };
  static constexpr int32_t kNoted = 128;
  Noted noted[kNoted];
  int32_t noted_count = 0;

  void ask(float unit_, float base_) {
    unit = unit_;
    over_unit = unit_ > 0.0f ? 1.0f / unit_ : 0.0f;
    base = base_;
  }
  // From scratch; scores below `least` are ignored.
  void begin(int32_t wanted, float least = -std::numeric_limits<float>::infinity()) {
    noted_count = 0;
    wanted_ = static_cast<size_t>(wanted);
    room_ = std::max<size_t>(2 * wanted_, 96);
    kept_.clear();
    worst_ = {least, std::numeric_limits<int32_t>::max()};
  }

  bool is_full() const { return kept_.size() >= wanted_; }
  float worst() const { return worst_.score; }  // no lower score is taken
  bool would_take(float score, int32_t row) const { return before({score, row}, worst_); }
  void take(float score, int32_t row) {
    kept_.push_back({score, row});
    if (kept_.size() == room_) thin_out();
  }

  // The lowest score among the best; minus infinity when there are fewer than were wanted.
  float lowest() {
    if (kept_.size() < wanted_) return -std::numeric_limits<float>::infinity();
    cut();
    return worst_.score;
  }
  // Writes the rows in ascending order; returns their number.
  int32_t finish(int32_t* out) {
    if (kept_.size() > wanted_) cut();
    std::sort(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) { return a.row < b.row; });
    for (size_t i = 0; i < kept_.size(); ++i) out[i] = kept_[i].row;
    return static_cast<int32_t>(kept_.size());
  }

 private:
  struct Kept {
    float score;
    int32_t row;
  };
  static bool before(const Kept& a, const Kept& b) {
    return a.score > b.score || (a.score == b.score && a.row < b.row);
  }
  // The best `wanted_` stay.
  void cut() {
    const auto last = kept_.begin() + static_cast<std::ptrdiff_t>(wanted_) - 1;
    std::nth_element(kept_.begin(), last, kept_.end(), before);
    worst_ = *last;
    kept_.resize(wanted_);
  }

  // The best stay, `wanted_` of them or a few more: all above some edge between the lowest score and the highest.
  void thin_out() {
    constexpr int32_t kEdges = 64;
    float low = kept_[0].score, high = low;
    for (const Kept& kept : kept_) {
      low = std::min(low, kept.score);
      high = std::max(high, kept.score);
    }
    const float scale = static_cast<float>(kEdges) / (high - low);
    if (!(high > low && scale < 1e30f)) return cut();
    auto level = [&](const Kept& kept) { return static_cast<int32_t>((kept.score - low) * scale); };
    int32_t counts[kEdges + 2] = {};
    for (const Kept& kept : kept_) ++counts[level(kept)];
    size_t above = 0;
    int32_t edge = kEdges + 1;
    while (above < wanted_) above += static_cast<size_t>(counts[--edge]);
    if (above > wanted_ + wanted_ / 2) return cut();
    size_t left = 0;
    float lowest = high;
    for (const Kept& kept : kept_) {
      const bool stays = level(kept) >= edge;
      lowest = stays ? std::min(lowest, kept.score) : lowest;
      kept_[left] = kept;
      left += stays;
    }
    kept_.resize(left);
    worst_ = {lowest, std::numeric_limits<int32_t>::max()};
  }

  size_t wanted_ = 1;
  size_t room_ = 2;  // kept before they are thinned out
  std::vector<Kept> kept_;
  Kept worst_{};
};

}  // namespace sparsam
