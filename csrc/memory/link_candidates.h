// Entries of a row of links while it is being changed, and the choice of those that it keeps.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "memory/links.h"
#include "support/aligned.h"
#include "support/simd.h"

namespace sparsam::SPARSAM_ISA {

// Position of `wanted` among `count` numbers, -1 for none. Up to a vector beyond the end is read.
inline int position(const int32_t* in, int count, int32_t wanted) {
#if defined(__AVX2__)
  const __m256i w = _mm256_set1_epi32(wanted);
  for (int e = 0; e < count; e += 8) {
    const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + e));
    const uint32_t equal = uint32_t(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(some, w))));
    if (equal != 0) {
      const int at = e + std::countr_zero(equal);
      return at < count ? at : -1;
    }
  }
#else
  for (int e = 0; e < count; ++e)
    if (in[e] == wanted) return e;
#endif
  return -1;
}

// What counts as above 0. A saturated gate leaves numbers just above the smallest normal one where a sigmoid in other
// arithmetic rounds to 0, and subnormal numbers would slow every step that follows.
template <class T>
constexpr T kNoLink = 16 * std::numeric_limits<T>::min();

// Entries of a row while it is being changed: more than it will keep. Columns are row numbers plus 1.
template <class T>
class Candidates {
 public:
  explicit Candidates(int capacity)
      : columns_(capacity + 16), weights_(aligned_array<T>(capacity + 16)), ranks_(capacity + 16) {}

  int size() const { return size_; }
  int32_t column(int e) const { return columns_[e]; }
  T& weight(int e) { return weights_[e]; }
  void clear() { size_ = 0; }
  void push(int32_t column, T weight) {
    columns_[size_] = column;
    weights_[size_++] = weight;
  }
  // A row's entries, their weights times `scale`. Eight at a time: both sides have room to spare.
  void push_row(const LinkRow<T>& row, int count, T scale) {
    int32_t* columns = columns_.data() + size_;
    T* weights = weights_.get() + size_;
    for (int at = 0; at < count; at += 8) {
      std::memcpy(columns + at, row.columns + at, 8 * sizeof(int32_t));
      T some[8];
      std::memcpy(some, row.weights + at, sizeof(some));
      for (int e = 0; e < 8; ++e) some[e] *= scale;
      std::memcpy(weights + at, some, sizeof(some));
    }
    size_ += count;
  }
  // Adds to each entry what stands at its place in `more`.
  void add(const T* more) {
    for (int at = 0; at < size_; at += 8)
      for (int e = at; e < at + 8; ++e) weights_[e] += more[e];
  }

  // The `k` largest entries into `out`, ties to the lowest column and none that is not above 0; the rest is empty.
  void keep_largest(int k, const LinkRow<T>& out) {
#if SPARSAM_VECTOR_BYTES == 64
    if constexpr (sizeof(T) == 4)
      if (k <= 8 && keep_largest_in_vectors(k, out)) return;
#endif
    const bool all = size_ <= k;
    if (!all) rank(k);
    int kept = 0;
    for (int e = 0; e < size_; ++e) {  // no branches: which entries stay is hard to foretell
      columns_[kept] = columns_[e];
      weights_[kept] = weights_[e];
      kept += (weights_[e] > kNoLink<T>) & (all | (ranks_[e] < k));
    }
    for (int e = 0; e < k; ++e) {
      out.columns[e] = e < kept ? columns_[e] : 0;
      out.weights[e] = e < kept ? weights_[e] : T(0);
    }
  }

 private:
#if SPARSAM_VECTOR_BYTES == 64
  // The same in registers: of the first 16 entries the k largest, then of those and the next few, and so on. False when
  // equal weights lie across a boundary; then what is still to choose from is left here.
  bool keep_largest_in_vectors(int k, const LinkRow<T>& out) {
    int first = 0;
    while (size_ - first > 16) {
      const LinkRow<T> next{weights_.get() + first + 16 - k, columns_.data() + first + 16 - k};
      if (!keep_largest_of_vector(first, 16, k, next)) break;
      first += 16 - k;
    }
    if (size_ - first <= 16 && keep_largest_of_vector(first, size_ - first, k, out)) return true;
    size_ -= first;
    std::memmove(columns_.data(), columns_.data() + first, sizeof(int32_t) * size_);
    std::memmove(weights_.get(), weights_.get() + first, sizeof(T) * size_);
    return false;
  }
  bool keep_largest_of_vector(int first, int n, int k, const LinkRow<T>& out) const {
    const T* weights = weights_.get() + first;
    const auto some = __mmask16((1u << n) - 1), places = __mmask16((1u << k) - 1);
    const __m512 ours = _mm512_maskz_loadu_ps(some, weights);
    __mmask16 kept = _mm512_mask_cmp_ps_mask(some, ours, _mm512_set1_ps(kNoLink<T>), _CMP_GT_OQ);
    if (n > k) {
      __m512i larger = _mm512_setzero_si512();
      const __m512i one = _mm512_set1_epi32(1);
      for (int m = 0; m < n; ++m)
        larger = _mm512_mask_add_epi32(
            larger, _mm512_cmp_ps_mask(_mm512_set1_ps(weights[m]), ours, _CMP_GT_OQ), larger, one);
      const __mmask16 before = _mm512_mask_cmplt_epi32_mask(some, larger, _mm512_set1_epi32(k));
      if (std::popcount(uint32_t(before)) != k) return false;
      kept &= before;
    }
    const __m512i columns = _mm512_maskz_loadu_epi32(some, columns_.data() + first);
    _mm512_mask_storeu_epi32(out.columns, places, _mm512_maskz_compress_epi32(kept, columns));
    _mm512_mask_storeu_ps(out.weights, places, _mm512_maskz_compress_ps(kept, ours));
    return true;
  }
#endif

  // How many entries come before each.
  void rank(int k) {
    using I = typename Simd<T>::I;
    for (int e = size_; e < size_ + kLanes<T>; ++e) weights_[e] = -1;
    int before = 0;  // entries with fewer than k larger ones
    for (int at = 0; at < size_; at += kLanes<T>) {
      const Vec<T> ours = load(weights_.get() + at);
      I larger{};
      for (int m = 0; m < size_; ++m) larger -= splat(weights_[m]) > ours;
      for (int e = 0; e < std::min(kLanes<T>, size_ - at); ++e) {
        ranks_[at + e] = int32_t(larger[e]);
        before += larger[e] < k;
      }
    }
    if (before == k) return;
    for (int e = 0; e < size_; ++e)  // equal weights across the boundary
      for (int m = 0; m < size_; ++m) ranks_[e] += (weights_[m] == weights_[e]) & (columns_[m] < columns_[e]);
  }

  int size_ = 0;
  std::vector<int32_t> columns_;
  Aligned<T> weights_;
  std::vector<int32_t> ranks_;
};

}  // namespace sparsam::SPARSAM_ISA
