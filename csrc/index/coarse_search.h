// Exact search among words with a coarse copy: bounds of all of them first, then the scores of the few that can win.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>

#include "index/best.h"
#include "index/coarse_scan.h"
#include "memory/words.h"
#include "support/simd.h"

namespace sparsam::SPARSAM_ISA {

// One word's score, to the bits that a block of rows gives.
template <class T>
T cosine_score(const Memory<T>& memory, const T* query, T query_norm, int32_t row) {
  return dot(query, memory.word(row), memory.stride()) / (memory.norm(row) * query_norm + T(kCosineEpsilon));
}

#if SPARSAM_VECTOR_BYTES == 64

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
  auto score_rows = [&] {
    for (int i = 0; i < n; ++i) memory.prefetch(rows[i]);
    for (int i = 0; i < n; ++i) {
      if (skip(rows[i])) continue;
      const T score = cosine_score(memory, query, norm, rows[i]);
      if (score >= best.worst()) best.offer(score, rows[i]);
    }
    n = 0;
  };
  auto offer_between = [&](float low, float high) {
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

// Finds the bounds of `heads` heads in these blocks and offers the words to their bests.
template <class T>
void consider_coarse(const Memory<T>& memory, const CoarseWords& coarse, const CoarseQuery* codes, const T* queries,
                     const T* norms, T floor, int k, int64_t begin, int64_t end, int heads, CoarseBounds& found,
                     Best<T>* best) {
  find_bounds(heads, coarse, codes, memory.width(), begin, int(end - begin), found);
  for (int h = 0; h < heads; ++h)
    consider_bounds(memory, codes[h], queries + h * memory.stride(), norms[h], floor, k, begin, end,
                    int64_t(memory.written().size()), found, h, best[h], [](int32_t) { return false; });
}

#endif

}  // namespace sparsam::SPARSAM_ISA
