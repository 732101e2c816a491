// One step of the SDNC's links (section D.1). The rules where the equations leave a choice are those of the plain
// implementation: a row is written when w(i) > 0, decays are never negative, entries are above 0, ties go to the lowest.
#pragma once

#include <algorithm>
#include <bit>
#include <exception>
#include <limits>
#include <vector>

#include "support/aligned.h"
#include "memory/links.h"
#include "support/simd.h"

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
  ~RowSlots() {
    if (std::uncaught_exceptions() == 0) slots_.recycle(0);  // a step that ended halfway leaves numbers behind
  }
  int32_t find(int32_t row) const { return slots_[row] - 1; }  // -1 for none
  int32_t find_plus_1(int32_t row) const { return slots_[row]; }
  void set(int32_t row, int32_t slot) { slots_[row] = slot + 1; }
  void clear(int32_t row) { slots_[row] = 0; }

 private:
  LazyArray<int32_t> slots_;
};

// What counts as above 0. A saturated gate leaves numbers just above the smallest normal one where a sigmoid in other
// arithmetic rounds to 0, and subnormal numbers would slow every step that follows.
template <class T>
constexpr T kNoLink = 16 * std::numeric_limits<T>::min();

// Entries of a row while it is being changed: more than it will keep. Columns are row numbers plus 1.
template <class T>
class Candidates {
 public:
  explicit Candidates(int capacity)
      : columns_(capacity + 16), weights_(aligned_array<T>(capacity + 16)), ranks_(capacity + 16) {}

  int size() const { return size_; }
  int32_t column(int e) const { return columns_[e]; }
  T& weight(int e) { return weights_[e]; }
  void clear() { size_ = 0; }
  void push(int32_t column, T weight) {
    columns_[size_] = column;
    weights_[size_++] = weight;
  }
  // A row's entries, their weights times `scale`. Eight at a time: both sides have room to spare.
  void push_row(const LinkRow<T>& row, int count, T scale) {
    int32_t* columns = columns_.data() + size_;
    T* weights = weights_.get() + size_;
    for (int at = 0; at < count; at += 8) {
      std::memcpy(columns + at, row.columns + at, 8 * sizeof(int32_t));
      T some[8];
      std::memcpy(some, row.weights + at, sizeof(some));
      for (int e = 0; e < 8; ++e) some[e] *= scale;
      std::memcpy(weights + at, some, sizeof(some));
    }
    size_ += count;
  }
  // Adds to each entry what stands at its place in `more`.
  void add(const T* more) {
    for (int at = 0; at < size_; at += 8)
      for (int e = at; e < at + 8; ++e) weights_[e] += more[e];
  }
  const int32_t* columns() const { return columns_.data(); }

  // The `k` largest entries into `out`, ties to the lowest column and none that is not above 0; the rest is empty.
  void keep_largest(int k, const LinkRow<T>& out) {
#if SPARSAM_VECTOR_BYTES == 64
    if constexpr (sizeof(T) == 4)
      if (k <= 8 && keep_largest_in_vectors(k, out)) return;
#endif
    const bool all = size_ <= k;
    if (!all) rank(k);
    int kept = 0;
    for (int e = 0; e < size_; ++e) {  // no branches: which entries stay is hard to foretell
      columns_[kept] = columns_[e];
      weights_[kept] = weights_[e];
      kept += (weights_[e] > kNoLink<T>) & (all | (ranks_[e] < k));
    }
    for (int e = 0; e < k; ++e) {
      out.columns[e] = e < kept ? columns_[e] : 0;
      out.weights[e] = e < kept ? weights_[e] : T(0);
    }
  }

 private:
#if SPARSAM_VECTOR_BYTES == 64
  // The same in registers: of the first 16 entries the k largest, then of those and the next few, and so on. False when
  // equal weights lie across a boundary; then what is still to choose from is left here.
  bool keep_largest_in_vectors(int k, const LinkRow<T>& out) {
    int first = 0;
    while (size_ - first > 16) {
      const LinkRow<T> next{weights_.get() + first + 16 - k, columns_.data() + first + 16 - k};
      if (!keep_largest_of_vector(first, 16, k, next)) break;
      first += 16 - k;
    }
    if (size_ - first <= 16 && keep_largest_of_vector(first, size_ - first, k, out)) return true;
    size_ -= first;
    std::memmove(columns_.data(), columns_.data() + first, sizeof(int32_t) * size_);
    std::memmove(weights_.get(), weights_.get() + first, sizeof(T) * size_);
    return false;
  }
  bool keep_largest_of_vector(int first, int n, int k, const LinkRow<T>& out) const {
    const T* weights = weights_.get() + first;
    const auto some = __mmask16((1u << n) - 1), places = __mmask16((1u << k) - 1);
    const __m512 ours = _mm512_maskz_loadu_ps(some, weights);
    __mmask16 kept = _mm512_mask_cmp_ps_mask(some, ours, _mm512_set1_ps(kNoLink<T>), _CMP_GT_OQ);
    if (n > k) {
      __m512i larger = _mm512_setzero_si512();
      const __m512i one = _mm512_set1_epi32(1);
      for (int m = 0; m < n; ++m)
        larger = _mm512_mask_add_epi32(
            larger, _mm512_cmp_ps_mask(_mm512_set1_ps(weights[m]), ours, _CMP_GT_OQ), larger, one);
      const __mmask16 before = _mm512_mask_cmplt_epi32_mask(some, larger, _mm512_set1_epi32(k));
      if (std::popcount(uint32_t(before)) != k) return false;
      kept &= before;
    }
    const __m512i columns = _mm512_maskz_loadu_epi32(some, columns_.data() + first);
    _mm512_mask_storeu_epi32(out.columns, places, _mm512_maskz_compress_epi32(kept, columns));
    _mm512_mask_storeu_ps(out.weights, places, _mm512_maskz_compress_ps(kept, ours));
    return true;
  }
#endif

  // How many entries come before each.
  void rank(int k) {
    using I = typename Simd<T>::I;
    for (int e = size_; e < size_ + kLanes<T>; ++e) weights_[e] = -1;
    int before = 0;  // entries with fewer than k larger ones
    for (int at = 0; at < size_; at += kLanes<T>) {
      const Vec<T> ours = load(weights_.get() + at);
      I larger{};
      for (int m = 0; m < size_; ++m) larger -= splat(weights_[m]) > ours;
      for (int e = 0; e < std::min(kLanes<T>, size_ - at); ++e) {
        ranks_[at + e] = int32_t(larger[e]);
        before += larger[e] < k;
      }
    }
    if (before == k) return;
    for (int e = 0; e < size_; ++e)  // equal weights across the boundary
      for (int m = 0; m < size_; ++m) ranks_[e] += (weights_[m] == weights_[e]) & (columns_[m] < columns_[e]);
  }

  int size_ = 0;
  std::vector<int32_t> columns_;
  Aligned<T> weights_;
  std::vector<int32_t> ranks_;
};

// Scratch arrays for one step, reused over a whole sequence.
template <class T>
class LinkUpdate {
 public:
  LinkUpdate(int32_t rows, int32_t k, int32_t max_written)
      : k_(k),
        max_written_(max_written),
        slots_(rows),
        precedence_(k),
        candidates_(k + std::max(k, max_written)),
        previous_(2 * k + 16) {}

  // N(i,.) <- (1 - w(i)) N(i,.) + w(i) p;  P(j,i) <- (1 - w(i)) P(j,i) + w(i) p(j) for j in p or N(i,.);
  // p <- (1 - sum w) p + w. `written` are distinct rows and `w` their averaged write weights.
  void operator()(Links<T>& links, LinkJournal<T>* journal, int n, const int32_t* written, const T* w) {
    const LinkRow<T> p = links.row(links.precedence());
    precedence_.clear();
    precedence_.push_row(p, count(p), 1);
    open_ = 0;
    for (int a = 0; a < n; ++a)
      if (w[a] > kNoLink<T>) update_predecessors(links, journal, written[a], w[a]);
    for (int slot = 0; slot < open_; ++slot) close(changed_[slot], slot);
    update_precedence(links, journal, n, written, w);
  }

 private:
  struct Changed {
    LinkRow<T> row;  // P(j,.), changed in place
    int32_t j, count, more;  // `more` entries found no room in it
    bool fell;               // an entry fell to 0
  };
  int count(const LinkRow<T>& row) const {
    const int end = position(row.columns, k_, 0);
    return end < 0 ? k_ : end;
  }

  void update_predecessors(Links<T>& links, LinkJournal<T>* journal, int32_t i, T w) {
    const T decay = std::max(T(0), 1 - w);
    const int64_t id = links.predecessors(i);
    const LinkRow<T> row = links.row(id);
    if (journal) journal->save(links, id);
    const int olds = count(row);
    candidates_.clear();
    candidates_.push_row(row, olds, decay);
    T* previous = previous_.data();
    for (int e = 0; e < (k_ + 7) / 8 * 8; ++e) previous[e] = 0;
    for (int e = 0; e < precedence_.size(); ++e) {
      const int32_t column = precedence_.column(e);
      if (column == i + 1) continue;
      int at = position(row.columns, olds, column);
      if (at < 0) {
        at = candidates_.size();
        candidates_.push(column, 0);
      }
      previous[at] = w * precedence_.weight(e);
    }
    candidates_.add(previous);
    const int32_t* columns = candidates_.columns();
    for (int e = 0, n = candidates_.size(); e < n; ++e)
      update_successor(links, journal, columns[e] - 1, i, decay, previous[e]);
    candidates_.keep_largest(k_, row);
  }

  // P(j,i) <- decay P(j,i) + added. A pair comes at most once in a step, so what the step adds is never looked for.
  void update_successor(Links<T>& links, LinkJournal<T>* journal, int32_t j, int32_t i, T decay, T added) {
    int32_t slot = slots_.find(j);
    if (slot < 0) slot = open(links, journal, j);
    Changed& changed = changed_[slot];
    const int at = position(changed.row.columns, k_, i + 1);
    if (at >= 0) {
      const T weight = decay * changed.row.weights[at] + added;
      changed.row.weights[at] = weight;
      changed.fell |= !(weight > kNoLink<T>);
    } else if (added > kNoLink<T>) {
      if (changed.count < k_) {
        changed.row.columns[changed.count] = i + 1;
        changed.row.weights[changed.count++] = added;
      } else {
        const LinkRow<T> more = more_of(slot);
        more.columns[changed.more] = i + 1;
        more.weights[changed.more++] = added;
      }
    }
  }

  int32_t open(Links<T>& links, LinkJournal<T>* journal, int32_t j) {
    const int32_t slot = open_++;
    if (size_t(slot) == changed_.size()) {
      changed_.resize(slot + 32);
      more_columns_.resize(size_t(slot + 32) * max_written_ + 8);
      more_weights_.resize(size_t(slot + 32) * max_written_ + 8);
    }
    const int64_t id = links.successors(j);
    if (journal) journal->save(links, id);
    const LinkRow<T> row = links.row(id);
    changed_[slot] = {row, j, count(row), 0, false};
    slots_.set(j, slot);
    return slot;
  }

  LinkRow<T> more_of(int slot) {
    return {more_weights_.data() + size_t(slot) * max_written_, more_columns_.data() + size_t(slot) * max_written_};
  }

  void close(const Changed& changed, int slot) {
    slots_.clear(changed.j);
    if (changed.more == 0 && !changed.fell) return;
    candidates_.clear();
    candidates_.push_row(changed.row, changed.count, 1);
    candidates_.push_row(more_of(slot), changed.more, 1);
    candidates_.keep_largest(k_, changed.row);
  }

  void update_precedence(Links<T>& links, LinkJournal<T>* journal, int n, const int32_t* written, const T* w) {
    if (journal) journal->save(links, links.precedence());
    const LinkRow<T> row = links.row(links.precedence());
    const int before = precedence_.size();
    T total = 0;
    for (int a = 0; a < n; ++a) total += w[a];
    const T decay = std::max(T(0), 1 - total);
    candidates_.clear();
    candidates_.push_row(row, before, decay);
    for (int a = 0; a < n; ++a) {
      const int at = position(row.columns, before, written[a] + 1);
      if (at >= 0)
        candidates_.weight(at) += w[a];
      else
        candidates_.push(written[a] + 1, w[a]);
    }
    candidates_.keep_largest(k_, row);
  }

  const int k_, max_written_;
  RowSlots slots_;  // of the rows of P that change
  int32_t open_ = 0;
  std::vector<Changed> changed_;
  std::vector<int32_t> more_columns_;
  std::vector<T> more_weights_;
  Candidates<T> precedence_, candidates_;
  std::vector<T> previous_;  // w(i) p(j) for each candidate j
};

}  // namespace sparsam::SPARSAM_ISA
