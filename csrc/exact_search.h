// The K words most similar to each query, by looking at every word that could be one of them.
#pragma once

#include <cmath>
#include <limits>

#include "memory.h"
#include "sequence.h"
#include "simd.h"

namespace sparsam::SPARSAM_ISA {

// d(q, m) of eq. content_based_read. Widths are padded with zeros.
template <class T>
inline T similarity(Similarity kind, const T* query, T query_norm, const T* word, T word_norm, int width) {
  if (kind == Similarity::kEuclidean) {
    Vec<T> s{};
    for (int j = 0; j < width; j += kLanes<T>) {
      const Vec<T> d = load(query + j) - load(word + j);
      s += d * d;
    }
    return -sum<T>(s);
  }
  const T product = dot(query, word, width);
  return kind == Similarity::kDot ? product : product / (query_norm * word_norm + T(kCosineEpsilon));
}

// The best K rows seen so far, best first; ties go to the lowest row.
template <class T>
class Best {
 public:
  Best(int k, int32_t* rows, T* scores) : k_(k), rows_(rows), scores_(scores) {}
  bool would_take(T score) const { return count_ < k_ || score >= scores_[k_ - 1]; }
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
  }

 private:
  bool before(T score, int32_t row, int at) const {
    return score > scores_[at] || (score == scores_[at] && row < rows_[at]);
  }
  int k_, count_ = 0;
  int32_t* rows_;
  T* scores_;
};

// Queries are (R, stride); rows and scores come out as (R, K). Words never written are all zero and alike, so the first
// K of them by row number stand for all.
template <class T>
void exact_search(const Memory<T>& memory, Similarity kind, const T* queries, const T* norms, int heads, int k,
                  int32_t* rows, T* scores) {
  const int width = memory.stride();
  for (int h = 0; h < heads; ++h) {
    const T* query = queries + h * width;
    const T norm = norms[h];
    Best<T> best(k, rows + h * k, scores + h * k);
    auto consider = [&](int32_t row) {
      const T score = similarity(kind, query, norm, memory.word(row), memory.norm(row), width);
      if (best.would_take(score)) best.offer(score, row);
    };
    if (memory.has_initial()) {
      for (int32_t row = 0; row < memory.rows(); ++row) consider(row);
      continue;
    }
    for (const int32_t row : memory.written()) consider(row);
    const T blank = kind == Similarity::kEuclidean ? -dot(query, query, width) : T(0);
    int32_t row = memory.first_blank();
    for (int found = 0; found < k && row < memory.rows(); ++row)
      if (!memory.is_written(row)) {
        best.offer(blank, row);
        ++found;
      }
  }
}

}  // namespace sparsam::SPARSAM_ISA
