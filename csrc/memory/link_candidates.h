// Entries of a row of links while it is being changed, and the choice of those that it keeps.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "memory/links.h"
#include "support/recycled.h"
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

#if SPARSAM_VECTOR_BYTES == 64
// The `k` largest of 16 entries into `out`: ties to the lowest column, none that is not above 0, the rest empty.
inline void keep_largest(int k, __m512 weights, __m512i columns, __mmask16 valid, const LinkRow<float>& out) {
  const auto places = __mmask8((1u << k) - 1);
  valid = _mm512_mask_cmp_ps_mask(valid, weights, _mm512_set1_ps(kNoLink<float>), _CMP_GT_OQ);
  if (std::popcount(uint32_t(valid)) > k) {
    weights = _mm512_maskz_mov_ps(valid, weights);
    alignas(64) float each[16];
    _mm512_store_ps(each, weights);
    const __m512i one = _mm512_set1_epi32(1), most = _mm512_set1_epi32(k);
    __m512i even = _mm512_setzero_si512(), odd = even;  // larger entries: two sums, so that neither waits
#pragma GCC unroll 8
    for (int m = 0; m < 16; m += 2) {
      even = _mm512_mask_add_epi32(even, _mm512_cmp_ps_mask(_mm512_set1_ps(each[m]), weights, _CMP_GT_OQ), even, one);
      odd = _mm512_mask_add_epi32(odd, _mm512_cmp_ps_mask(_mm512_set1_ps(each[m + 1]), weights, _CMP_GT_OQ), odd, one);
    }
    __m512i before = _mm512_add_epi32(even, odd);
    __mmask16 kept = _mm512_mask_cmplt_epi32_mask(valid, before, most);
    if (std::popcount(uint32_t(kept)) != k) {  // equal weights across the boundary
      alignas(64) int32_t column[16];
      _mm512_store_si512(column, columns);
      for (int m = 0; m < 16; ++m)
        before = _mm512_mask_add_epi32(
            before,
            _mm512_mask_cmplt_epi32_mask(_mm512_mask_cmp_ps_mask(valid, _mm512_set1_ps(each[m]), weights, _CMP_EQ_OQ),
                                         _mm512_set1_epi32(column[m]), columns),
            before, one);
      kept = _mm512_mask_cmplt_epi32_mask(valid, before, most);
    }
    valid = kept;
  }
  const __m512i some = _mm512_maskz_compress_epi32(valid, columns);
  _mm256_mask_storeu_epi32(out.columns, places, _mm512_castsi512_si256(some));
  _mm256_mask_storeu_ps(out.weights, places, _mm512_castps512_ps256(_mm512_maskz_compress_ps(valid, weights)));
}
#endif

// Entries of a row while it is being changed: more than it will keep. Columns are row numbers plus 1.
template <class T>
class Candidates {
 public:
  explicit Candidates(int capacity)
      : columns_(capacity + 16), weights_(recycled_array<T>(capacity + 16)), ranks_(capacity + 16) {}

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
      if (k <= 8) return keep_largest_in_vectors(k, out);
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
  // The same in registers: of the first 16 entries the k largest, then of those and the next few, and so on.
  void keep_largest_in_vectors(int k, const LinkRow<T>& out) {
    int first = 0;
    auto keep = [&](const LinkRow<T>& to) {
      const auto some = __mmask16((1u << std::min(size_ - first, 16)) - 1);
      sparsam::SPARSAM_ISA::keep_largest(k, _mm512_maskz_loadu_ps(some, weights_.get() + first),
                                         _mm512_maskz_loadu_epi32(some, columns_.data() + first), some, to);
    };
    for (; size_ - first > 16; first += 16 - k)
      keep({weights_.get() + first + 16 - k, columns_.data() + first + 16 - k});
    keep(out);
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
  Recycled<T> weights_;
  std::vector<int32_t> ranks_;
};

}  // namespace sparsam::SPARSAM_ISA
