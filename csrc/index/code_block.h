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
// Macros, because functions that are given other target options cannot share inline ones.
#define SPARSAM_NOTE(sum, head)                                                                             \
  {                                                                                                         \
    const __m512i all = sum;                                                                                \
    const __mmask16 enough = _mm512_cmpge_epi32_mask(all, _mm512_set1_epi32(least[head]));                  \
    if (enough != 0) {                                                                                      \
      BestCodes& to = best[head];                                                                           \
      const __m512 factor = _mm512_loadu_ps(some.factors + i * kQuarterWords);                              \
      const __m512 bias = _mm512_loadu_ps(some.biases + i * kQuarterWords);                                 \
      const __m512 score = _mm512_fmadd_ps(                                                                 \
          factor, _mm512_fmadd_ps(_mm512_set1_ps(to.unit), _mm512_cvtepi32_ps(all), _mm512_set1_ps(to.base)), bias);\
      const __mmask16 good = _mm512_mask_cmp_ps_mask(enough, score, _mm512_set1_ps(to.worst()), _CMP_GE_OQ); \
      _mm512_mask_compressstoreu_ps(to.noted_scores + to.noted_count, good, score);                         \
      _mm512_mask_compressstoreu_epi32(to.noted_places + to.noted_count, good,                              \
                                       _mm512_add_epi32(_mm512_set1_epi32(first), lane));                   \
      to.noted_count += __builtin_popcount(good);                                                           \
    }                                                                                                       \
  }
#define SPARSAM_NOTE_QUARTERS(multiply_add, finish)                                                         \
  const uint8_t* codes = some.codes;                                                                        \
  const int planes = some.planes;                                                                           \
  int32_t first = some.first;                                                                               \
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);             \
  const __m512i low = _mm512_set1_epi8(15);                                                                 \
  const size_t step = static_cast<size_t>(planes) * kPlaneComponents;                                       \
  for (int32_t i = 0; i < some.count; ++i, first += kQuarterWords, codes += static_cast<size_t>(planes) * kPlaneBytes) { \
    int h = 0;                                                                                              \
    for (; h + 4 <= heads; h += 4) {                                                                        \
      __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;                                              \
      const int8_t* q = queries + static_cast<size_t>(h) * step;                                            \
      for (int p = 0; p < planes; ++p, q += kPlaneComponents) {                                             \
        const __m512i bytes = _mm512_loadu_si512(codes + static_cast<size_t>(p) * kPlaneBytes);             \
        const __m512i x = _mm512_and_si512(bytes, low), y = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low);\
        a = multiply_add(a, x, _mm512_set1_epi32(four(q)));                                                 \
        b = multiply_add(b, x, _mm512_set1_epi32(four(q + step)));                                          \
        c = multiply_add(c, x, _mm512_set1_epi32(four(q + 2 * step)));                                      \
        d = multiply_add(d, x, _mm512_set1_epi32(four(q + 3 * step)));                                      \
        a = multiply_add(a, y, _mm512_set1_epi32(four(q + 4)));                                             \
        b = multiply_add(b, y, _mm512_set1_epi32(four(q + step + 4)));                                      \
        c = multiply_add(c, y, _mm512_set1_epi32(four(q + 2 * step + 4)));                                  \
        d = multiply_add(d, y, _mm512_set1_epi32(four(q + 3 * step + 4)));                                  \
      }                                                                                                     \
      SPARSAM_NOTE(finish(a), h)                                                                            \
      SPARSAM_NOTE(finish(b), h + 1)                                                                        \
      SPARSAM_NOTE(finish(c), h + 2)                                                                        \
      SPARSAM_NOTE(finish(d), h + 3)                                                                        \
    }                                                                                                       \
    for (; h < heads; ++h) {                                                                                \
      __m512i a = _mm512_setzero_si512(), b = a;                                                            \
      const int8_t* q = queries + static_cast<size_t>(h) * step;                                            \
      for (int p = 0; p < planes; ++p, q += kPlaneComponents) {                                             \
        const __m512i bytes = _mm512_loadu_si512(codes + static_cast<size_t>(p) * kPlaneBytes);             \
        const __m512i x = _mm512_and_si512(bytes, low), y = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low);\
        a = multiply_add(a, x, _mm512_set1_epi32(four(q)));                                                 \
        b = multiply_add(b, y, _mm512_set1_epi32(four(q + 4)));                                             \
      }                                                                                                     \
      SPARSAM_NOTE(_mm512_add_epi32(finish(a), finish(b)), h)                                               \
    }                                                                                                       \
  }

// In pairs of 16 bits, which are added up at the end.
inline void note_scores_pairs(const CodedQuarters& some, int heads, const int8_t* queries, const int32_t* least,
                              BestCodes* best) {
#define SPARSAM_MULTIPLY_ADD(sum, code, query) _mm512_add_epi16(sum, _mm512_maddubs_epi16(code, query))
#define SPARSAM_FINISH(sum) _mm512_madd_epi16(sum, _mm512_set1_epi16(1))
  SPARSAM_NOTE_QUARTERS(SPARSAM_MULTIPLY_ADD, SPARSAM_FINISH)
#undef SPARSAM_MULTIPLY_ADD
#undef SPARSAM_FINISH
}

__attribute__((target("avx512vnni,avx512bw,avx512vl,avx512dq"))) inline void note_scores_vnni(
    const CodedQuarters& some, int heads, const int8_t* queries, const int32_t* least, BestCodes* best) {
#define SPARSAM_FINISH(sum) (sum)
  SPARSAM_NOTE_QUARTERS(_mm512_dpbusd_epi32, SPARSAM_FINISH)
#undef SPARSAM_FINISH
}
#undef SPARSAM_NOTE_QUARTERS
#undef SPARSAM_NOTE

inline NoteScores note_scores() {
  return __builtin_cpu_supports("avx512vnni") ? note_scores_vnni : note_scores_pairs;
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
