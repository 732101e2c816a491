// A centre of the words that depends on rows and words alone: never on the order in which they came.
//
// Early in training all words of a memory crowd around one, and codes of them say little unless they are taken relative
// to it. But a running mean remembers the past. Here the centre is the mean over a sample, the rows whose hash is least,
// rounded to a grid that is coarse beside the words' length and fine beside the spread of most crowds; and it is zero
// unless more than half of what the words are is common to all. A write to one of n words touches the sample with
// probability kSample / n and then costs O(n) at most, so O(1) on average.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "index/candidate_index.h"

namespace sparsam {

class SampleCentre {
 public:
  static constexpr size_t kSample = 8;

  SampleCentre(int32_t word_size, uint64_t seed) : seed_(seed), centre_(static_cast<size_t>(word_size), 0.0f) {}

  void inserted(int32_t row) {
    const Entry entry{hash(row), row};
    if (sample_.size() == kSample && sample_.back() < entry) return;
    sample_.insert(std::upper_bound(sample_.begin(), sample_.end(), entry), entry);
    if (sample_.size() > kSample) sample_.pop_back();
    stale_ = true;
  }
  void updated(int32_t row) { stale_ |= holds(row); }
  // Another row takes its place when the centre is asked for.
  void removed(int32_t row) {
    if (!holds(row)) return;
    stale_ = incomplete_ = true;
  }
  void clear() {
    sample_.clear();
    std::fill(centre_.begin(), centre_.end(), 0.0f);
    stale_ = incomplete_ = false;
  }

  // May the centre have moved?
  bool is_stale() const { return stale_; }
  // Does bringing it up to date take all indexed rows?
  bool is_incomplete() const { return incomplete_; }
  const float* centre() const { return centre_.data(); }

  // Brings the centre up to date; `rows` are all indexed rows, in any order, if it is
  // incomplete. True when it has moved.
  bool refresh(const std::vector<int32_t>& rows, const WordSource& source) {
    if (incomplete_) {
      sample_.clear();
      for (const int32_t row : rows) inserted(row);
    }
    stale_ = incomplete_ = false;
    const std::vector<float> before = centre_;
    std::vector<float> word(centre_.size());
    std::vector<double> sums(centre_.size(), 0.0);
    double squares = 0.0;
    for (const Entry& entry : sample_) {
      source.fetch(entry.second, word.data());
      for (size_t j = 0; j < word.size(); ++j) {
        sums[j] += double{word[j]};
        squares += double{word[j]} * double{word[j]};
      }
    }
    std::fill(centre_.begin(), centre_.end(), 0.0f);
    const double count = static_cast<double>(sample_.size());
    double common = 0.0;
    for (const double sum : sums) common += sum * sum / count;
    if (common > 0.5 * squares && std::isfinite(squares)) {
      int exponent = 0;  // of the words' length
      std::frexp(std::sqrt(squares / count), &exponent);
      const double grid = std::ldexp(0.125, exponent) / std::sqrt(static_cast<double>(centre_.size()));
      for (size_t j = 0; j < centre_.size(); ++j)
        centre_[j] = static_cast<float>(std::nearbyint(sums[j] / count / grid) * grid);
    }
    return centre_ != before;
  }

 private:
  using Entry = std::pair<uint64_t, int32_t>;

  uint64_t hash(int32_t row) const {
    uint64_t z = seed_ + 0x9e3779b97f4a7c15ull * (static_cast<uint64_t>(row) + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  bool holds(int32_t row) const {
    return std::any_of(sample_.begin(), sample_.end(), [&](const Entry& entry) { return entry.second == row; });
  }

  uint64_t seed_;
  std::vector<Entry> sample_;  // least hash first
  std::vector<float> centre_;
  bool stale_ = false;
  bool incomplete_ = false;  // a row of the sample was removed
};

}  // namespace sparsam
