// Rows of up to 8 links in AVX-512 registers, in float32: the sums and choices of one step of the links
// (link_update.h), and what reads find through them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "memory/link_candidates.h"
#include "memory/links.h"
#include "support/simd.h"

#if SPARSAM_VECTOR_BYTES == 64

namespace sparsam::SPARSAM_ISA {

// Holds p and the rows written, these with the largest weights first. A row that is made anew has 8 old entries at most,
// and of all new ones it can keep but the 8 largest; they come in the same order for every row of P, so that 16
// candidates are always enough.
class LinkVectors {
 public:
  static constexpr int kMostLinks = 8, kMostWritten = 32;
  static bool fits(int k, int written) { return k <= kMostLinks && written <= kMostWritten; }

  void begin(int k, const LinkRow<float>& p, int n, const int32_t* written, const float* w) {
    places_ = __mmask8((1u << k) - 1);
    k_ = k;
    const __m256i columns = _mm256_maskz_loadu_epi32(places_, p.columns);
    const __mmask8 real = _mm256_test_epi32_mask(columns, columns);
    precedence_size_ = std::popcount(uint32_t(real));
    // Lanes without an entry have a column that no row has.
    p_columns_ = _mm256_mask_mov_epi32(_mm256_set1_epi32(-1), real, columns);
    p_weights_ = _mm256_maskz_loadu_ps(real, p.weights);
    _mm256_store_si256(reinterpret_cast<__m256i*>(p_column_), p_columns_);
    _mm256_store_ps(p_weight_, p_weights_);
    sort(n, written, w);
  }
  int precedence_size() const { return precedence_size_; }
  int32_t precedence_column(int e) const { return p_column_[e]; }
  bool any_written() const { return written_ > 0; }

  // N(i,.) for column i + 1. Returns the lanes of its old entries that are not in p, whose columns go to `columns`.
  uint32_t update_predecessors(const LinkRow<float>& row, int32_t column, float w, float decay, int32_t* columns) const {
    const __m256i olds = _mm256_maskz_loadu_epi32(places_, row.columns);
    const __mmask8 there = _mm256_test_epi32_mask(olds, olds);
    __m256 added = _mm256_setzero_ps();
    const __m256 more = _mm256_mul_ps(_mm256_set1_ps(w), p_weights_);
    alignas(32) float more_of[kMostLinks];
    _mm256_store_ps(more_of, more);
    uint32_t found = 0, fresh = 0;
#pragma GCC unroll 8
    for (int e = 0; e < kMostLinks; ++e) {
      const __mmask8 same = _mm256_cmpeq_epi32_mask(olds, _mm256_set1_epi32(p_column_[e]));
      added = _mm256_mask_mov_ps(added, same, _mm256_set1_ps(more_of[e]));
      found |= same;
      fresh |= uint32_t(same == 0) << e;
    }
    fresh &= _mm256_cmpneq_epi32_mask(p_columns_, _mm256_set1_epi32(column));
    fresh &= (1u << precedence_size_) - 1;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(columns), olds);
    const __m256 old = _mm256_maskz_loadu_ps(there, row.weights);
    const __m256 now = _mm256_add_ps(_mm256_mul_ps(old, _mm256_set1_ps(decay)), added);
    keep_largest(k_, join(now, more), join(olds, p_columns_), __mmask16(there | fresh << 8), row);
    return there & ~found;
  }

  // P(j,.) for the row j of entry `e` of p.
  void update_successors(const LinkRow<float>& row, int e) const {
    const __m256 one = _mm256_set1_ps(1), p = _mm256_set1_ps(p_weight_[e]);
    take_written(row, p_column_[e], _mm512_set1_ps(p_weight_[e]), [&](__m256 old, __m256 w) {
      return _mm256_fmadd_ps(_mm256_max_ps(_mm256_sub_ps(one, w), _mm256_setzero_ps()), old, _mm256_mul_ps(w, p));
    });
  }
  void update_precedence(const LinkRow<float>& row, float decay) const {
    take_written(row, -1, _mm512_set1_ps(1), [&](__m256 old, __m256 w) {
      return _mm256_fmadd_ps(_mm256_set1_ps(decay), old, w);
    });
  }

 private:
  static __m512 join(__m256 low, __m256 high) { return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1); }
  static __m512i join(__m256i low, __m256i high) { return _mm512_inserti32x8(_mm512_castsi256_si512(low), high, 1); }

  // The rows written with a weight above 0 by their weights, the largest first, equal ones by column.
  void sort(int n, const int32_t* written, const float* w) {
    alignas(64) float weights[kMostWritten];
    alignas(64) int32_t columns[kMostWritten], places[kMostWritten];
    written_ = 0;
    for (int a = 0; a < n; ++a) {
      weights[written_] = w[a];
      columns[written_] = written[a] + 1;
      written_ += w[a] > kNoLink<float>;
    }
    uint32_t seen = 0;
    const __m512i one = _mm512_set1_epi32(1);
    for (int ties = 0; ties < 2; ++ties) {
      for (int at = 0; at < written_; at += 16) {
        const __m512 ours = _mm512_load_ps(weights + at);
        const __m512i our_columns = _mm512_load_si512(columns + at);
        __m512i before = _mm512_setzero_si512();
        for (int m = 0; m < written_; ++m) {
          const __m512 other = _mm512_set1_ps(weights[m]);
          __mmask16 first = _mm512_cmp_ps_mask(other, ours, _CMP_GT_OQ);
          if (ties)
            first |= _mm512_mask_cmplt_epi32_mask(_mm512_cmp_ps_mask(other, ours, _CMP_EQ_OQ),
                                                  _mm512_set1_epi32(columns[m]), our_columns);
          before = _mm512_mask_add_epi32(before, first, before, one);
        }
        _mm512_store_si512(places + at, before);
      }
      for (int a = 0; a < written_; ++a) seen |= 1u << places[a];
      if (std::popcount(seen) == written_) break;
    }
    for (int i = 0; i < kMostWritten; i += 16) _mm512_store_si512(columns_ + i, _mm512_set1_epi32(-1));
    for (int a = 0; a < written_; ++a) {
      weights_[places[a]] = weights[a];
      columns_[places[a]] = columns[a];
    }
  }

  // A row whose old entries become `changed(entries, write weights of their rows)`, and whose new ones are the write
  // weights times `scale` of all rows written but the one of column `self`.
  template <class F>
  void take_written(const LinkRow<float>& row, int32_t self, __m512 scale, const F& changed) const {
    const __m256i olds = _mm256_maskz_loadu_epi32(places_, row.columns);
    const __mmask8 there = _mm256_test_epi32_mask(olds, olds);
    __m256 w = _mm256_setzero_ps();
    uint32_t fresh = 0;
    for (int a = 0; a < written_; ++a) {
      const __mmask8 same = _mm256_cmpeq_epi32_mask(olds, _mm256_set1_epi32(columns_[a]));
      w = _mm256_mask_mov_ps(w, same, _mm256_set1_ps(weights_[a]));
      fresh |= uint32_t(same == 0) << a;
    }
    const __m512i without = _mm512_set1_epi32(self);
    const __m512i first = _mm512_load_si512(columns_), second = _mm512_load_si512(columns_ + 16);
    fresh &= _mm512_cmpneq_epi32_mask(first, without) | uint32_t(_mm512_cmpneq_epi32_mask(second, without)) << 16;
    const auto low = __mmask16(fresh), high = __mmask16(fresh >> 16);
    __m512 new_weights = _mm512_maskz_compress_ps(low, _mm512_load_ps(weights_));
    __m512i new_columns = _mm512_maskz_compress_epi32(low, first);
    if (high != 0 && std::popcount(uint32_t(low)) < kMostLinks) {
      const auto after = __mmask16(0xffffu << std::popcount(uint32_t(low)));
      const __m512 some = _mm512_maskz_compress_ps(high, _mm512_load_ps(weights_ + 16));
      const __m512i their = _mm512_maskz_compress_epi32(high, second);
      new_weights = _mm512_mask_expand_ps(new_weights, after, some);
      new_columns = _mm512_mask_expand_epi32(new_columns, after, their);
    }
    const __m256 old = changed(_mm256_maskz_loadu_ps(there, row.weights), w);
    const uint32_t news = (1u << std::min(kMostLinks, std::popcount(fresh))) - 1;
    keep_largest(k_, join(old, _mm512_castps512_ps256(_mm512_mul_ps(new_weights, scale))),
         join(olds, _mm512_castsi512_si256(new_columns)), __mmask16(there | news << 8), row);
  }

  int k_ = 0, precedence_size_ = 0, written_ = 0;
  __mmask8 places_ = 0;
  __m256i p_columns_;
  __m256 p_weights_;
  alignas(32) int32_t p_column_[kMostLinks];
  alignas(32) float p_weight_[kMostLinks];
  alignas(64) float weights_[kMostWritten] = {};
  alignas(64) int32_t columns_[kMostWritten];
};

// What reads find through such rows.
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
