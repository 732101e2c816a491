// What a sequence did to the links, so that it can be taken back and applied again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory/links.h"
#include "memory/shape.h"
#include "support/recycled.h"

namespace sparsam {

// Two lists for every step. First the entries of P that only decayed: most rows of P change in one or two numbers, and a
// whole row would be many times as much to put down and to swap. Then whole rows as they were: N and P of the rows that
// took in new entries, and p. Undoing a step swaps both lists with what stands in `Links`, the latest first, so that the
// same journal then holds what redoing needs. Blocks are taken as they fill.
template <class T>
class LinkJournal {
 public:
  struct Decayed {
    int32_t row, entry;  // of P
    T weight;            // before it decayed
  };

  LinkJournal(int64_t steps, const MemoryShape& shape)
      : stride_(link_row_bytes<T>(shape.k_links)),
        most_decayed_(int64_t(shape.max_writes()) * std::min(shape.k_links, shape.rows)),
        block_decayed_(std::max(kDecayedBlock, most_decayed_)) {
    steps_.reserve(steps);
  }

  void begin_step(const Links<T>&) {
    if (decayed_blocks_.empty() || decayed_at_ + most_decayed_ > block_decayed_) {
      decayed_blocks_.push_back(recycled_array<Decayed>(block_decayed_));
      decayed_at_ = 0;
    }
    steps_.push_back({int64_t(ids_.size()), int64_t(decayed_blocks_.size()) - 1, decayed_at_, 0});
  }
  // At most R(K+1) K_L in a step, and none of them after a whole row of the same step.
  void save_decayed(int32_t row, int32_t entry, T weight) {
    decayed_blocks_.back()[decayed_at_++] = {row, entry, weight};
    ++steps_.back().decayed;
  }
  void save(const Links<T>& links, int64_t id) {
    const int64_t record = int64_t(ids_.size());
    if (record == int64_t(blocks_.size()) * kBlock) blocks_.push_back(recycled_array<std::byte>(kBlock * stride_));
    ids_.push_back(id);
    copy_lines(saved(record), links.bytes(id), stride_);
  }

  // Whole rows of a step, in the order in which they were saved.
  int64_t begin(int64_t step) const { return steps_[step].first; }
  int64_t end(int64_t step) const {
    return step + 1 < int64_t(steps_.size()) ? steps_[step + 1].first : int64_t(ids_.size());
  }
  int64_t id(int64_t record) const { return ids_[record]; }
  std::byte* saved(int64_t record) { return blocks_[record / kBlock].get() + (record % kBlock) * stride_; }
  const std::byte* saved(int64_t record) const {
    return blocks_[record / kBlock].get() + (record % kBlock) * stride_;
  }
  // Entries of a step that only decayed.
  const Decayed* decayed(int64_t step) const { return decayed_blocks_[steps_[step].block].get() + steps_[step].offset; }
  int32_t decayed_count(int64_t step) const { return steps_[step].decayed; }

  void undo(Links<T>& links, int64_t step) {
    for (int64_t record = end(step); record-- > begin(step);) swap(links, record);
    swap_decayed(links, step);
  }
  void redo(Links<T>& links, int64_t step) {
    swap_decayed(links, step);
    for (int64_t record = begin(step); record < end(step); ++record) swap(links, record);
  }
  size_t bytes() const {
    size_t total = ids_.size() * (stride_ + sizeof(int64_t)) + steps_.size() * sizeof(Step);
    for (const Step& step : steps_) total += size_t(step.decayed) * sizeof(Decayed);
    return total;
  }

 private:
  static constexpr int64_t kBlock = 256, kDecayedBlock = 1024;  // records
  struct Step {
    int64_t first;          // whole row
    int64_t block, offset;  // of its decayed entries
    int32_t decayed;        // how many
  };
  void swap(Links<T>& links, int64_t record) { swap_lines(saved(record), links.bytes(ids_[record]), stride_); }
  // In any order: no entry decays twice in a step.
  void swap_decayed(Links<T>& links, int64_t step) {
    Decayed* const first = decayed_blocks_[steps_[step].block].get() + steps_[step].offset;
    for (int32_t i = 0; i < steps_[step].decayed; ++i)
      std::swap(first[i].weight, links.row(links.successors(first[i].row)).weights[first[i].entry]);
  }

  size_t stride_;
  int64_t most_decayed_, block_decayed_, decayed_at_ = 0;
  std::vector<Step> steps_;
  std::vector<int64_t> ids_;  // which row each record is
  std::vector<Recycled<std::byte>> blocks_;
  std::vector<Recycled<Decayed>> decayed_blocks_;
};

}  // namespace sparsam
