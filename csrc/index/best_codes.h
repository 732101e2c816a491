// The best rows by estimated score, as many as are wanted, out of any number in any order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace sparsam {

// The result does not depend on the order in which rows came: ties go to the lowest row. Eight times as many rows as
// wanted are gathered before all but the best are dropped, which takes two passes: O(1) per row.
class BestCodes {
 public:
  // Of the query that is being answered: score = factor * (unit * sum + base) + bias.
  float unit = 0.0f, over_unit = 0.0f, base = 0.0f;
  float constant = 0.0f;  // what is left of the product of word and query

  // Words that may be taken, by place and score, noted while their rows come from memory.
  static constexpr int32_t kNoted = 2048;
  int32_t noted_places[kNoted + 16];  // vectors are stored whole
  float noted_scores[kNoted + 16];
  int32_t noted_count = 0;
  void note(int32_t place, float score) {
    noted_places[noted_count] = place;
    noted_scores[noted_count++] = score;
  }

  void set_query(float unit_, float base_, float constant_) {
    constant = constant_;
    unit = unit_;
    over_unit = unit_ > 0.0f ? 1.0f / unit_ : 0.0f;
    base = base_;
  }
  // From scratch; scores below `least` are ignored.
  void begin(int32_t wanted, float least = -std::numeric_limits<float>::infinity()) {
    noted_count = 0;
    wanted_ = static_cast<size_t>(wanted);
    most_kept_ = std::max<size_t>(8 * wanted_, 96);
    kept_.clear();
    worst_ = {least, std::numeric_limits<int32_t>::max()};
  }

  bool has_bound() const { return worst_.score > -std::numeric_limits<float>::infinity(); }
  bool is_full() const { return kept_.size() >= wanted_; }
  float worst() const { return worst_.score; }  // no lower score is taken
  bool would_take(float score, int32_t row) const { return before({score, row}, worst_); }
  void take(float score, int32_t row) {
    kept_.push_back({score, row});
    if (kept_.size() == most_kept_) cut();
  }

  // The lowest score among the best; minus infinity when there are fewer than were wanted.
  float lowest() {
    if (kept_.size() < wanted_) return -std::numeric_limits<float>::infinity();
    cut();
    return worst_.score;
  }
  // The rank-th best score of all that were offered, for a rank that is not more than were wanted; minus infinity when
  // there are fewer.
  float ranked(int32_t rank) {
    const size_t n = std::min(static_cast<size_t>(rank), wanted_);
    if (kept_.size() < n) return -std::numeric_limits<float>::infinity();
    const auto at = kept_.begin() + static_cast<std::ptrdiff_t>(n) - 1;
    std::nth_element(kept_.begin(), at, kept_.end(), before);
    return at->score;
  }
  // Writes the rows in no order; returns their number.
  int32_t finish(int32_t* out) {
    if (kept_.size() > wanted_) cut();
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
  // The best `wanted_` stay: those above the level at which they are complete, and the best of that level.
  void cut() {
    constexpr int32_t kLevels = 128;
    float low = kept_[0].score, high = low;
    for (const Kept& kept : kept_) {
      low = std::min(low, kept.score);
      high = std::max(high, kept.score);
    }
    const float scale = static_cast<float>(kLevels) / (high - low);
    size_t above = 0, level_end = kept_.size();
    if (high > low && scale < 1e30f) {
      auto level = [&](const Kept& kept) { return static_cast<int32_t>((kept.score - low) * scale); };
      int32_t counts[kLevels + 2] = {};
      for (const Kept& kept : kept_) ++counts[level(kept)];
      int32_t edge = kLevels + 1;
      for (size_t next = 0; next < wanted_;) {
        above = next;
        next += static_cast<size_t>(counts[--edge]);
      }
      level_.clear();
      size_t left = 0;
      for (const Kept& kept : kept_) {
        const int32_t at = level(kept);
        if (at == edge) level_.push_back(kept);
        kept_[left] = kept;
        left += at > edge;
      }
      std::copy(level_.begin(), level_.end(), kept_.begin() + static_cast<std::ptrdiff_t>(above));
      level_end = above + level_.size();
    }
    const auto last = kept_.begin() + static_cast<std::ptrdiff_t>(wanted_) - 1;
    std::nth_element(kept_.begin() + static_cast<std::ptrdiff_t>(above), last,
                     kept_.begin() + static_cast<std::ptrdiff_t>(level_end), before);
    worst_ = *last;
    kept_.resize(wanted_);
  }

  size_t wanted_ = 1;
  size_t most_kept_ = 2;  // kept before the lesser are let go
  std::vector<Kept> kept_;
  std::vector<Kept> level_;  // where the cut goes through
  Kept worst_{};
};

}  // namespace sparsam
