// Exact search for queries that are known some steps before they are asked, as those of a layer without a controller
// are. Reading the codes of all words is most of a search by one or two heads, and four queries take one pass over them
// as one does. So a pass finds the bounds of several steps' queries; the few words that are written until these are
// asked are scored for themselves, whatever their bounds were.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "index/exact_search.h"
#include "index/search.h"
#include "index/coarse_scan.h"
#include "support/interrupt.h"
#include "support/simd.h"

namespace sparsam::SPARSAM_ISA {

// The interface vectors of one batch element from this step on, which begin with the step's queries (R, W).
template <class T>
struct Coming {
  const T* interface = nullptr;
  int64_t stride = 0, steps = 0;
};

constexpr int64_t kFewestAhead = 1024;  // words; the codes of fewer are in the nearest cache anyway

template <class T>
class LookAhead final : public Search<T> {
 public:
  // What the memory is asked from this step on.
  void expect(const Coming<T>& coming) { coming_ = coming; }
  // The rows that a step has written.
  void note(const int32_t* rows, int count) {
    if (left_ == 0) return;
    for (int i = 0; i < count; ++i)
      if (!is_changed(rows[i])) changed_.push_back(rows[i]);
  }
  void forget() { left_ = 0; }

  bool serves(const Queries<T>& asked) const override {
    return 2 * asked.heads <= kCoarseHeads && coming_.steps > 1 &&
           int64_t(asked.memory.written().size()) >= kFewestAhead && has_coarse_words(asked.memory, asked.similarity);
  }
#if SPARSAM_VECTOR_BYTES == 64
  void search(const Queries<T>& asked) override {
    const Memory<T>& memory = asked.memory;
    const int heads = asked.heads, k = asked.k;
    const T floor = score_of_blanks(memory, int64_t(memory.written().size()), k);
    asked.begin(best_);
    if (left_ == 0) look(memory, heads);
    const int first = int(codes_.size()) - left_ * heads;
    --left_;
    for (int h = 0; h < heads; ++h) {
      const T *const query = asked.word(h), norm = asked.norms[h];
      for (const int32_t row : changed_) {
        const T score = cosine_score(memory, query, norm, row);
        if (score >= best_[h].worst()) best_[h].offer(score, row);  // not what is no number
      }
      for (size_t c = 0; c < bounds_.size(); ++c) {
        const int64_t begin = int64_t(c) * kCoarseBlocks, end = std::min(blocks_, begin + kCoarseBlocks);
        if (begin < end)
          consider_bounds(memory, codes_[size_t(first + h)], query, norm, floor, k, begin, end, words_, bounds_[c],
                          first + h, best_[h], [&](int32_t row) { return is_changed(row); });
      }
    }
    offer_blanks(asked, best_);
  }

 private:
  void look(const Memory<T>& memory, int heads) {
    const CoarseWords& coarse = current_coarse_words(memory);
    left_ = int(std::min<int64_t>(coming_.steps, kCoarseHeads / heads));
    words_ = coarse.size();
    blocks_ = (words_ + CoarseWords::kWords - 1) / CoarseWords::kWords;
    changed_.clear();
    codes_.clear();
    query_.assign(size_t(memory.stride()), T(0));
    for (int t = 0; t < left_; ++t)
      for (int h = 0; h < heads; ++h) {
        std::copy_n(coming_.interface + t * coming_.stride + h * memory.width(), memory.width(), query_.data());
        const T norm = std::sqrt(dot(query_.data(), query_.data(), memory.stride()));
        codes_.emplace_back(query_.data(), norm, memory.width());
      }
    bounds_.resize(size_t((blocks_ + kCoarseBlocks - 1) / kCoarseBlocks));
    for (size_t c = 0; c < bounds_.size(); ++c) {
      if (c > 0) check_interrupt();
      const int64_t begin = int64_t(c) * kCoarseBlocks;
      bounds_[c].find(int(codes_.size()), coarse, codes_.data(), memory.width(), begin,
                      int(std::min<int64_t>(kCoarseBlocks, blocks_ - begin)));
    }
  }
  int64_t words_ = 0, blocks_ = 0;  // that there were when bounds were found
  std::vector<CoarseQuery> codes_;  // step by step, head by head
  std::vector<CoarseBounds> bounds_;
  std::vector<Best<T>> best_;
  std::vector<T> query_;
#else
  void search(const Queries<T>&) override {}  // it serves nothing

 private:
#endif
  bool is_changed(int32_t row) const { return std::find(changed_.begin(), changed_.end(), row) != changed_.end(); }

  Coming<T> coming_;
  int left_ = 0;                    // steps whose queries have bounds and were not asked yet
  std::vector<int32_t> changed_;    // rows written since
};

}  // namespace sparsam::SPARSAM_ISA
