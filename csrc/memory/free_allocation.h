// Allocation by usage with free gates for one step (`allocation="free"`), forward and backward. The rules are those of
// the plain implementation: a read weight frees as if it were at most 1, and usage stays within [0, 1].
#pragma once

#include <algorithm>
#include <vector>

#include "memory/shape.h"
#include "memory/usage_heap.h"
#include "support/simd.h"

namespace sparsam::SPARSAM_ISA {

template <class T>
class FreeAllocation {
 public:
  explicit FreeAllocation(const MemoryShape& shape) : heads_(shape.heads), k_(shape.k) {}

  // u(i) <- u(i) prod_h (1 - f_h w^R_{t-1,h}(i)), then the R rows of least usage and 1 - u there. Free gates f (R) come
  // in before their activation and leave after it.
  void allocate(UsageHeap<T>& usage, UsageJournal<T>* journal, T* gates, const int32_t* rows, const T* weights,
                int32_t* unused, T* room) {
    for_each_vector<T>(heads_, [&](int i, auto n) __attribute__((always_inline)) {
      store_some<T>(gates + i, sigmoid<T>(load_some(gates + i, n)), n);
    });
    for (int h = 0; h < heads_; ++h)
      for (int i = h * k_; i < (h + 1) * k_; ++i) {
        if (rows[i] < 0) continue;
        const T before = usage.usage(rows[i]);
        if (before > 0) change(usage, journal, rows[i], before, before * kept(gates[h], weights[i]));
      }
    usage.least(heads_, unused);
    for (int h = 0; h < heads_; ++h) room[h] = 1 - usage.usage(unused[h]);
  }

  // u(i) <- u(i) + w(i) - u(i) w(i) for the distinct rows written, w their averaged write weights.
  static void fill(UsageHeap<T>& usage, UsageJournal<T>* journal, int n, const int32_t* rows, const T* w) {
    for (int a = 0; a < n; ++a) {
      const T before = usage.usage(rows[a]);
      change(usage, journal, rows[a], before, before + w[a] - before * w[a]);
    }
  }

  // From `d_room` (R), the gradients of 1 - u(u_h). The step has been undone: `usage` is what it started from, a
  // constant. Adds to the gradients of the previous read
  // weights (R, K); the gates leave as the gradients before their activation.
  void backward(const UsageHeap<T>& usage, T* gates, const int32_t* rows, const T* weights, const int32_t* unused,
                const T* d_room, T* d_weights) {
    d_gates_.assign(heads_, T(0));
    for (int u = 0; u < heads_; ++u) {
      const T start = usage.usage(unused[u]);
      if (start == 0) continue;
      T freed = start;
      readers_.clear();
      for (int i = 0; i < heads_ * k_; ++i)
        if (rows[i] == unused[u]) {
          readers_.push_back(i);
          freed = UsageHeap<T>::kept(freed * kept(gates[i / k_], weights[i]));
        }
      if (freed == 0) continue;  // too little to tell from 0, or all of it let go for good
      for (const int i : readers_) {
        const T others = d_room[u] * rest(start, gates, weights, i);
        d_gates_[i / k_] += others * std::min(weights[i], T(1));
        if (weights[i] <= 1) d_weights[i] += others * gates[i / k_];
      }
    }
    for (int h = 0; h < heads_; ++h) gates[h] = d_gates_[h] * gates[h] * (1 - gates[h]);
  }

 private:
  static T kept(T gate, T weight) { return 1 - gate * std::min(weight, T(1)); }

  static void change(UsageHeap<T>& usage, UsageJournal<T>* journal, int32_t row, T before, T after) {
    after = UsageHeap<T>::kept(after);
    if (after == before) return;
    if (journal) journal->save(row, before);
    usage.set(row, after);
  }

  // u before the step times what all readers of a row but `without` keep of it.
  T rest(T start, const T* gates, const T* weights, int without) const {
    for (const int i : readers_)
      if (i != without) start *= kept(gates[i / k_], weights[i]);
    return start;
  }

  const int heads_, k_;
  std::vector<T> d_gates_;
  std::vector<int> readers_;  // of one row, as places in (R, K)
};

}  // namespace sparsam::SPARSAM_ISA
