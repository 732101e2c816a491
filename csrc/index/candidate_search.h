// The K words most similar to each query among those that an index proposes, scored exactly.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "index/exact_search.h"
#include "index/memory_index.h"
#include "index/search.h"
#include "support/interrupt.h"

namespace sparsam::SPARSAM_ISA {

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
    index_->propose(asked.words, memory.stride(), asked.norms, heads, scratch_, rows_.data(), most, counts_.data());
    for (int h = 0; h < heads; ++h) {
      int32_t* found = rows_.data() + size_t(h) * most;
      // Every word scores the same against a zero query, and nothing is similar to one that is not finite.
      if (!std::isfinite(asked.norms[h]) || (asked.norms[h] == 0 && asked.similarity != Similarity::kEuclidean)) {
        counts_[h] = k;
        for (int i = 0; i < k; ++i) found[i] = i;
      }
      for (int i = 0; i < counts_[h]; ++i) memory.prefetch(found[i]);
    }
    best_.clear();
    for (int h = 0; h < heads; ++h) {
      best_.emplace_back(k, asked.rows + h * k, asked.scores + h * k);
      score(asked, h, rows_.data() + size_t(h) * most, counts_[h]);
    }
    offer_others(asked);
    for (int h = 0; h < heads; ++h) fill_up(best_[h], memory, asked.similarity, asked.word(h), asked.norms[h]);
  }

 private:
  void score(const Queries<T>& asked, int h, const int32_t* found, int32_t all) {
    constexpr int L = RowBlock<T>::kRows;
    for (int at = 0; at < all; at += L) {
      const int count = std::min(L, all - at);
      const RowBlock<T> block(asked.memory, found + at, count);
      const Vec<T> score = block.scores(asked.similarity, asked.word(h), asked.norms[h]);
      uint32_t left = at_least<T>(score, splat(best_[h].worst())) & ((1u << count) - 1);
      for (; left != 0; left &= left - 1) {
        const int i = std::countr_zero(left);
        best_[h].offer(score[i], found[at + i]);
      }
    }
  }
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
  CandidateIndex::Scratch scratch_;
  std::vector<int32_t> rows_, counts_;
};

}  // namespace sparsam::SPARSAM_ISA
