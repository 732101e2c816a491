// One step of the SDNC's links (section D.1). The rules where the equations leave a choice are those of the plain
// implementation: a row is written when w(i) > 0, decays are never negative, entries are above 0, ties go to the lowest.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "links.h"
#include "simd.h"

namespace sparsam::SPARSAM_ISA {

// Position of `wanted` among `count` numbers, -1 for none. Up to a vector beyond the end is read.
inline int position(const int32_t* in, int count, int32_t wanted) {
#if defined(__AVX2__)
  const __m256i w = _mm256_set1_epi32(wanted);
  for (int e = 0; e < count; e += 8) {
    const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + e));
    const uint32_t equal = uint32_t(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(some, w))));
    if (equal != 0) {
      const int at = e + std::countr_zero(equal);
      return at < count ? at : -1;
    }
  }
#else
  for (int e = 0; e < count; ++e)
    if (in[e] == wanted) return e;
#endif
  return -1;
}

// Numbers given to a few rows out of N; zero bytes mean 'none', so it costs what it holds. Clear what was set.
class RowSlots {
 public:
  explicit RowSlots(int32_t rows) : slots_(size_t(rows)) {}
  ~RowSlots() { slots_.recycle(0); }
  int32_t find(int32_t row) const { return slots_[row] - 1; }  // -1 for none
  void set(int32_t row, int32_t slot) { slots_[row] = slot + 1; }
  void clear(int32_t row) { slots_[row] = 0; }

 private:
  LazyArray<int32_t> slots_;
};

// Entries of a row while it is being changed: more than it will keep. Columns are row numbers plus 1.
template <class T>
struct WideRow {
  int32_t* columns;
  T* weights;
};

// What counts as above 0. A saturated gate leaves numbers just above the smallest normal one where a sigmoid in other
// arithmetic rounds to 0, and subnormal numbers would slow every step that follows.
template <class T>
constexpr T kNoLink = 16 * std::numeric_limits<T>::min();

// Keep the `k` largest of `n` entries, ties to the lowest column, none that is not above 0; the rest of `out` is empty.
template <class T>
void keep_largest(const WideRow<T>& from, int n, int k, const LinkRow<T>& out, int32_t* ranks) {
  if (n > k) {
    for (int e = 0; e < n; ++e) ranks[e] = 0;
    for (int m = 0; m < n; ++m) {
      const T weight = from.weights[m];
      const int32_t column = from.columns[m];
      for (int e = 0; e < n; ++e)
        ranks[e] += (weight > from.weights[e]) | ((weight == from.weights[e]) & (column < from.columns[e]));
    }
  }
  int kept = 0;
  for (int e = 0; e < n; ++e) {
    if ((n > k && ranks[e] >= k) || !(from.weights[e] > kNoLink<T>)) continue;
    out.columns[kept] = from.columns[e];
    out.weights[kept] = from.weights[e];
    ++kept;
  }
  for (; kept < k; ++kept) {
    out.columns[kept] = 0;
    out.weights[kept] = 0;
  }
}

// Room for one step, reused over a whole sequence.
template <class T>
class LinkUpdate {
 public:
  LinkUpdate(int32_t rows, int32_t k, int32_t max_written)
      : k_(k),
        capacity_((k + std::max(k, max_written) + 7) / 8 * 8 + 8),
        slots_(rows),
        precedence_columns_(k + 8),
        precedence_weights_(k),
        previous_(capacity_),
        candidates_(capacity_),
        candidate_weights_(capacity_),
        ranks_(capacity_) {}

  // N(i,.) <- (1 - w(i)) N(i,.) + w(i) p;  P(j,i) <- (1 - w(i)) P(j,i) + w(i) p(j) for j in p or N(i,.);
  // p <- (1 - sum w) p + w. `written` are distinct rows and `w` their averaged write weights.
  void operator()(Links<T>& links, LinkJournal<T>* journal, int n, const int32_t* written, const T* w) {
    const LinkRow<T> p = links.row(links.precedence());
    const int before = links.count(p);
    std::copy_n(p.columns, before, precedence_columns_.data());
    std::copy_n(p.weights, before, precedence_weights_.data());
    changed_.clear();
    for (int a = 0; a < n; ++a)
      if (w[a] > kNoLink<T>) update_row(links, journal, written[a], w[a], before);
    for (size_t slot = 0; slot < changed_.size(); ++slot) {
      keep_largest(wide(slot), counts_[slot], k_, links.row(links.successors(changed_[slot])), ranks_.data());
      slots_.clear(changed_[slot]);
    }
    update_precedence(links, journal, n, written, w, before);
  }

 private:
  WideRow<T> wide(size_t slot) { return {wide_columns_.data() + slot * capacity_, wide_weights_.data() + slot * capacity_}; }

  void update_row(Links<T>& links, LinkJournal<T>* journal, int32_t i, T w, int precedences) {
    const T decay = std::max(T(0), 1 - w);
    const int64_t id = links.predecessors(i);
    const LinkRow<T> row = links.row(id);
    if (journal) journal->save(links, id);
    const int olds = links.count(row);
    std::copy_n(row.columns, olds, candidates_.data());
    std::copy_n(row.weights, olds, candidate_weights_.data());
    std::fill_n(previous_.data(), olds, T(0));
    int n = olds;
    for (int e = 0; e < precedences; ++e) {
      const int32_t column = precedence_columns_[e];
      if (column == i + 1) continue;
      const int at = position(row.columns, olds, column);
      if (at >= 0) {
        previous_[at] = precedence_weights_[e];
      } else {
        candidates_[n] = column;
        candidate_weights_[n] = 0;
        previous_[n++] = precedence_weights_[e];
      }
    }
    for (int e = 0; e < n; ++e) {
      candidate_weights_[e] = decay * candidate_weights_[e] + w * previous_[e];
      update_successor(links, journal, candidates_[e] - 1, i, decay, w * previous_[e]);
    }
    keep_largest(WideRow<T>{candidates_.data(), candidate_weights_.data()}, n, k_, row, ranks_.data());
  }

  // P(j,i) <- decay P(j,i) + added. Each pair comes at most once in a step, so only entries from before it can match.
  void update_successor(Links<T>& links, LinkJournal<T>* journal, int32_t j, int32_t i, T decay, T added) {
    int32_t slot = slots_.find(j);
    if (slot < 0) slot = open(links, journal, j);
    const WideRow<T> row = wide(slot);
    const int at = position(row.columns, olds_[slot], i + 1);
    if (at >= 0) {
      row.weights[at] = decay * row.weights[at] + added;
    } else if (added > kNoLink<T>) {
      const int end = counts_[slot]++;
      row.columns[end] = i + 1;
      row.weights[end] = added;
    }
  }

  int32_t open(Links<T>& links, LinkJournal<T>* journal, int32_t j) {
    const int32_t slot = int32_t(changed_.size());
    if (size_t(slot) == counts_.size()) {
      counts_.resize(slot + 32);
      olds_.resize(slot + 32);
      wide_columns_.resize((slot + 32) * size_t(capacity_));
      wide_weights_.resize((slot + 32) * size_t(capacity_));
    }
    const int64_t id = links.successors(j);
    if (journal) journal->save(links, id);
    const LinkRow<T> row = links.row(id);
    const WideRow<T> to = wide(slot);
    std::copy_n(row.columns, k_, to.columns);
    std::copy_n(row.weights, k_, to.weights);
    counts_[slot] = olds_[slot] = links.count(row);
    changed_.push_back(j);
    slots_.set(j, slot);
    return slot;
  }

  void update_precedence(Links<T>& links, LinkJournal<T>* journal, int n, const int32_t* written, const T* w,
                         int before) {
    if (journal) journal->save(links, links.precedence());
    T total = 0;
    for (int a = 0; a < n; ++a) total += w[a];
    const T decay = std::max(T(0), 1 - total);
    for (int e = 0; e < before; ++e) {
      candidates_[e] = precedence_columns_[e];
      candidate_weights_[e] = decay * precedence_weights_[e];
    }
    int m = before;
    for (int a = 0; a < n; ++a) {
      const int at = position(precedence_columns_.data(), before, written[a] + 1);
      if (at >= 0) {
        candidate_weights_[at] += w[a];
      } else {
        candidates_[m] = written[a] + 1;
        candidate_weights_[m++] = w[a];
      }
    }
    keep_largest(WideRow<T>{candidates_.data(), candidate_weights_.data()}, m, k_, links.row(links.precedence()),
                 ranks_.data());
  }

  const int k_, capacity_;
  RowSlots slots_;  // of the rows of P that change
  std::vector<int32_t> precedence_columns_;
  std::vector<T> precedence_weights_, previous_;
  std::vector<int32_t> candidates_;
  std::vector<T> candidate_weights_;
  std::vector<int32_t> ranks_;
  std::vector<int32_t> changed_, counts_, olds_, wide_columns_;
  std::vector<T> wide_weights_;
};

}  // namespace sparsam::SPARSAM_ISA
