// Sums of products of a query in 8 bits and the codes of 16 words at a time, in 4 bits a component.
//
// A block is four quarters of 16 words. A quarter holds, for each eight components (a plane), four bytes of each word:
// components 0 to 3 in the low nibbles, 4 to 7 in the high ones. So a plane of a quarter is one vector of 64 bytes, and
// one instruction (VNNI) or two multiply four components of 16 words and add them up. Queries are such that 16 bits
// hold the whole sum (word_codes.h), so that every instruction set computes the same integers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "index/best_codes.h"

#if defined(__AVX512BW__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace sparsam::SPARSAM_ISA {

constexpr int32_t kBlockWords = 64;
constexpr int32_t kQuarterWords = 16;
constexpr int32_t kPlaneComponents = 8;
constexpr int32_t kPlaneBytes = 64;  // of a quarter

// What there is of some quarters, one after the other: their codes, and what a sum makes a score of (word_codes.h).
struct CodedQuarters {
  const uint8_t* codes;
  int planes;
  const float* factors;
  const float* biases;
  int32_t first;  // place of the first word
  int32_t count;  // of quarters
};

// The words whose score with the query of head h may be among the best so far are noted there (best_codes.h), which must
// have room for all. No word of these quarters with a sum below least[h] is of interest: most are told by that alone.
// The query of head h, of 8 * planes bytes, begins at queries + h * 8 * planes.
using NoteScores = void (*)(const CodedQuarters& some, int heads, const int8_t* queries, const int32_t* least,
                            BestCodes* best);

// Four components of a query as one number.
inline int32_t four(const int8_t* query) {
  int32_t all;
  std::memcpy(&all, query, sizeof all);
  return all;
}

#if defined(__AVX512BW__)

// Adds the products of codes and query to sums, four at a time. VNNI is written out, because this file is compiled for
// processors that have none too: there pairs are added up in 16 bits.
template <bool kVnni>
void add_products(__m512i& sums, __m512i codes, __m512i query) {
  if constexpr (kVnni)
    asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(codes), "v"(query));
  else
    sums = _mm512_add_epi16(sums, _mm512_maddubs_epi16(codes, query));
}

template <bool kVnni, int kHeads>
void note_of_heads(const CodedQuarters& some, const int8_t* queries, const int32_t* least, BestCodes* best) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i nibble = _mm512_set1_epi8(15);
  const int planes = some.planes;
  const uint8_t* codes = some.codes;
  for (int32_t i = 0; i < some.count; ++i) {
    __m512i low[kHeads], high[kHeads];
    for (int h = 0; h < kHeads; ++h) low[h] = high[h] = _mm512_setzero_si512();
    for (int p = 0; p < planes; ++p, codes += kPlaneBytes) {
      const __m512i bytes = _mm512_loadu_si512(codes);
      const __m512i x = _mm512_and_si512(bytes, nibble), y = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), nibble);
#pragma GCC unroll 4
      for (int h = 0; h < kHeads; ++h) {
        const int8_t* q = queries + (h * planes + p) * kPlaneComponents;
        add_products<kVnni>(low[h], x, _mm512_set1_epi32(four(q)));
        add_products<kVnni>(high[h], y, _mm512_set1_epi32(four(q + 4)));
      }
    }
#pragma GCC unroll 4
    for (int h = 0; h < kHeads; ++h) {
      const __m512i sum = kVnni ? _mm512_add_epi32(low[h], high[h])
                                : _mm512_madd_epi16(_mm512_add_epi16(low[h], high[h]), _mm512_set1_epi16(1));
      const __mmask16 enough = _mm512_cmpge_epi32_mask(sum, _mm512_set1_epi32(least[h]));
      if (enough == 0) continue;
      BestCodes& to = best[h];
      const __m512 product = _mm512_fmadd_ps(_mm512_set1_ps(to.unit), _mm512_cvtepi32_ps(sum), _mm512_set1_ps(to.base));
      const __m512 score = _mm512_fmadd_ps(_mm512_loadu_ps(some.factors + i * kQuarterWords), product,
                                           _mm512_loadu_ps(some.biases + i * kQuarterWords));
      const __mmask16 good = _mm512_mask_cmp_ps_mask(enough, score, _mm512_set1_ps(to.worst()), _CMP_GE_OQ);
      _mm512_mask_compressstoreu_ps(to.noted_scores + to.noted_count, good, score);
      _mm512_mask_compressstoreu_epi32(to.noted_places + to.noted_count, good,
                                       _mm512_add_epi32(_mm512_set1_epi32(some.first + i * kQuarterWords), lane));
      to.noted_count += __builtin_popcount(good);
    }
  }
}
template <bool kVnni>
void note_products(const CodedQuarters& some, int heads, const int8_t* queries, const int32_t* least, BestCodes* best) {
  int h = 0;
  const int of_each = some.planes * kPlaneComponents;
  for (; h + 4 <= heads; h += 4) note_of_heads<kVnni, 4>(some, queries + h * of_each, least + h, best + h);
  for (; h < heads; ++h) note_of_heads<kVnni, 1>(some, queries + h * of_each, least + h, best + h);
}
inline NoteScores note_scores() {
  return __builtin_cpu_supports("avx512vnni") ? note_products<true> : note_products<false>;
}

#elif defined(__AVX2__)

inline void note_scores_halves(const CodedQuarters& some, int heads, const int8_t* queries, const int32_t* least,
                               BestCodes* best) {
  alignas(32) float scores[8];
  const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  const uint8_t* codes = some.codes;
  for (int32_t i = 0; i < some.count; ++i, codes += static_cast<size_t>(some.planes) * kPlaneBytes) {
    for (int half = 0; half < 2; ++half) {
      const int32_t offset = i * kQuarterWords + 8 * half;
      for (int h = 0; h < heads; ++h) {
        __m256i a = _mm256_setzero_si256(), b = a;
        const int8_t* q = queries + static_cast<size_t>(h) * static_cast<size_t>(some.planes) * kPlaneComponents;
        for (int p = 0; p < some.planes; ++p, q += kPlaneComponents) {
          const __m256i bytes = _mm256_loadu_si256(
              reinterpret_cast<const __m256i*>(codes + static_cast<size_t>(p) * kPlaneBytes + 32 * half));
          const __m256i x = _mm256_and_si256(bytes, low), y = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
          a = _mm256_add_epi16(a, _mm256_maddubs_epi16(x, _mm256_set1_epi32(four(q))));
          b = _mm256_add_epi16(b, _mm256_maddubs_epi16(y, _mm256_set1_epi32(four(q + 4))));
        }
        const __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
        const __m256i enough = _mm256_cmpgt_epi32(sum, _mm256_set1_epi32(least[h] - 1));
        uint32_t lanes = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(enough)));
        if (lanes == 0) continue;
        BestCodes& to = best[h];
        const __m256 score = _mm256_fmadd_ps(
            _mm256_loadu_ps(some.factors + offset),
            _mm256_fmadd_ps(_mm256_set1_ps(to.unit), _mm256_cvtepi32_ps(sum), _mm256_set1_ps(to.base)),
            _mm256_loadu_ps(some.biases + offset));
        lanes &= static_cast<uint32_t>(
            _mm256_movemask_ps(_mm256_cmp_ps(score, _mm256_set1_ps(to.worst()), _CMP_GE_OQ)));
        _mm256_store_ps(scores, score);
        for (; lanes != 0; lanes &= lanes - 1) {
          const int32_t lane = std::countr_zero(lanes);
          to.note(some.first + offset + lane, scores[lane]);
        }
      }
    }
  }
}
inline NoteScores note_scores() { return note_scores_halves; }

#else

inline void note_scores_plainly(const CodedQuarters& some, int heads, const int8_t* queries, const int32_t* least,
                                BestCodes* best) {
  const uint8_t* codes = some.codes;
  for (int32_t i = 0; i < some.count; ++i, codes += static_cast<size_t>(some.planes) * kPlaneBytes) {
    for (int h = 0; h < heads; ++h) {
      for (int lane = 0; lane < kQuarterWords; ++lane) {
        const int8_t* q = queries + static_cast<size_t>(h) * static_cast<size_t>(some.planes) * kPlaneComponents;
        int32_t sum = 0;
        for (int p = 0; p < some.planes; ++p, q += kPlaneComponents)
          for (int j = 0; j < 4; ++j) {
            const int32_t byte = codes[static_cast<size_t>(p) * kPlaneBytes + static_cast<size_t>(4 * lane + j)];
            sum += (byte & 15) * q[j] + (byte >> 4) * q[4 + j];
          }
        if (sum < least[h]) continue;
        const int32_t offset = i * kQuarterWords + lane;
        const float score =
            some.factors[offset] * (best[h].unit * static_cast<float>(sum) + best[h].base) + some.biases[offset];
        if (score >= best[h].worst()) best[h].note(some.first + offset, score);
      }
    }
  }
}
inline NoteScores note_scores() { return note_scores_plainly; }

#endif

}  // namespace sparsam::SPARSAM_ISA
