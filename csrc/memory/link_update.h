// One step of the SDNC's links (section D.1). The rules where the equations leave a choice are those of the plain
// implementation: a row is written when w(i) > 0, decays are never negative, entries are above 0, ties go to the lowest.
#pragma once

#include <algorithm>
#include <vector>

#include "memory/link_candidates.h"
#include "memory/link_vectors.h"
#include "memory/links.h"

namespace sparsam::SPARSAM_ISA {

// With w the averaged write weights,
//   N(i,.) <- (1 - w(i)) N(i,.) + w(i) p;   P(j,i) <- (1 - w(i)) P(j,i) + w(i) p(j);   p <- (1 - sum w) p + w,
// each row cut to its K_L largest entries. P is changed in two parts. A row j of P gets new entries only when p(j) > 0,
// so these few rows are made anew, each with all rows written. In all other rows entries only decay: they are found
// through N, which has j in row i where P has i in row j.
template <class T>
class LinkUpdate {
 public:
  // Scratch arrays for one step, reused over a whole sequence.
  LinkUpdate(int32_t k, int32_t max_written)
      : k_(k),
        precedence_(k),
        candidates_(k + std::max(k, max_written)),
        added_(2 * k + 16),
        in_precedence_(k),
        columns_(max_written + 16),
        weights_(max_written),
        taken_(max_written) {}

  // `written` are distinct rows.
  void operator()(Links<T>& links, LinkJournal<T>* journal, int n, const int32_t* written, const T* w) {
    const LinkRow<T> p = links.row(links.precedence());
    T total = 0;
    for (int a = 0; a < n; ++a) total += w[a];
    const T decay = std::max(T(0), 1 - total);
#if SPARSAM_VECTOR_BYTES == 64
    if constexpr (sizeof(T) == 4)
      if (LinkVectors::fits(k_, n)) return update_in_vectors(links, journal, n, written, w, decay);
#endif
    precedence_.clear();
    precedence_.push_row(p, count(p), 1);
    written_ = 0;
    for (int a = 0; a < n; ++a)
      if (w[a] > kNoLink<T>) {
        columns_[written_] = written[a] + 1;
        weights_[written_++] = w[a];
      }
    for (int a = 0; a < written_; ++a) update_predecessors(links, journal, columns_[a] - 1, weights_[a]);
    remove_fallen(links, journal);
    for (int e = 0; written_ > 0 && e < precedence_.size(); ++e)
      update_successors(links, journal, precedence_.column(e) - 1, precedence_.weight(e));
    update_precedence(links, journal, n, written, w, decay);
  }

 private:
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
    T* const added = added_.data();
    for (int e = 0; e < (k_ + 7) / 8 * 8; ++e) added[e] = 0;
    std::fill_n(in_precedence_.begin(), olds, uint8_t(0));
    for (int e = 0; e < precedence_.size(); ++e) {
      const int32_t column = precedence_.column(e);
      if (column == i + 1) continue;
      int at = position(row.columns, olds, column);
      if (at < 0) {
        at = candidates_.size();
        candidates_.push(column, 0);
      } else {
        in_precedence_[at] = 1;
      }
      added[at] = w * precedence_.weight(e);
    }
    candidates_.add(added);
    for (int e = 0; e < olds; ++e)
      if (!in_precedence_[e]) decay_successor(links, journal, row.columns[e] - 1, i + 1, decay);
    candidates_.keep_largest(k_, row);
  }

  // P(j,i) <- decay P(j,i), where it is there.
  void decay_successor(Links<T>& links, LinkJournal<T>* journal, int32_t j, int32_t column, T decay) {
    const LinkRow<T> row = links.row(links.successors(j));
    const int at = position(row.columns, k_, column);
    if (at < 0) return;
    T& weight = row.weights[at];
    if (journal) journal->save_decayed(j, at, weight);
    weight *= decay;
    if (!(weight > kNoLink<T>)) fallen_.push_back(j);
  }

  // Entries that decayed to nothing leave their rows, which is rare.
  void remove_fallen(Links<T>& links, LinkJournal<T>* journal) {
    for (const int32_t j : fallen_) {
      const int64_t id = links.successors(j);
      const LinkRow<T> row = links.row(id);
      const int before = count(row);
      if (std::all_of(row.weights, row.weights + before, [](T w) { return w > kNoLink<T>; })) continue;  // done already
      if (journal) journal->save(links, id);
      candidates_.clear();
      candidates_.push_row(row, before, 1);
      candidates_.keep_largest(k_, row);
    }
    fallen_.clear();
  }

  // P(j,.) for a row with p(j) > 0: every row written is a candidate.
  void update_successors(Links<T>& links, LinkJournal<T>* journal, int32_t j, T p) {
    const int64_t id = links.successors(j);
    const LinkRow<T> row = links.row(id);
    if (journal) journal->save(links, id);
    candidates_.clear();
    candidates_.push_row(row, count(row), 1);
    std::fill_n(taken_.begin(), written_, uint8_t(0));
    for (int e = 0, olds = candidates_.size(); e < olds; ++e) {
      const int a = position(columns_.data(), written_, candidates_.column(e));
      if (a < 0) continue;
      taken_[a] = 1;
      const T w = weights_[a], added = w * p;
      candidates_.weight(e) = std::max(T(0), 1 - w) * candidates_.weight(e) + added;
    }
    for (int a = 0; a < written_; ++a)
      if (!taken_[a] && columns_[a] != j + 1) candidates_.push(columns_[a], weights_[a] * p);
    candidates_.keep_largest(k_, row);
  }

  void update_precedence(Links<T>& links, LinkJournal<T>* journal, int n, const int32_t* written, const T* w, T decay) {
    if (journal) journal->save(links, links.precedence());
    const LinkRow<T> row = links.row(links.precedence());
    const int before = precedence_.size();
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

#if SPARSAM_VECTOR_BYTES == 64
  // The same with rows in registers.
  void update_in_vectors(Links<T>& links, LinkJournal<T>* journal, int n, const int32_t* written, const T* w, T decay) {
    const LinkRow<T> p = links.row(links.precedence());
    vectors_.begin(k_, p, n, written, w);
    for (int a = 0; a < n; ++a) {
      if (!(w[a] > kNoLink<T>)) continue;
      const int64_t id = links.predecessors(written[a]);
      if (journal) journal->save(links, id);
      int32_t columns[8];
      const T keep = std::max(T(0), 1 - w[a]);
      uint32_t decaying = vectors_.update_predecessors(links.row(id), written[a] + 1, w[a], keep, columns);
      for (; decaying != 0; decaying &= decaying - 1)
        decay_successor(links, journal, columns[std::countr_zero(decaying)] - 1, written[a] + 1, keep);
    }
    remove_fallen(links, journal);
    for (int e = 0; vectors_.any_written() && e < vectors_.precedence_size(); ++e) {
      const int64_t id = links.successors(vectors_.precedence_column(e) - 1);
      if (journal) journal->save(links, id);
      vectors_.update_successors(links.row(id), e);
    }
    if (journal) journal->save(links, links.precedence());
    vectors_.update_precedence(p, decay);
  }
  LinkVectors vectors_;
#endif

  const int k_;
  Candidates<T> precedence_, candidates_;
  std::vector<T> added_;                 // w(i) p(j) for each candidate j
  std::vector<uint8_t> in_precedence_;  // of the old entries of a row of N
  int written_ = 0;                      // rows with a weight above 0:
  std::vector<int32_t> columns_;         // their numbers plus 1
  std::vector<T> weights_;
  std::vector<uint8_t> taken_;
  std::vector<int32_t> fallen_;  // rows of P
};

}  // namespace sparsam::SPARSAM_ISA
