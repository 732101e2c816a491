// How a step searches a memory: the first way that serves, of those that are faster and exact search, which always does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "index/exact_search.h"
#include "index/look_ahead.h"
#include "index/memory_index.h"
#include "index/search.h"
#include "support/interrupt.h"

namespace sparsam::SPARSAM_ISA {

// The K words most similar to each query among those that an index proposes, scored exactly.
template <class T>
class CandidateSearch final : public Search<T> {
 public:
  // The index of the memory that is searched next; null for none.
  void use(MemoryIndex<T>* index) { index_ = index; }

  // No index can compare a query of infinite length.
  bool serves(const Queries<T>& asked) const override {
    return index_ != nullptr && !index_->is_exact() &&
           std::none_of(asked.norms, asked.norms + asked.heads, [](T norm) { return std::isinf(norm); });
  }

  // The words of one head are on their way from memory while the next head's are looked for.
  void search(const Queries<T>& asked) override {
    if (++searches_ % 8 == 0) check_interrupt();  // the loop over time asks too seldom for searches of milliseconds
    const Memory<T>& memory = asked.memory;
    const int heads = asked.heads, k = asked.k, most = std::max(index_->max_candidates(), k);
    rows_.resize(size_t(heads) * most);
    counts_.assign(size_t(heads), 0);
    index_->propose(asked.words, memory.stride(), asked.norms, heads, rows_.data(), most, counts_.data());
    for (int h = 0; h < heads; ++h) {
      int32_t* found = rows_.data() + size_t(h) * most;
      // Every word scores the same against a zero query, and nothing is similar to one that is not finite.
      if (!std::isfinite(asked.norms[h]) || (asked.norms[h] == 0 && asked.similarity != Similarity::kEuclidean)) {
        counts_[h] = k;
        for (int i = 0; i < k; ++i) found[i] = i;
      }
      for (int i = 0; i < counts_[h]; ++i) memory.prefetch(found[i]);
    }
    asked.begin(best_);
    for (int h = 0; h < heads; ++h) {
      const int32_t* found = rows_.data() + size_t(h) * most;
      constexpr int kStretch = kBlocks * RowBlock<T>::kRows;
      for (int at = 0; at < counts_[h]; at += kStretch)
        consider(memory, asked.similarity, asked.word(h), asked.norms + h, k, found + at,
                 std::min(kStretch, counts_[h] - at), &best_[h], 1);
    }
    offer_others(asked);
    for (int h = 0; h < heads; ++h) fill_up(best_[h], memory, asked.similarity, asked.word(h), asked.norms[h]);
  }

 private:
  // What no index holds: words that it cannot place, and zero words, of which the first K stand for all.
  void offer_others(const Queries<T>& asked) {
    const Memory<T>& memory = asked.memory;
    for (const int32_t row : index_->unplaced())
      for (int h = 0; h < asked.heads; ++h) {
        const T score = RowBlock<T>(memory, &row, 1).scores(asked.similarity, asked.word(h), asked.norms[h])[0];
        if (!std::isnan(score) && !best_[h].holds(row)) best_[h].offer(score, row);
      }
    int32_t row = index_->first_blank(0);
    for (int i = 0; i < asked.k && row < memory.rows(); ++i, row = index_->first_blank(row + 1))
      for (int h = 0; h < asked.heads; ++h)
        if (!best_[h].holds(row))
          best_[h].offer(blank_score(asked.similarity, asked.word(h), memory.stride()), row);
  }

  MemoryIndex<T>* index_ = nullptr;
  uint32_t searches_ = 0;
  std::vector<Best<T>> best_;
  std::vector<int32_t> rows_, counts_;
};

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
