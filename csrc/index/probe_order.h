// Which bucket a key belongs to while a hash table grows, and in which order buckets are probed.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "index/heap.h"

namespace sparsam::SPARSAM_ISA {

// Linear hashing (Litwin 1980): 2^level buckets, of which the first `split` are split by one more bit of the key.
struct LinearDirectory {
  int32_t level = 0;
  int32_t split = 0;

  int32_t count() const { return (1 << level) + split; }
  void resize(int32_t count) {
    level = std::bit_width(static_cast<uint32_t>(count)) - 1;
    split = count - (1 << level);
  }
  bool is_split(uint32_t key) const { return static_cast<int32_t>(key & ((1u << level) - 1)) < split; }
  int32_t bucket_of(uint32_t key) const {
    return static_cast<int32_t>(key & ((is_split(key) ? 2u << level : 1u << level) - 1));
  }
  int32_t bits() const { return level + (split > 0); }  // of a key, in use
};

// Buckets of all tables in order of likelihood: first the query's own, then, of the subsets of a key's bits, those with
// the least sum of squared margins (Lv et al. 2007). Each subset is reached once, by moving its last bit on or by
// adding the next one, bits being in order of margin.
class ProbeOrder {
 public:
  static constexpr int32_t kMaxTables = 32;
  static constexpr int32_t kMaxBits = 24;

  // margins: `bits` projections of the query for each table, whose signs are the keys.
  ProbeOrder(const LinearDirectory& directory, int32_t tables, int32_t bits, const float* margins,
             std::vector<Branch>& heap)
      : directory_(directory), tables_(tables), bits_(directory.bits()), heap_(heap) {
    heap_.clear();
    for (int32_t t = 0; t < tables; ++t) order_bits(t, margins + t * bits);
  }

  bool next(CandidateIndex::Scratch::Visit& visit) {
    if (started_ < tables_) {
      const int32_t t = started_++;
      if (bits_ > 0) heap_push(heap_, {cost_[t][0], 1 << bit_[t][0], t});
      visit = {directory_.bucket_of(keys_[t]), t, 0};
      return true;
    }
    while (!heap_.empty()) {
      const Branch best = heap_.front();
      const int32_t t = best.tag % kMaxTables, last = best.tag / kMaxTables;
      if (last + 1 < bits_) {
        const int32_t next_bit = 1 << bit_[t][last + 1];
        heap_replace_top(heap_, {best.key - cost_[t][last] + cost_[t][last + 1],
                                 (best.where & ~(1 << bit_[t][last])) | next_bit, best.tag + kMaxTables});
        heap_push(heap_, {best.key + cost_[t][last + 1], best.where | next_bit, best.tag + kMaxTables});
      } else {
        heap_pop(heap_);
      }
      const uint32_t probed = keys_[t] ^ static_cast<uint32_t>(best.where);
      // Flipping the newest bit leads nowhere new while that bucket is not split.
      if ((best.where >> directory_.level) != 0 && !directory_.is_split(probed)) continue;
      visit = {directory_.bucket_of(probed), t, std::popcount(static_cast<uint32_t>(best.where))};
      return true;
    }
    return false;
  }

 private:
  void order_bits(int32_t t, const float* margins) {
    keys_[t] = 0;
    for (int32_t j = 0; j < bits_; ++j) {
      keys_[t] |= static_cast<uint32_t>(margins[j] > 0.0f) << j;
      const float cost = margins[j] * margins[j];
      int32_t i = j;
      for (; i > 0 && cost_[t][i - 1] > cost; --i) {
        cost_[t][i] = cost_[t][i - 1];
        bit_[t][i] = bit_[t][i - 1];
      }
      cost_[t][i] = cost;
      bit_[t][i] = static_cast<int8_t>(j);
    }
  }

  LinearDirectory directory_;
  int32_t tables_;
  int32_t bits_;
  int32_t started_ = 0;  // tables whose own bucket was given
  std::vector<Branch>& heap_;
  uint32_t keys_[kMaxTables];
  float cost_[kMaxTables][kMaxBits];
  int8_t bit_[kMaxTables][kMaxBits];
};

}  // namespace sparsam::SPARSAM_ISA
