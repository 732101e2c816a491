// The K words most similar to each query, by looking at every word that could be one of them.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "index/best.h"
#include "index/look_ahead.h"
#include "index/sketch_search.h"
#include "memory/words.h"
#include "support/interrupt.h"
#include "support/parallel.h"
#include "step/sequence.h"
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

// Offers a stretch of rows, at most kBlocks blocks, to every head's best.
template <class T>
void consider(const Memory<T>& memory, Similarity kind, const T* queries, const T* norms, int k, const int32_t* some,
              int count, std::vector<Best<T>>& best) {
  constexpr int L = RowBlock<T>::kRows;
  const int width = memory.stride(), heads = int(best.size()), heads_at_once = std::min(heads, kHeadsAtOnce);
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

// A thread's share of a search.
template <class T>
struct SearchPart {
  std::vector<int32_t> rows;
  std::vector<T> scores;
  std::vector<Best<T>> best;
#if SPARSAM_VECTOR_BYTES == 64
  SketchBounds bounds;
#endif

  void begin(int heads, int k) {
    rows.resize(size_t(heads) * k);
    scores.resize(size_t(heads) * k);
    best.clear();
    for (int h = 0; h < heads; ++h) best.emplace_back(k, rows.data() + h * k, scores.data() + h * k);
  }
};

template <class T>
struct SearchScratch {
  std::vector<Best<T>> best;
  std::vector<SearchPart<T>> parts;
#if SPARSAM_VECTOR_BYTES == 64
  std::vector<SketchQuery> codes;
  SketchBounds bounds;
#endif
  int threads = 1;  // that may share one search
};

// Words never written are all zero and alike, so the first K of them by row number stand for all. A starting memory has
// none. Scores that are not numbers are never taken: where too few are left, the lowest rows are.
template <class T>
void offer_blanks(const Memory<T>& memory, Similarity kind, const T* queries, const T* norms, int k,
                  std::vector<Best<T>>& best) {
  const int width = memory.stride(), heads = int(best.size());
  if (!memory.has_initial()) {
    int32_t row = memory.first_blank();
    for (int found = 0; found < k && row < memory.rows(); ++row) {
      if (memory.is_written(row)) continue;
      ++found;
      for (int h = 0; h < heads; ++h) best[h].offer(blank_score(kind, queries + h * width, width), row);
    }
  }
  for (int h = 0; h < heads; ++h) fill_up(best[h], memory, kind, queries + h * width, norms[h]);
}

constexpr int64_t kRowsPerThread = 16384;  // fewer are searched before another thread has begun

// Queries are (R, stride); rows and scores come out as (R, K). The result does not depend on the number of threads.
template <class T>
void exact_search(const Memory<T>& memory, Similarity kind, const T* queries, const T* norms, int heads, int k,
                  int32_t* rows, T* scores, SearchScratch<T>& scratch) {
  constexpr int kStretch = kBlocks * RowBlock<T>::kRows;
  [[maybe_unused]] const int width = memory.stride();
  std::vector<Best<T>>& best = scratch.best;
  best.clear();
  for (int h = 0; h < heads; ++h) best.emplace_back(k, rows + h * k, scores + h * k);
  const std::vector<int32_t>& written = memory.written();
  const bool every = memory.has_initial();
  const int64_t total = every ? int64_t(memory.rows()) : int64_t(written.size());
#if SPARSAM_VECTOR_BYTES == 64
  const WordSketch* const sketch =
      total >= kFewestSketched && has_sketch(memory, kind) ? &current_sketch(memory) : nullptr;
  const T floor = memory.rows() - total >= k ? T(0) : -std::numeric_limits<T>::infinity();  // of K blank words
  scratch.codes.clear();
  for (int h = 0; sketch && h < heads; ++h) scratch.codes.emplace_back(queries + h * width, norms[h], memory.width());
#endif
  auto look = [&](int64_t begin, int64_t end, auto& with) {  // a SearchScratch or SearchPart
    std::vector<Best<T>>& into = with.best;
#if SPARSAM_VECTOR_BYTES == 64
    if (sketch) {
      constexpr int64_t kWords = WordSketch::kWords;
      const int64_t last = (end + kWords - 1) / kWords;
      for (int64_t i = begin / kWords; i < last; i += kSketchBlocks) {
        if (i != begin / kWords) check_interrupt();
        for (int h = 0; h < heads; h += kSketchHeads)
          consider_sketched(memory, *sketch, scratch.codes.data() + h, queries + h * width, norms + h, floor, k, i,
                            std::min(last, i + kSketchBlocks), std::min(kSketchHeads, heads - h), with.bounds,
                            into.data() + h);
      }
      return;
    }
#endif
    int32_t some[kStretch];
    for (int64_t i = begin; i < end; i += kStretch) {
      if (i != begin && i % (32 * kStretch) == 0) check_interrupt();
      const int count = int(std::min<int64_t>(kStretch, end - i));
      if (every) std::iota(some, some + count, int32_t(i));
      consider(memory, kind, queries, norms, k, every ? some : written.data() + i, count, into);
    }
  };
  const int parts = int(std::min<int64_t>(scratch.threads, total / kRowsPerThread));
  if (parts < 2) {
    look(0, total, scratch);
  } else {
    const int64_t stretches = (total + kStretch - 1) / kStretch;
    auto edge = [&](int part) { return std::min(total, stretches * part / parts * kStretch); };
    scratch.parts.resize(size_t(parts));
    run_parallel(parts, [&](int part) {
      scratch.parts[part].begin(heads, k);
      look(edge(part), edge(part + 1), scratch.parts[part]);
    });
    for (SearchPart<T>& part : scratch.parts)
      for (int h = 0; h < heads; ++h) best[h].offer_all(part.best[h]);
  }
  offer_blanks(memory, kind, queries, norms, k, best);
}

// The same, where the following steps' queries are known as well and `LookAhead::serves`.
template <class T>
void exact_search_ahead(const Memory<T>& memory, Similarity kind, const Coming<T>& coming, const T* queries,
                        const T* norms, int heads, int k, int32_t* rows, T* scores, LookAhead<T>& ahead,
                        SearchScratch<T>& scratch) {
  std::vector<Best<T>>& best = scratch.best;
  best.clear();
  for (int h = 0; h < heads; ++h) best.emplace_back(k, rows + h * k, scores + h * k);
  const int64_t blank = int64_t(memory.rows()) - int64_t(memory.written().size());
  ahead.search(memory, coming, queries, norms, heads, k, blank >= k ? T(0) : -std::numeric_limits<T>::infinity(), best);
  offer_blanks(memory, kind, queries, norms, k, best);
}

}  // namespace sparsam::SPARSAM_ISA
