// What every way of searching a memory is to a step: exact search, exact search for queries that are known some steps
// before, and exact scores of what an index proposes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "memory/shape.h"
#include "memory/words.h"
#include "support/simd.h"

namespace sparsam::SPARSAM_ISA {

// The best K rows seen so far, best first; ties go to the lowest row.
template <class T>
class Best {
 public:
  Best(int k, int32_t* rows, T* scores) : k_(k), rows_(rows), scores_(scores) {}
  T worst() const { return worst_; }  // no lower score is taken
  void offer(T score, int32_t row) {
    if (count_ == k_) {
      if (!before(score, row, k_ - 1)) return;
    } else {
      ++count_;
    }
    int at = count_ - 1;
    for (; at > 0 && before(score, row, at - 1); --at) {
      rows_[at] = rows_[at - 1];
      scores_[at] = scores_[at - 1];
    }
    rows_[at] = row;
    scores_[at] = score;
    if (count_ == k_) worst_ = scores_[k_ - 1];
  }
  void offer_all(const Best& other) {
    for (int i = 0; i < other.count_; ++i) offer(other.scores_[i], other.rows_[i]);
  }
  bool is_full() const { return count_ == k_; }
  bool holds(int32_t row) const { return std::find(rows_, rows_ + count_, row) != rows_ + count_; }

 private:
  bool before(T score, int32_t row, int at) const {
    return score > scores_[at] || (score == scores_[at] && row < rows_[at]);
  }
  int k_, count_ = 0;
  T worst_ = -std::numeric_limits<T>::infinity();
  int32_t* rows_;
  T* scores_;
};

// The R queries of a step, and where the K most similar rows of each and their scores go, best first.
template <class T>
struct Queries {
  const Memory<T>& memory;
  Similarity similarity;
  const T* words;  // (R, stride)
  const T* norms;  // (R)
  int heads, k;
  int32_t* rows;  // (R, K)
  T* scores;      // (R, K)

  const T* word(int h) const { return words + h * memory.stride(); }
  void begin(std::vector<Best<T>>& best) const {  // one for each head, which writes to its rows and scores
    best.clear();
    for (int h = 0; h < heads; ++h) best.emplace_back(k, rows + h * k, scores + h * k);
  }
};

// A way of searching. Its scratch arrays are its own and serve one memory after the other, by one thread at a time.
template <class T>
class Search {
 public:
  virtual ~Search() = default;
  virtual bool serves(const Queries<T>& asked) const = 0;
  virtual void search(const Queries<T>& asked) = 0;
};

}  // namespace sparsam::SPARSAM_ISA
