// The distinct rows that a step touches, with the weights that fall on each. A handful, so comparing finds them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "support/simd.h"

namespace sparsam::SPARSAM_ISA {

template <class T>
class StepRows {
 public:
  explicit StepRows(int capacity)
      : rows_(capacity + kSome), found_(capacity + kSome), slots_(capacity), usage_(capacity) {}
  void clear() { count_ = 0; }
  int size() const { return count_; }
  int32_t row(int i) const { return rows_[i]; }
  const int32_t* rows() const { return rows_.data(); }
  const T* weights() const { return usage_.data(); }

  // Adds the weights of n rows, of which -1 are none; fresh(row) is called for each that is new. Up to kSome rows beyond
  // the end are read. New rows are put down at the end only: what was stored a moment ago, number by number, cannot be
  // loaded as a vector without waiting.
  template <class F>
  void add(int n, const int32_t* rows, const T* weights, F&& fresh) {
    const int before = count_;
    for (int i = 0; i < n; ++i) {
      const int32_t row = rows[i];
      if (row < 0) continue;
      int at = find(rows_.data(), before, row);
      if (at < 0) {
        const int first = find(rows, i + 1, row);
        at = first < i ? slots_[first] : count_;
      }
      if (at == count_) {
        usage_[count_++] = 0;
        fresh(row);
      }
      slots_[i] = at;
      usage_[at] += weights[i];
    }
    for (int i = 0; i < n; ++i)
      if (rows[i] >= 0) rows_[slots_[i]] = rows[i];
  }
  // Rows whose weights exceed delta, ascending.
  int accessed(T delta, int32_t* out) {
    int n = 0;
    for (int i = 0; i < count_; ++i) {
      found_[n] = rows_[i];
      n += usage_[i] > delta;
    }
    if (n > kFew) {
      std::copy_n(found_.data(), n, out);
      std::sort(out, out + n);
      return n;
    }
    for (int i = 0; i < n; i += kSome) {  // of a few distinct rows, each goes where the number of lower ones says
      int32_t lower[kSome] = {};
      for (int j = 0; j < n; ++j)
        for (int e = 0; e < kSome; ++e) lower[e] += found_[j] < found_[i + e];
      for (int e = 0; e < std::min(kSome, n - i); ++e) out[lower[e]] = found_[i + e];
    }
    return n;
  }

  static constexpr int kSome = 16;  // rows that are compared at once

 private:
  static constexpr int kFew = 64;

  static int find(const int32_t* in, int count, int32_t row) {  // the first place, -1 for none
#if SPARSAM_VECTOR_BYTES == 64
    for (int i = 0; i < count; i += kSome) {
      const uint32_t equal = _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(in + i), _mm512_set1_epi32(row));
      if (equal == 0) continue;
      const int at = i + std::countr_zero(equal);
      return at < count ? at : -1;
    }
    return -1;
#else
    int at = -1;
    for (int i = count; i-- > 0;) at = in[i] == row ? i : at;
    return at;
#endif
  }

  std::vector<int32_t> rows_, found_, slots_;
  std::vector<T> usage_;
  int count_ = 0;
};

}  // namespace sparsam::SPARSAM_ISA
