// The K words most similar to each query, by looking at every word that could be one of them.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "index/search.h"
#include "index/coarse_scan.h"
#include "memory/words.h"
#include "support/interrupt.h"
#include "support/parallel.h"
#include "support/simd.h"

namespace sparsam::SPARSAM_ISA {

// Scores a block of rows, as many as a vector has lanes, for one query after the other.
template <class T>
class RowBlock {
 public:
  static constexpr int kRows = kLanes<T>;

  RowBlock(const Memory<T>& memory, const int32_t* rows, int count) : width_(memory.stride()) {
    T norms[kRows];
    for (int i = 0; i < kRows; ++i) {  // a short block repeats its first row
      const int32_t row = rows[i < count ? i : 0];
      words_[i] = memory.word(row);
      norms[i] = memory.norm(row);
    }
    norms_ = load(norms);
  }

  Vec<T> scores(Similarity kind, const T* query, T query_norm) const {
    Vec<T> partial[kRows] = {};
    if (kind == Similarity::kEuclidean) {
      for (int j = 0; j < width_; j += kLanes<T>) {
        const Vec<T> q = load(query + j);
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
          const Vec<T> d = q - load(words_[i] + j);
          partial[i] += d * d;
        }
      }
      return -sums<T>(partial);
    }
    for (int j = 0; j < width_; j += kLanes<T>) {
      const Vec<T> q = load(query + j);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) partial[i] += q * load(words_[i] + j);
    }
    const Vec<T> products = sums<T>(partial);
    if (kind == Similarity::kDot) return products;
    return products / (norms_ * splat(query_norm) + splat<T>(T(kCosineEpsilon)));
  }

 private:
  int width_;
  const T* words_[kRows];
  Vec<T> norms_;
};

// A blank word's score, summed as in a block, so that a blank word ties with an erased one.
template <class T>
T blank_score(Similarity kind, const T* query, int width) {
  return kind == Similarity::kEuclidean ? -dot(query, query, width) : T(0);
}

// When fewer than K rows were offered (scores that are not numbers are never taken): the lowest other rows.
template <class T>
void fill_up(Best<T>& best, const Memory<T>& memory, Similarity kind, const T* query, T norm) {
  for (int32_t row = 0; !best.is_full(); ++row)
    if (!best.holds(row)) best.offer(RowBlock<T>(memory, &row, 1).scores(kind, query, norm)[0], row);
}

// The k-th largest lane, or less where lanes are equal; minus infinity when there are fewer lanes.
template <class T>
T kth_largest(Vec<T> v, int k) {
#if SPARSAM_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4) return kth_largest_or_less(v, k);
#endif
  if (k > kLanes<T>) return -std::numeric_limits<T>::infinity();
  T lane[kLanes<T>];
  store<T>(lane, v);
  std::nth_element(lane, lane + k - 1, lane + kLanes<T>, std::greater<T>());
  return lane[k - 1];
}

constexpr int kHeadsAtOnce = 4;  // heads whose scores of a stretch are held at a time
constexpr int kBlocks = 16;      // of rows in a stretch: it is scored first and searched second

// Offers a stretch of rows, at most kBlocks blocks, to the best of each of some heads.
template <class T>
void consider(const Memory<T>& memory, Similarity kind, const T* queries, const T* norms, int k, const int32_t* some,
              int count, Best<T>* best, int heads) {
  constexpr int L = RowBlock<T>::kRows;
  const int width = memory.stride(), heads_at_once = std::min(heads, kHeadsAtOnce);
  Vec<T> found[kHeadsAtOnce][kBlocks], most[kHeadsAtOnce];
  for (int from = 0; from < heads; from += heads_at_once) {
    const int to = std::min(heads, from + heads_at_once);
    for (int h = from; h < to; ++h) most[h - from] = splat(-std::numeric_limits<T>::infinity());
    for (int i = 0; i * L < count; ++i) {
      const int here = std::min(L, count - i * L);
      const RowBlock<T> block(memory, some + i * L, here);
      for (int h = from; h < to; ++h) {
        found[h - from][i] = block.scores(kind, queries + h * width, norms[h]);
        if (here == L) most[h - from] = maximum<T>(most[h - from], found[h - from][i]);
      }
    }
    for (int h = from; h < to; ++h) {
      // At least K rows reach the K-th largest of the lanes' maxima, so what is below need not be looked at.
      const T bound = std::max(best[h].worst(), kth_largest<T>(most[h - from], k));
      for (int i = 0; i * L < count; ++i) {
        const int here = std::min(L, count - i * L);
        const Vec<T> score = found[h - from][i];
        uint32_t left = at_least<T>(score, splat(bound)) & ((uint32_t(2) << (here - 1)) - 1);
        for (; left != 0; left &= left - 1) {
          const int lane = std::countr_zero(left);
          best[h].offer(score[lane], some[i * L + lane]);
        }
      }
    }
  }
}

// Words never written are all zero and alike, so the first K of them by row number stand for all. A starting memory has
// none. Scores that are not numbers are never taken: where too few are left, the lowest rows are.
template <class T>
void offer_blanks(const Queries<T>& asked, std::vector<Best<T>>& best) {
  const Memory<T>& memory = asked.memory;
  if (!memory.has_initial()) {
    int32_t row = memory.first_blank();
    for (int found = 0; found < asked.k && row < memory.rows(); ++row) {
      if (memory.is_written(row)) continue;
      ++found;
      for (int h = 0; h < asked.heads; ++h)
        best[h].offer(blank_score(asked.similarity, asked.word(h), memory.stride()), row);
    }
  }
  for (int h = 0; h < asked.heads; ++h) fill_up(best[h], memory, asked.similarity, asked.word(h), asked.norms[h]);
}

// A score that the K-th best reaches whatever was written, where there are K blank words.
template <class T>
T score_of_blanks(const Memory<T>& memory, int64_t words, int k) {
  return memory.rows() - words >= k ? T(0) : -std::numeric_limits<T>::infinity();
}

// Looks at every word that could be one of the K. The result does not depend on the number of threads.
template <class T>
class ExactSearch final : public Search<T> {
 public:
  // So many threads may share a search.
  void share(int threads) { threads_ = threads; }
  int threads() const { return threads_; }

  bool serves(const Queries<T>&) const override { return true; }
  void search(const Queries<T>& asked) override {
    const Memory<T>& memory = asked.memory;
    const int heads = asked.heads;
    std::vector<Best<T>>& best = whole_.best;
    asked.begin(best);
    const int64_t total = memory.has_initial() ? int64_t(memory.rows()) : int64_t(memory.written().size());
#if SPARSAM_VECTOR_BYTES == 64
    const bool coded = total >= kFewestCoded && has_coarse_words(memory, asked.similarity);
    coarse_ = coded ? &current_coarse_words(memory) : nullptr;
    floor_ = score_of_blanks(memory, total, asked.k);
    codes_.clear();
    for (int h = 0; coarse_ && h < heads; ++h) codes_.emplace_back(asked.word(h), asked.norms[h], memory.width());
#endif
    const int parts = int(std::min<int64_t>(threads_, total / kRowsPerThread));
    if (parts < 2) {
      look(asked, 0, total, whole_);
    } else {
      const int64_t stretches = (total + kStretch - 1) / kStretch;
      auto edge = [&](int part) { return std::min(total, stretches * part / parts * kStretch); };
      parts_.resize(size_t(parts));
      run_parallel(parts, [&](int part) {
        parts_[part].begin(asked);
        look(asked, edge(part), edge(part + 1), parts_[part]);
      });
      for (Part& part : parts_)
        for (int h = 0; h < heads; ++h) best[h].offer_all(part.best[h]);
    }
    offer_blanks(asked, best);
  }

 private:
  static constexpr int kStretch = kBlocks * RowBlock<T>::kRows;
  static constexpr int64_t kRowsPerThread = 16384;  // fewer are searched before another thread has begun

  // A thread's share of a search.
  struct Part {
    std::vector<int32_t> rows;
    std::vector<T> scores;
    std::vector<Best<T>> best;
#if SPARSAM_VECTOR_BYTES == 64
    CoarseBounds bounds;
#endif

    void begin(Queries<T> asked) {
      rows.resize(size_t(asked.heads) * asked.k);
      scores.resize(size_t(asked.heads) * asked.k);
      asked.rows = rows.data(), asked.scores = scores.data();
      asked.begin(best);
    }
  };

  // At the words [begin, end) in the order of their first write, or of rows where every row may hold one.
  void look(const Queries<T>& asked, int64_t begin, int64_t end, Part& with) const {
    const Memory<T>& memory = asked.memory;
#if SPARSAM_VECTOR_BYTES == 64
    if (coarse_) {
      constexpr int64_t kWords = CoarseWords::kWords;
      const int64_t last = (end + kWords - 1) / kWords;
      for (int64_t i = begin / kWords, next; i < last; i = next) {
        if (i != begin / kWords) check_interrupt();
        next = std::min(last, i + kCodedBlocks);
        for (int h = 0; h < asked.heads; h += kCoarseHeads)
          consider_coarse(memory, *coarse_, codes_.data() + h, asked.word(h), asked.norms + h, floor_, asked.k, i, next,
                          std::min(kCoarseHeads, asked.heads - h), with.bounds, with.best.data() + h);
      }
      return;
    }
#endif
    int32_t some[kStretch];
    for (int64_t i = begin; i < end; i += kStretch) {
      if (i != begin && i % (32 * kStretch) == 0) check_interrupt();
      const int count = int(std::min<int64_t>(kStretch, end - i));
      if (memory.has_initial()) std::iota(some, some + count, int32_t(i));
      consider(memory, asked.similarity, asked.words, asked.norms, asked.k,
               memory.has_initial() ? some : memory.written().data() + i, count, with.best.data(), asked.heads);
    }
  }

  int threads_ = 1;
  Part whole_;
  std::vector<Part> parts_;
#if SPARSAM_VECTOR_BYTES == 64
  const CoarseWords* coarse_ = nullptr;  // of the memory that is being searched
  T floor_ = 0;                         // a score that its K-th best reaches
  std::vector<CoarseQuery> codes_;
#endif
};

}  // namespace sparsam::SPARSAM_ISA
