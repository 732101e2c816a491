// A binary heap of branches, the least key on top, without the call overhead that std::push_heap's moves bring here.
#pragma once

#include "index/candidate_index.h"

namespace sparsam::SPARSAM_ISA {

using Branch = CandidateIndex::Scratch::Branch;

inline void heap_push(std::vector<Branch>& heap, const Branch branch) {
  size_t i = heap.size();
  heap.push_back(branch);
  for (; i > 0 && heap[(i - 1) / 2].key > branch.key; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
  heap[i] = branch;
}

// Takes the top away and puts `branch` in: one pass instead of two.
inline void heap_replace_top(std::vector<Branch>& heap, const Branch branch) {
  const size_t n = heap.size();
  size_t i = 0;
  for (size_t down = 1; down < n; down = 2 * i + 1) {
    if (down + 1 < n && heap[down + 1].key < heap[down].key) ++down;
    if (branch.key <= heap[down].key) break;
    heap[i] = heap[down];
    i = down;
  }
  heap[i] = branch;
}

inline Branch heap_pop(std::vector<Branch>& heap) {
  const Branch top = heap.front(), last = heap.back();
  heap.pop_back();
  if (!heap.empty()) heap_replace_top(heap, last);
  return top;
}

}  // namespace sparsam::SPARSAM_ISA
