// The K words most similar to each query among those that an index proposes, scored exactly.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "index/exact_search.h"
#include "index/memory_index.h"

namespace sparsam::SPARSAM_ISA {

// Scratch arrays for the candidates of all heads, one set per thread.
struct CandidateScratch {
  CandidateIndex::Scratch scratch;
  std::vector<int32_t> rows;
  std::vector<int32_t> counts;
};

// As exact_search. The words of one head are on their way from memory while the next head's are looked for.
template <class T>
void candidate_search(const Memory<T>& memory, MemoryIndex<T>& index, Similarity kind, const T* queries, const T* norms,
                      int heads, int k, int32_t* rows, T* scores, std::vector<Best<T>>& best, CandidateScratch& scratch) {
  constexpr int L = RowBlock<T>::kRows;
  const int width = memory.stride();
  const int most = std::max(index.max_candidates(), k);
  scratch.rows.resize(size_t(heads) * most);
  scratch.counts.assign(size_t(heads), 0);
  index.propose(queries, width, norms, heads, scratch.scratch, scratch.rows.data(), most, scratch.counts.data());
  for (int h = 0; h < heads; ++h) {
    int32_t* found = scratch.rows.data() + size_t(h) * most;
    // Every word scores the same against a zero query, and nothing is similar to one that is not finite.
    if (!std::isfinite(norms[h]) || (norms[h] == 0 && kind != Similarity::kEuclidean)) {
      scratch.counts[h] = k;
      for (int i = 0; i < k; ++i) found[i] = i;
    }
    for (int i = 0; i < scratch.counts[h]; ++i) memory.prefetch(found[i]);
  }
  best.clear();
  for (int h = 0; h < heads; ++h) {
    best.emplace_back(k, rows + h * k, scores + h * k);
    const int32_t* found = scratch.rows.data() + size_t(h) * most;
    for (int at = 0; at < scratch.counts[h]; at += L) {
      const int count = std::min(L, scratch.counts[h] - at);
      const Vec<T> score = RowBlock<T>(memory, found + at, count).scores(kind, queries + h * width, norms[h]);
      uint32_t left = at_least<T>(score, splat(best[h].worst())) & ((1u << count) - 1);
      for (; left != 0; left &= left - 1) {
        const int i = std::countr_zero(left);
        best[h].offer(score[i], found[at + i]);
      }
    }
  }
  for (const int32_t row : index.unplaced())
    for (int h = 0; h < heads; ++h) {
      const T score = RowBlock<T>(memory, &row, 1).scores(kind, queries + h * width, norms[h])[0];
      if (!std::isnan(score) && !best[h].holds(row)) best[h].offer(score, row);
    }
  int32_t row = index.first_blank(0);
  for (int i = 0; i < k && row < memory.rows(); ++i, row = index.first_blank(row + 1))
    for (int h = 0; h < heads; ++h)
      if (!best[h].holds(row)) best[h].offer(blank_score(kind, queries + h * width, width), row);
  for (int h = 0; h < heads; ++h) fill_up(best[h], memory, kind, queries + h * width, norms[h]);
}

}  // namespace sparsam::SPARSAM_ISA
