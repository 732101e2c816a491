// Sets of rows and numbers of rows; nothing is touched until a row is put in.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <exception>

#include "support/lazy_array.h"

namespace sparsam {

// A set of rows that finds the first row it does not hold, in O(log64 N). Level 0 has a bit for each row. A bit of a
// higher level says that the 64 bits below it are all set.
class RowSet {
 public:
  explicit RowSet(int32_t rows) : rows_(rows), bits_(shape(rows)) {}
  RowSet(const RowSet& other) : RowSet(other.rows_) {
    std::memcpy(bits_.data(), other.bits_.data(), bits_.size() * sizeof(uint64_t));
  }

  // Hand the bits on, all of them erased again, to the next set of this size. `touched` bytes of them are resident.
  void recycle(size_t touched) { bits_.recycle(touched); }

  bool contains(int32_t row) const { return bits_[size_t(row) / 64] >> (row % 64) & 1; }

  void insert(int32_t row) {
    size_t at = size_t(row);
    for (int level = 0; level < levels_; ++level, at /= 64) {
      uint64_t& word = bits_[begin_[level] + at / 64];
      word |= uint64_t{1} << (at % 64);
      if (word != ~uint64_t{0}) return;
    }
  }

  void erase(int32_t row) {
    size_t at = size_t(row);
    for (int level = 0; level < levels_; ++level, at /= 64) {
      uint64_t& word = bits_[begin_[level] + at / 64];
      const bool was_full = word == ~uint64_t{0};
      word &= ~(uint64_t{1} << (at % 64));
      if (!was_full) return;
    }
  }

  // The lowest row from `from` on that is not in the set; the number of rows when there is none.
  int32_t first_absent(int32_t from) const {
    size_t at = size_t(from);
    for (int level = 0; level < levels_; ++level) {
      const size_t word = at / 64;
      if (word >= begin_[level + 1] - begin_[level]) return rows_;
      const uint64_t absent = ~bits_[begin_[level] + word] & (~uint64_t{0} << (at % 64));
      if (absent != 0) return descend(level, word * 64 + std::countr_zero(absent));
      at = word + 1;
    }
    return rows_;
  }

 private:
  static constexpr int kMostLevels = 6;  // 64^6 rows

  size_t shape(int32_t rows) {
    size_t count = size_t(rows);
    do {
      count = (count + 63) / 64;
      begin_[levels_ + 1] = begin_[levels_] + count;
      ++levels_;
    } while (count > 1);
    return begin_[levels_];
  }

  int32_t descend(int level, size_t at) const {
    while (level-- > 0) {
      if (at >= begin_[level + 1] - begin_[level]) return rows_;
      at = at * 64 + size_t(std::countr_zero(~bits_[begin_[level] + at]));
    }
    return at < size_t(rows_) ? int32_t(at) : rows_;
  }

  int32_t rows_;
  int levels_ = 0;
  size_t begin_[kMostLevels + 1] = {};
  LazyArray<uint64_t> bits_;
};

// Numbers given to a few rows out of N, found by row. Zero bytes mean 'none', so it costs what it holds. Clear what was
// set.
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
