// Numbers given to a few rows out of N, found by row.
#pragma once

#include <cstdint>
#include <exception>

#include "support/lazy_array.h"

namespace sparsam {

// Zero bytes mean 'none', so it costs what it holds. Clear what was set.
class RowSlots {
 public:
  explicit RowSlots(int32_t rows) : slots_(size_t(rows)) {}
  ~RowSlots() {
    if (std::uncaught_exceptions() == 0) slots_.recycle(0);  // a step that ended halfway leaves numbers behind
  }
  int32_t find(int32_t row) const { return slots_[row] - 1; }  // -1 for none
  int32_t find_plus_1(int32_t row) const { return slots_[row]; }
  void set(int32_t row, int32_t slot) { slots_[row] = slot + 1; }
  void clear(int32_t row) { slots_[row] = 0; }

 private:
  LazyArray<int32_t> slots_;
};

}  // namespace sparsam
