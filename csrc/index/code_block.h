// Sums of products of a query in 8 bits and the codes of 64 words at a time, in 4 bits a component.
//
// A block is four quarters of 16 words. A quarter holds, for each eight components (a plane), four bytes of each word:
// components 0 to 3 in the low nibbles, 4 to 7 in the high ones. So a plane of a quarter is one vector of 64 bytes, and
// one instruction (VNNI) or two multiply four components of 16 words and add them up. Queries are such that 16 bits
// hold the whole sum (word_codes.h), so that every instruction set computes the same integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX512BW__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace sparsam::SPARSAM_ISA {

constexpr int32_t kBlockWords = 64;
constexpr int32_t kQuarterWords = 16;
constexpr int32_t kPlaneComponents = 8;
constexpr int32_t kPlaneBytes = 64;  // of a quarter

// sums[h * 64 + lane] for each head h, whose query of 8 * planes bytes begins at queries + h * 8 * planes; bit i of
// lanes[h] is set where the sum of lane i is at least least[h].
using SumBlock = void (*)(const uint8_t* block, int planes, int heads, const int8_t* queries, const int32_t* least,
                          int32_t* sums, uint64_t* lanes);

// Four components of a query as one number.
inline int32_t four(const int8_t* query) {
  int32_t all;
  std::memcpy(&all, query, sizeof all);
  return all;
}

#if defined(__AVX512BW__)
// A macro, because functions that are given other target options cannot share inline ones.
#define SPARSAM_NOTE(sum, head)                                                                             \
  {                                                                                                         \
    const __m512i all = sum;                                                                                \
    _mm512_storeu_si512(out + (head) * kBlockWords, all);                                                   \
    lanes[head] |= uint64_t{_mm512_cmpge_epi32_mask(all, _mm512_set1_epi32(least[head]))}                   \
                   << (quarter * kQuarterWords);                                                            \
  }
#define SPARSAM_SUM_QUARTERS(multiply_add, finish)                                                          \
  const __m512i low = _mm512_set1_epi8(15);                                                                 \
  const size_t step = static_cast<size_t>(planes) * kPlaneComponents;                                       \
  for (int h = 0; h < heads; ++h) lanes[h] = 0;                                                             \
  for (int quarter = 0; quarter < 4; ++quarter, block += static_cast<size_t>(planes) * kPlaneBytes) {       \
    int32_t* out = sums + quarter * kQuarterWords;                                                          \
    int h = 0;                                                                                              \
    for (; h + 4 <= heads; h += 4) {                                                                        \
      __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;                                              \
      const int8_t* q = queries + static_cast<size_t>(h) * step;                                            \
      for (int p = 0; p < planes; ++p, q += kPlaneComponents) {                                             \
        const __m512i bytes = _mm512_loadu_si512(block + static_cast<size_t>(p) * kPlaneBytes);             \
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
        const __m512i bytes = _mm512_loadu_si512(block + static_cast<size_t>(p) * kPlaneBytes);             \
        const __m512i x = _mm512_and_si512(bytes, low), y = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low);\
        a = multiply_add(a, x, _mm512_set1_epi32(four(q)));                                                 \
        b = multiply_add(b, y, _mm512_set1_epi32(four(q + 4)));                                             \
      }                                                                                                     \
      SPARSAM_NOTE(_mm512_add_epi32(finish(a), finish(b)), h)                                               \
    }                                                                                                       \
  }

// In pairs of 16 bits, which are added up at the end.
inline void sum_block_pairs(const uint8_t* block, int planes, int heads, const int8_t* queries,
                            const int32_t* least, int32_t* sums, uint64_t* lanes) {
#define SPARSAM_MULTIPLY_ADD(sum, code, query) _mm512_add_epi16(sum, _mm512_maddubs_epi16(code, query))
#define SPARSAM_FINISH(sum) _mm512_madd_epi16(sum, _mm512_set1_epi16(1))
  SPARSAM_SUM_QUARTERS(SPARSAM_MULTIPLY_ADD, SPARSAM_FINISH)
#undef SPARSAM_MULTIPLY_ADD
#undef SPARSAM_FINISH
}

__attribute__((target("avx512vnni,avx512bw,avx512vl,avx512dq"))) inline void sum_block_vnni(
    const uint8_t* block, int planes, int heads, const int8_t* queries, const int32_t* least, int32_t* sums,
    uint64_t* lanes) {
#define SPARSAM_FINISH(sum) (sum)
  SPARSAM_SUM_QUARTERS(_mm512_dpbusd_epi32, SPARSAM_FINISH)
#undef SPARSAM_FINISH
}
#undef SPARSAM_SUM_QUARTERS
#undef SPARSAM_NOTE

inline SumBlock sum_block() { return __builtin_cpu_supports("avx512vnni") ? sum_block_vnni : sum_block_pairs; }

#elif defined(__AVX2__)

inline void sum_block_halves(const uint8_t* block, int planes, int heads, const int8_t* queries,
                            const int32_t* least, int32_t* sums, uint64_t* lanes) {
  const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  for (int h = 0; h < heads; ++h) lanes[h] = 0;
  for (int quarter = 0; quarter < 4; ++quarter, block += static_cast<size_t>(planes) * kPlaneBytes) {
    for (int half = 0; half < 2; ++half) {
      for (int h = 0; h < heads; ++h) {
        __m256i a = _mm256_setzero_si256(), b = a;
        const int8_t* q = queries + static_cast<size_t>(h) * static_cast<size_t>(planes) * kPlaneComponents;
        for (int p = 0; p < planes; ++p, q += kPlaneComponents) {
          const __m256i bytes = _mm256_loadu_si256(
              reinterpret_cast<const __m256i*>(block + static_cast<size_t>(p) * kPlaneBytes + 32 * half));
          const __m256i x = _mm256_and_si256(bytes, low), y = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
          a = _mm256_add_epi16(a, _mm256_maddubs_epi16(x, _mm256_set1_epi32(four(q))));
          b = _mm256_add_epi16(b, _mm256_maddubs_epi16(y, _mm256_set1_epi32(four(q + 4))));
        }
        const __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
        const int first = quarter * kQuarterWords + 8 * half;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + h * kBlockWords + first), sum);
        const __m256i enough = _mm256_cmpgt_epi32(sum, _mm256_set1_epi32(least[h] - 1));
        lanes[h] |= static_cast<uint64_t>(_mm256_movemask_ps(_mm256_castsi256_ps(enough))) << first;
      }
    }
  }
}
inline SumBlock sum_block() { return sum_block_halves; }

#else

inline void sum_block_plainly(const uint8_t* block, int planes, int heads, const int8_t* queries,
                            const int32_t* least, int32_t* sums, uint64_t* lanes) {
  for (int h = 0; h < heads; ++h) lanes[h] = 0;
  for (int quarter = 0; quarter < 4; ++quarter, block += static_cast<size_t>(planes) * kPlaneBytes) {
    for (int h = 0; h < heads; ++h) {
      int32_t* out = sums + h * kBlockWords + quarter * kQuarterWords;
      for (int lane = 0; lane < kQuarterWords; ++lane) {
        const int8_t* q = queries + static_cast<size_t>(h) * static_cast<size_t>(planes) * kPlaneComponents;
        int32_t sum = 0;
        for (int p = 0; p < planes; ++p, q += kPlaneComponents)
          for (int j = 0; j < 4; ++j) {
            const int32_t byte = block[static_cast<size_t>(p) * kPlaneBytes + static_cast<size_t>(4 * lane + j)];
            sum += (byte & 15) * q[j] + (byte >> 4) * q[4 + j];
          }
        out[lane] = sum;
        lanes[h] |= static_cast<uint64_t>(sum >= least[h]) << (quarter * kQuarterWords + lane);
      }
    }
  }
}
inline SumBlock sum_block() { return sum_block_plainly; }

#endif

}  // namespace sparsam::SPARSAM_ISA
