// How a step searches a memory: the first way that serves, of those that are faster and exact search, which always does.
#pragma once

#include <cstdint>
#include <vector>

#include "index/candidate_search.h"
#include "index/exact_search.h"
#include "index/look_ahead.h"
#include "index/memory_index.h"
#include "index/search.h"

namespace sparsam::SPARSAM_ISA {

template <class T>
class MemorySearch {
 public:
  // `threads` threads may share a search, since they have nothing else to do.
  void share(int threads) { exact_.share(threads); }

  // The interface vectors of the memory that is searched next, from that step on, where they are known. `place` tells
  // the memories of a call apart.
  void expect(int place, const Coming<T>& coming) {
    if (size_t(place) >= ahead_.size()) ahead_.resize(size_t(place) + 1);
    expected_ = &ahead_[size_t(place)];
    expected_->expect(coming);
  }

  // `index` is the memory's, null for none, and `written` the rows that this step has written.
  void search(const Queries<T>& asked, MemoryIndex<T>* index, const int32_t* written, int count) {
    if (index) index->wrote(written, count);
    candidates_.use(index);
    const bool exact = index == nullptr || index->is_exact();
    if (expected_) {
      if (exact && exact_.threads() == 1 && expected_->serves(asked)) {
        expected_->note(written, count);
        return expected_->search(asked);
      }
      expected_->forget();
    }
    Search<T>& way = candidates_.serves(asked) ? static_cast<Search<T>&>(candidates_) : exact_;
    way.search(asked);
  }

 private:
  ExactSearch<T> exact_;
  CandidateSearch<T> candidates_;
  std::vector<LookAhead<T>> ahead_;
  LookAhead<T>* expected_ = nullptr;  // of the memory that is searched next
};

}  // namespace sparsam::SPARSAM_ISA
