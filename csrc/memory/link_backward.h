// Gradients through one step of the links (`link_update.h`), which the paper leaves out 'for implementation simplicity'.
#pragma once

#include <algorithm>
#include <vector>

#include "memory/link_candidates.h"
#include "memory/gradients.h"
#include "memory/links.h"
#include "memory/row_set.h"

namespace sparsam::SPARSAM_ISA {

template <class T>
class LinkBackward {
 public:
  LinkBackward(int32_t rows, int32_t k) : k_(k), slots_(rows), old_(k), d_precedence_(k) {}

  // The step has been undone: `links` are those before it, and the journal holds the rows after it. `gradients` go from
  // the links after the step to those before it; `d_w` (n) comes out as the gradient of the averaged write weights.
  void operator()(const Links<T>& links, const LinkJournal<T>& journal, int64_t step, LinkGradients<T>& gradients, int n,
                  const int32_t* written, const T* w, T* d_w) {
    for (int a = 0; a < n; ++a) slots_.set(written[a], a);
    std::fill_n(d_w, n, T(0));
    // p goes first: its record is the last of the step.
    precedence(links, journal.saved(journal.end(step) - 1), gradients, n, w, d_w);
    for (int64_t record = journal.begin(step); record + 1 < journal.end(step); ++record) {
      const int64_t id = journal.id(record);
      if (!gradients.touched(id)) continue;
      std::fill(old_.begin(), old_.end(), T(0));
      if (id % 2 == 0)
        predecessors(links, journal.saved(record), id, gradients.row(id), w, d_w);
      else
        successors(links, journal.saved(record), id, gradients.row(id), w, d_w);
      std::copy_n(old_.data(), k_, gradients.row(id));
    }
    std::copy_n(d_precedence_.data(), k_, gradients.row(links.precedence()));
    decayed(links, journal, step, gradients, w, d_w);
    for (int a = 0; a < n; ++a) slots_.clear(written[a]);
  }

 private:
  // p_t = max(0, 1 - sum w) p + w
  void precedence(const Links<T>& links, const std::byte* after, LinkGradients<T>& gradients, int n, const T* w, T* d_w) {
    std::fill(d_precedence_.begin(), d_precedence_.end(), T(0));
    const LinkRow<const T> p = links.row(links.precedence()), p_after = links.view(after);
    const T* d = gradients.row(links.precedence());
    T total = 0, d_total = 0;
    for (int a = 0; a < n; ++a) total += w[a];
    for (int e = 0; e < links.count(p_after); ++e) {
      const int32_t row = p_after.columns[e] - 1;
      const int at = links.find(p, row), a = slots_.find(row);
      if (a >= 0) d_w[a] += d[e];
      if (at < 0 || total > 1) continue;  // a decay held at 0 passes nothing on
      d_precedence_[at] += (1 - total) * d[e];
      d_total -= p.weights[at] * d[e];
    }
    for (int a = 0; a < n; ++a) d_w[a] += d_total;
  }

  // An entry max(0, 1 - w(i)) old + w(i) p(j): old is the entry at `at` (-1 for none) of a row before the step.
  void entry(const LinkRow<const T>& row, int at, const LinkRow<const T>& p, int p_at, T w, T d, T& d_w) {
    if (p_at >= 0) {
      d_precedence_[p_at] += w * d;
      d_w += p.weights[p_at] * d;
    }
    if (at < 0 || w > 1) return;
    old_[at] += (1 - w) * d;
    d_w -= row.weights[at] * d;
  }

  void predecessors(const Links<T>& links, const std::byte* after, int64_t id, const T* d, const T* w, T* d_w) {
    const LinkRow<const T> before = links.row(id), now = links.view(after), p = links.row(links.precedence());
    const int a = slots_.find(int32_t(id / 2));
    for (int e = 0; e < links.count(now); ++e) {
      const int32_t j = now.columns[e] - 1;
      entry(before, links.find(before, j), p, links.find(p, j), w[a], d[e], d_w[a]);
    }
  }

  void successors(const Links<T>& links, const std::byte* after, int64_t id, const T* d, const T* w, T* d_w) {
    const LinkRow<const T> before = links.row(id), now = links.view(after), p = links.row(links.precedence());
    const int32_t j = int32_t(id / 2);
    const int p_at = links.find(p, j);
    for (int e = 0; e < links.count(now); ++e) {
      const int32_t i = now.columns[e] - 1;
      const int at = links.find(before, i), a = slots_.find(i);
      const bool changed =
          a >= 0 && w[a] > kNoLink<T> && (p_at >= 0 || links.find(links.row(links.predecessors(i)), j) >= 0);
      if (changed)
        entry(before, at, p, p_at, w[a], d[e], d_w[a]);
      else
        old_[at] += d[e];
    }
  }

  // Entries that only decayed. A row that lost some of them altogether was saved whole, and is done.
  void decayed(const Links<T>& links, const LinkJournal<T>& journal, int64_t step, LinkGradients<T>& gradients, const T* w,
               T* d_w) {
    whole_.clear();
    const LinkRow<const T> p = links.row(links.precedence());
    for (int64_t record = journal.begin(step); record + 1 < journal.end(step); ++record) {
      const int64_t id = journal.id(record);
      if (id % 2 == 1 && links.find(p, int32_t(id / 2)) < 0) whole_.push_back(id);
    }
    for (int32_t i = 0; i < journal.decayed_count(step); ++i) {
      const typename LinkJournal<T>::Decayed& one = journal.decayed(step)[i];
      const int64_t id = links.successors(one.row);
      if (!gradients.touched(id) || std::find(whole_.begin(), whole_.end(), id) != whole_.end()) continue;
      const LinkRow<const T> before = links.row(id);
      const int a = slots_.find(before.columns[one.entry] - 1);
      T& d = gradients.row(id)[one.entry];
      if (w[a] <= 1) d_w[a] -= before.weights[one.entry] * d;
      d *= std::max(T(0), 1 - w[a]);
    }
  }

  const int k_;
  RowSlots slots_;  // of the rows written
  std::vector<T> old_, d_precedence_;
  std::vector<int64_t> whole_;  // rows of P
};

}  // namespace sparsam::SPARSAM_ISA
