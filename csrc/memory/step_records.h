// What a journal keeps of each step of a sequence: at most so many records a step, in one block, since a journal of one
// step should cost one allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "support/recycled.h"

namespace sparsam {

template <class Record>
class StepRecords {
 public:
  StepRecords(int64_t steps, int32_t most)
      : steps_(steps),
        most_(most),
        block_(recycled_array<std::byte>(bytes())),
        records_(reinterpret_cast<Record*>(block_.get())),
        counts_(reinterpret_cast<int32_t*>(records_ + steps * most)) {}

  size_t bytes() const { return size_t(steps_) * (sizeof(int32_t) + size_t(most_) * sizeof(Record)); }
  void begin_step() { counts_[size_++] = 0; }
  void add(const Record& record) { records_[(size_ - 1) * most_ + counts_[size_ - 1]++] = record; }
  Record* begin(int64_t step) const { return records_ + step * most_; }
  Record* end(int64_t step) const { return begin(step) + counts_[step]; }

 private:
  int64_t steps_, size_ = 0;
  int32_t most_;
  Recycled<std::byte> block_;  // of the two that follow
  Record* records_;
  int32_t* counts_;
};

}  // namespace sparsam
