// What reads find through rows of up to 8 links, in AVX-512 registers and float32.
#pragma once

#include <algorithm>
#include <cstdint>

#include "memory/links.h"
#include "support/simd.h"

#if SPARSAM_VECTOR_BYTES == 64

namespace sparsam::SPARSAM_ISA {

class LinkReads {
 public:
  static constexpr int kMostLinks = 8, kMostRows = 16;
  static bool fits(int k, int k_links) { return k_links <= kMostLinks && k <= kMostRows; }

  explicit LinkReads(int k_links) : places_(__mmask8((1u << k_links) - 1)) {}

  // The rows of a head that links are looked up for: `k` of them.
  void begin(int k, const int32_t* rows) {
    k_ = k;
    for (int i = 0; i < k; ++i) {
      columns_[i] = _mm256_set1_epi32(rows[i] + 1);
      sums_[i] = _mm256_setzero_ps();
    }
    total_ = most_ = _mm256_setzero_ps();
    rows_ = 0;
  }

  // Adds a row of links times `scale` to what its head's rows have got.
  void add(const LinkRow<const float>& row, float scale) {
    const __m256i columns = _mm256_maskz_loadu_epi32(places_, row.columns);
    const __m256 weights = _mm256_mul_ps(_mm256_maskz_loadu_ps(places_, row.weights), _mm256_set1_ps(scale));
    for (int i = 0; i < k_; ++i)
      sums_[i] = _mm256_mask_add_ps(sums_[i], _mm256_cmpeq_epi32_mask(columns, columns_[i]), sums_[i], weights);
    total_ = _mm256_add_ps(total_, weights);
    most_ = _mm256_max_ps(most_, weights);
    ++rows_;
  }
  float sum(int i) const { return reduce_add(sums_[i]); }
  // No row that was not looked up has got more than this: a row of links has it once at most. Rounding is allowed for.
  float bound_of_others() const { return 1.001f * std::min(reduce_add(total_), float(rows_) * reduce_max(most_)); }

  // The sum over a row of links of their weights times `d` of the rows that they lead to.
  float weigh(const LinkRow<const float>& row, const float* d) const {
    const __m256i columns = _mm256_maskz_loadu_epi32(places_, row.columns);
    __m256 factors = _mm256_setzero_ps();
    for (int i = 0; i < k_; ++i)
      factors = _mm256_mask_mov_ps(factors, _mm256_cmpeq_epi32_mask(columns, columns_[i]), _mm256_set1_ps(d[i]));
    return reduce_add(_mm256_mul_ps(factors, _mm256_maskz_loadu_ps(places_, row.weights)));
  }

 private:
  static float reduce_add(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static float reduce_max(__m256 v) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }

  __mmask8 places_;
  int k_ = 0, rows_ = 0;
  __m256i columns_[kMostRows];
  __m256 sums_[kMostRows];
  __m256 total_, most_;
};

}  // namespace sparsam::SPARSAM_ISA

#endif
