// Bounds on cosine similarities from codes of 8 bits a number. A search finds the bounds of all words first and then
// scores only those whose bound reaches what it is after, as always, so its answer stays exact.
//
// A unit word is s_w I_w + d_w with integers I_w, a unit query s_q I_q + d_q. Then
//   cos = s_w s_q I_w·I_q + (unit word - d_w)·d_q + unit query·d_w <= s_w s_q I_w·I_q + |d_w| (1 + |d_q|) + |d_q|
// The small number in the denominator of the similarity (kCosineEpsilon) only brings a score nearer to 0, so this bounds
// every score above 0; where a search is after less than that, every word has to be scored.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "index/search.h"
#include "memory/words.h"
#include "support/recycled.h"
#include "support/simd.h"

namespace sparsam::SPARSAM_ISA {

constexpr int kCoarseHeads = 4;          // of a pass over the codes
constexpr int kCoarseStretch = 16;       // blocks whose largest bounds are kept
constexpr int kCoarseBlocks = 512;       // whose bounds are kept at most, found first and searched second
constexpr int kCodedBlocks = 128;        // that exact search looks at before it knows better what a word has to reach
constexpr int64_t kFewestCoded = 64;  // words; fewer are scored one and all

// Does this processor multiply bytes, and is the memory of a kind that has a coarse copy?
template <class T>
bool has_coarse_words(const Memory<T>& memory, Similarity kind) {
#if SPARSAM_VECTOR_BYTES == 64
  static const bool multiplies_bytes = __builtin_cpu_supports("avx512vnni");
  return multiplies_bytes && kind == Similarity::kCosine && !memory.has_initial() &&
         memory.width() <= CoarseWords::kMostColumns;
#else
  (void)memory, (void)kind;
  return false;
#endif
}

// One word's score, to the bits that a block of rows gives.
template <class T>
T cosine_score(const Memory<T>& memory, const T* query, T query_norm, int32_t row) {
  return dot(query, memory.word(row), memory.stride()) / (memory.norm(row) * query_norm + T(kCosineEpsilon));
}

#if SPARSAM_VECTOR_BYTES == 64

// 16 numbers of a word of `width`, zero beyond it.
inline __m512 sixteen(const float* from, int) { return _mm512_loadu_ps(from); }
inline __m512 sixteen(const double* from, int left) {  // words are padded to 8 of these
  const __m256 low = _mm512_cvtpd_ps(_mm512_loadu_pd(from));
  const __m256 high = left > 8 ? _mm512_cvtpd_ps(_mm512_loadu_pd(from + 8)) : _mm256_setzero_ps();
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}
template <class T>
float largest(const T* word, int width) {
  __m512 most = _mm512_setzero_ps();
  for (int j = 0; j < width; j += 16) most = _mm512_max_ps(most, _mm512_abs_ps(sixteen(word + j, width - j)));
  return _mm512_reduce_max_ps(most);
}

// A word in codes: 16 integers from -127 to 127 at a time go to `put(j, codes)`. `norm` is the word's.
struct Coded {
  float scale = 0, error = 0;  // s and |d|, rounding allowed for
  bool plain = false;          // else it is too small or too large for codes, and all of them are 0

  template <class T, class Put>
  Coded(const T* word, T norm, int width, const Put& put) {
    const float most = norm > T(1e-16) && norm < T(1e16) ? largest(word, width) : 0.0f;
    plain = most > 1e-20f;
    if (!plain) {
      for (int j = 0; j < width; j += 16) put(j, _mm512_setzero_si512());
      return;
    }
    const __m512 to_codes = _mm512_set1_ps(127.0f / most), to_numbers = _mm512_set1_ps(most / 127.0f);
    __m512 off = _mm512_setzero_ps();
    for (int j = 0; j < width; j += 16) {
      const __m512 numbers = sixteen(word + j, width - j);
      const __m512i codes = _mm512_cvtps_epi32(_mm512_mul_ps(numbers, to_codes));
      const __m512 rest = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(codes), to_numbers, numbers);
      off = _mm512_fmadd_ps(rest, rest, off);
      put(j, codes);
    }
    const float over_norm = 1.0f / float(norm);
    scale = most * over_norm / 127.0f;
    error = std::sqrt(_mm512_reduce_add_ps(off)) * over_norm * 1.0001f + 1e-5f;
  }
};

// Brings the copy up to date with the words. A word that has no codes scores within rounding of 0 when it is tiny;
// when it is huge, or holds what is not a number, it is scored every time.
template <class T>
const CoarseWords& current_coarse_words(const Memory<T>& memory) {
  CoarseWords& coarse = memory.coarse();
  const std::vector<int32_t>& written = memory.written();
  auto put = [&](int64_t place) {
    const int32_t row = written[size_t(place)];
    const int64_t at = place / CoarseWords::kWords;
    const int lane = int(place % CoarseWords::kWords);
    uint8_t* const column = coarse.block(at) + 4 * lane;
    const Coded coded(memory.word(row), memory.norm(row), memory.width(), [&](int j, __m512i codes) {
      alignas(16) uint32_t fours[4];  // bytes are stored plus 128: of the two factors one has no sign
      const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_add_epi32(codes, _mm512_set1_epi32(128)));
      _mm_store_si128(reinterpret_cast<__m128i*>(fours), bytes);
      for (int i = 0; i < 4; ++i) std::memcpy(column + (j / 4 + i) * 64, &fours[i], 4);
    });
    coarse.scales(at)[lane] = coded.scale;
    coarse.errors(at)[lane] = coded.plain ? coded.error : memory.norm(row) < T(1) ? 1e-5f : 1e30f;
  };
  memory.each_changed(put);
  const int64_t before = coarse.size(), now = int64_t(written.size());
  if (before < now) {
    coarse.grow(now);
    for (int64_t place = before; place < now; ++place) put(place);
  }
  return coarse;
}

// A query in codes.
class CoarseQuery {
 public:
  template <class T>
  CoarseQuery(const T* query, T norm, int width) {
    __m512i total = _mm512_setzero_si512();
    const Coded coded(query, norm < T(1e4) ? norm : T(0), width, [&](int j, __m512i codes) {
      total = _mm512_add_epi32(total, codes);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(codes_ + j), _mm512_cvtepi32_epi8(codes));
    });
    start = -128 * _mm512_reduce_add_epi32(total);
    plain_ = coded.plain;
    error_ = coded.error;
    scale_ = plain_ ? coded.scale : 1;
    errors = (1 + coded.error) / scale_;
  }
  // A word whose bound is less cannot reach the score.
  float bound(double score) const {
    return plain_ && score > 0 ? (float(score) - error_) / scale_ : -std::numeric_limits<float>::infinity();
  }
  const int8_t* codes() const { return codes_; }
  int32_t start;  // takes back that the words' codes are stored plus 128
  float errors;   // what a word's error counts in a bound

 private:
  alignas(64) int8_t codes_[CoarseWords::kMostColumns];
  float scale_, error_;
  bool plain_;
};

// What becomes of bounds: all of them go to to + h * head, the largest, lane by lane, to most[h];
struct KeepBounds {
  float* to;
  ptrdiff_t head;
  __m512* most;
};
// or it is noted which words of a block reach least[h], in near[h * kCodedBlocks + block].
struct NoteNear {
  uint16_t* near;
  const float* least;
};

// The bounds of H queries in `count` blocks from `begin` on, in units of each query's scale; two blocks side by side,
// one that is left over twice. Where the compiler knows the width W (else 0) it keeps all sums in their registers.
template <int H, int W, class Use>
__attribute__((target("avx512vnni"))) void find_bounds(const CoarseWords& coarse, const CoarseQuery* queries, int width,
                                                       int64_t begin, int count, const Use& use) {
  constexpr bool kKeep = std::is_same_v<Use, KeepBounds>;
  constexpr int kWords = CoarseWords::kWords;
  __m512 most[H], least[H];
  for (int h = 0; h < H; ++h) {
    if constexpr (kKeep) most[h] = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
    if constexpr (!kKeep) least[h] = _mm512_set1_ps(use.least[h]);
  }
  const int columns = W > 0 ? W : width;
  for (int i = 0; i < count; i += 2) {
    const int blocks[2] = {i, i + 1 < count ? i + 1 : i};
    const uint8_t *a = coarse.block(begin + blocks[0]), *b = coarse.block(begin + blocks[1]);
    __m512i sums[2][H];
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h) sums[0][h] = sums[1][h] = _mm512_set1_epi32(queries[h].start);
    for (int j = 0; j < columns; j += 4) {
      const __m512i words_a = _mm512_load_si512(a + size_t(j) * kWords);
      const __m512i words_b = _mm512_load_si512(b + size_t(j) * kWords);
#pragma GCC unroll 4
      for (int h = 0; h < H; ++h) {
        int32_t four;
        std::memcpy(&four, queries[h].codes() + j, 4);
        const __m512i q = _mm512_set1_epi32(four);
        sums[0][h] = _mm512_dpbusd_epi32(sums[0][h], words_a, q);
        sums[1][h] = _mm512_dpbusd_epi32(sums[1][h], words_b, q);
      }
    }
#pragma GCC unroll 2
    for (int n = 0; n < 2; ++n) {
      const __m512 scale = _mm512_load_ps(coarse.scales(begin + blocks[n]));
      const __m512 error = _mm512_load_ps(coarse.errors(begin + blocks[n]));
#pragma GCC unroll 4
      for (int h = 0; h < H; ++h) {
        const __m512 bound = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[n][h]), scale,
                                             _mm512_mul_ps(error, _mm512_set1_ps(queries[h].errors)));
        if constexpr (kKeep) {
          _mm512_store_ps(use.to + h * use.head + blocks[n] * kWords, bound);
          most[h] = _mm512_max_ps(most[h], bound);
        } else {
          use.near[h * kCodedBlocks + blocks[n]] = _mm512_cmp_ps_mask(bound, least[h], _CMP_GE_OQ);
        }
      }
    }
  }
  if constexpr (kKeep) std::copy_n(most, H, use.most);
}
template <class Use>
void each_bound(int heads, const CoarseWords& coarse, const CoarseQuery* queries, int width, int64_t begin, int count,
                const Use& use) {
  with_constant<kCoarseHeads>(heads, [&]<int H>(std::integral_constant<int, H>) {
    (width == 32 ? find_bounds<H, 32, Use> : find_bounds<H, 0, Use>)(coarse, queries, width, begin, count, use);
  });
}

// Bounds of 16 words each, in units of the query's scale, of up to kCoarseHeads heads and kCoarseBlocks blocks.
class CoarseBounds {
 public:
  __m512 bounds(int head, int block) const { return _mm512_load_ps(at(head, block)); }
  __m512 most_of(int head, int stretch) const { return stretches_[stretch][head]; }  // over its blocks, lane by lane
  __m512 most(int head) const { return most_[head]; }                                // over all of them

  // Fills in the bounds of blocks [begin, begin + count).
  void find(int heads, const CoarseWords& coarse, const CoarseQuery* queries, int width, int64_t begin, int count) {
    if (count > capacity_) {
      capacity_ = int(std::bit_ceil(unsigned(std::max(count, kCoarseStretch))));
      bounds_ = recycled_array<float>(size_t(kCoarseHeads) * capacity_ * CoarseWords::kWords);
    }
    for (int h = 0; h < heads; ++h) most_[h] = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
    for (int first = 0, s = 0; first < count; first += kCoarseStretch, ++s) {
      each_bound(heads, coarse, queries, width, begin + first, std::min(kCoarseStretch, count - first),
                 KeepBounds{at(0, first), at(1, first) - at(0, first), stretches_[s]});
      for (int h = 0; h < heads; ++h) most_[h] = _mm512_max_ps(most_[h], stretches_[s][h]);
    }
  }

 private:
  float* at(int head, int block) const {
    return bounds_.get() + (size_t(head) * capacity_ + block) * CoarseWords::kWords;
  }

  __m512 stretches_[kCoarseBlocks / kCoarseStretch][kCoarseHeads], most_[kCoarseHeads];
  int capacity_ = 0;  // blocks
  Recycled<float> bounds_;
};

// The k-th largest lane, or less where lanes are equal; minus infinity when there are fewer.
inline float kth_largest_or_less(__m512 v, int k) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  if (k > 16) return kNone;
  float top = kNone;
  for (int i = 0; i < k; ++i) {
    top = _mm512_reduce_max_ps(v);
    v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, _mm512_set1_ps(top), _CMP_GE_OQ), _mm512_set1_ps(kNone));
  }
  return top;
}

// Offers the blocks [begin, end) of written words, at most kCoarseBlocks, to the best of one query, whose bounds were
// found as those of `head`: first the words with the largest bounds, then those whose bounds reach what the best has
// come to. That takes two looks at the bounds, which are kept for it: scores cost a cache miss each, and going stretch
// by stretch scores four times as many. `floor` is a score that K words are known to reach, `all` how many words there
// are (the last block may be short); rows of which `skip` is true are left out.
template <class T, class Skip>
void consider_bounds(const Memory<T>& memory, const CoarseQuery& codes, const T* query, T norm, T floor, int k,
                     int64_t begin, int64_t end, int64_t all, const CoarseBounds& found, int head, Best<T>& best,
                     const Skip& skip) {
  constexpr int kWords = CoarseWords::kWords, kRoom = 256;
  const int count = int(end - begin);
  const int32_t* const written = memory.written().data() + begin * kWords;
  const int64_t words = all - begin * kWords;
  int32_t rows[kRoom + kCoarseStretch * kWords];
  int n = 0;
  auto score_rows = [&]() __attribute__((always_inline)) {
    for (int i = 0; i < n; ++i) memory.prefetch(rows[i]);
    for (int i = 0; i < n; ++i) {
      if (skip(rows[i])) continue;
      const T score = cosine_score(memory, query, norm, rows[i]);
      if (score >= best.worst()) best.offer(score, rows[i]);
    }
    n = 0;
  };
  auto offer_between = [&](float low, float high) __attribute__((always_inline)) {
    const __m512 from = _mm512_set1_ps(low), to = _mm512_set1_ps(high);
    for (int first = 0, s = 0; first < count; first += kCoarseStretch, ++s) {
      if (_mm512_cmp_ps_mask(found.most_of(head, s), from, _CMP_GE_OQ) == 0) continue;
      for (int i = first; i < std::min(count, first + kCoarseStretch); ++i) {
        const __m512 bounds = found.bounds(head, i);
        // No branch: which words come near cannot be foreseen.
        __mmask16 some = _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(bounds, from, _CMP_GE_OQ), bounds, to, _CMP_LT_OQ);
        if (words - i * kWords < kWords) some &= __mmask16((1u << (words - i * kWords)) - 1);
        const __m512i near = _mm512_maskz_loadu_epi32(some, written + i * kWords);
        _mm512_storeu_si512(rows + n, _mm512_maskz_compress_epi32(some, near));
        n += std::popcount(uint32_t(some));
      }
      if (n >= kRoom) score_rows();
    }
    score_rows();
  };
  auto asked = [&] { return codes.bound(double(std::max(best.worst(), floor))); };
  const float first = std::max(asked(), kth_largest_or_less(found.most(head), k));
  offer_between(first, std::numeric_limits<float>::infinity());
  const float second = asked();
  if (second < first) offer_between(second, first);
}

// Offers the words of blocks [begin, end), at most kCodedBlocks, to the bests of `heads` heads. Once it is known what a
// word has to reach few words do, so that their bounds need not be kept: most of the time that is left is products.
template <class T>
void consider_coarse(const Memory<T>& memory, const CoarseWords& coarse, const CoarseQuery* codes, const T* queries,
                     const T* norms, T floor, int k, int64_t begin, int64_t end, int heads, CoarseBounds& found,
                     Best<T>* best) {
  constexpr int kFew = 64;  // near words of a head
  const int count = int(end - begin);
  alignas(8) uint16_t near[kCoarseHeads][kCodedBlocks];
  float least[kCoarseHeads];
  bool known = true;
  for (int h = 0; h < heads; ++h) {
    least[h] = codes[h].bound(double(std::max(best[h].worst(), floor)));
    known &= least[h] > -std::numeric_limits<float>::infinity();
  }
  if (known) each_bound(heads, coarse, codes, memory.width(), begin, count, NoteNear{near[0], least});
  int32_t rows[kCoarseHeads][kFew];
  int counts[kCoarseHeads];
  for (int h = 0; h < heads; ++h) {
    int& n = counts[h] = known ? 0 : kFew + 1;
    std::fill(near[h] + count, near[h] + (count + 3) / 4 * 4, uint16_t(0));
    for (int i = 0; i < count && n <= kFew; i += 4) {
      uint64_t some;  // of four blocks
      std::memcpy(&some, near[h] + i, sizeof some);
      for (; some != 0 && ++n <= kFew; some &= some - 1) {
        const int32_t row = memory.written()[size_t(begin + i) * CoarseWords::kWords + std::countr_zero(some)];
        memory.prefetch(rows[h][n - 1] = row);
      }
    }
  }
  bool kept = false;
  for (int h = 0; h < heads; ++h) {
    const T* const query = queries + h * memory.stride();
    for (int i = 0; i < counts[h] && counts[h] <= kFew; ++i) {
      const T score = cosine_score(memory, query, norms[h], rows[h][i]);
      if (score >= best[h].worst()) best[h].offer(score, rows[h][i]);
    }
    if (counts[h] <= kFew) continue;
    if (!kept) found.find(heads, coarse, codes, memory.width(), begin, count);
    kept = true;
    consider_bounds(memory, codes[h], query, norms[h], floor, k, begin, end, int64_t(memory.written().size()), found, h,
                    best[h], [](int32_t) { return false; });
  }
}

#endif

}  // namespace sparsam::SPARSAM_ISA
