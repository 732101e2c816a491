// The loops over time: controller and memory of a group of batch elements, forward and backward. Compiled once per
// instruction set (sequence_*.cpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "support/parallel.h"
#include "step/sam_step.h"
#include "step/sdnc_step.h"
#include "step/sequence.h"
#include "support/row_product.h"
#include "support/packed_product.h"
#include "support/tall_product.h"

namespace sparsam::SPARSAM_ISA {

// c_t = f c_{t-1} + i g, h_t = o tanh(c_t); gates (4H) are activated in place.
template <class T>
void lstm_forward(int hidden, T* gates, const T* cell_before, T* cell, T* h) {
  for_each_vector<T>(hidden, [&](int j, auto n) __attribute__((always_inline)) {
    const Vec<T> i = sigmoid<T>(load_some(gates + j, n)), f = sigmoid<T>(load_some(gates + hidden + j, n));
    const Vec<T> g = hyperbolic_tangent<T>(load_some(gates + 2 * hidden + j, n));
    const Vec<T> o = sigmoid<T>(load_some(gates + 3 * hidden + j, n));
    const Vec<T> c = f * load_some(cell_before + j, n) + i * g;
    store_some<T>(gates + j, i, n);
    store_some<T>(gates + hidden + j, f, n);
    store_some<T>(gates + 2 * hidden + j, g, n);
    store_some<T>(gates + 3 * hidden + j, o, n);
    store_some<T>(cell + j, c, n);
    store_some<T>(h + j, o * hyperbolic_tangent<T>(c), n);
  });
}

// Gates leave as the gradients before their activation; d_cell goes from c_t to c_{t-1}.
template <class T>
void lstm_backward(int hidden, T* gates, const T* cell_before, const T* cell, const T* d_h, T* d_cell) {
  const Vec<T> one = splat<T>(1);
  for_each_vector<T>(hidden, [&](int j, auto n) __attribute__((always_inline)) {
    const Vec<T> i = load_some(gates + j, n), f = load_some(gates + hidden + j, n);
    const Vec<T> g = load_some(gates + 2 * hidden + j, n), o = load_some(gates + 3 * hidden + j, n);
    const Vec<T> tanh_c = hyperbolic_tangent<T>(load_some(cell + j, n)), dh = load_some(d_h + j, n);
    const Vec<T> dc = load_some(d_cell + j, n) + dh * o * (one - tanh_c * tanh_c);
    store_some<T>(gates + j, dc * g * i * (one - i), n);
    store_some<T>(gates + hidden + j, dc * load_some(cell_before + j, n) * f * (one - f), n);
    store_some<T>(gates + 2 * hidden + j, dc * i * (one - g * g), n);
    store_some<T>(gates + 3 * hidden + j, dh * tanh_c * o * (one - o), n);
    store_some<T>(d_cell + j, dc * f, n);
  });
}

// Offsets into a tape: step t of batch element b.
template <class T>
struct At {
  const SamShape& s;
  const SamTape<T>& tape;
  int64_t index(int64_t t, int b) const { return t * s.batch + b; }
  T* gates(int64_t t, int b) const { return tape.gates + index(t, b) * 4 * s.hidden; }
  T* cell(int64_t t, int b) const { return tape.cells + index(t, b) * s.hidden; }
  T* joint(int64_t t, int b) const { return tape.joint + index(t, b) * s.joint(); }
  T* interface(int64_t t, int b) const { return tape.interface + index(t, b) * s.interface(); }
  int32_t* rows(int64_t t, int b) const { return tape.read_rows + index(t, b) * s.reads(); }
  T* weights(int64_t t, int b) const { return tape.read_weights + index(t, b) * s.reads(); }
  StepTape<T> step(int64_t t, int b) const {
    const int64_t reads = index(t, b) * s.reads();
    return {interface(t, b),
            rows(t, b),
            weights(t, b),
            rows(t + 1, b),
            weights(t + 1, b),
            tape.scores + reads,
            tape.unused ? tape.unused + index(t, b) * s.heads : nullptr,
            tape.content_rows ? tape.content_rows + reads : nullptr,
            tape.content_weights ? tape.content_weights + reads : nullptr,
            tape.room ? tape.room + index(t, b) * s.heads : nullptr};
  }
};

// Batch elements are run in groups, each through all its steps with no barrier in between.
inline int group_size(int batch, int threads) { return std::min(kMaxRows, (batch + threads - 1) / threads); }

constexpr int64_t kStepsPerCheck = 128;

// Threads that have no group of their own, when there is one group only, share its searches.
inline int threads_per_search(int batch, int threads) { return batch <= group_size(batch, threads) ? threads : 1; }

// run(first, last, stopped) for every group. When one throws, the others see `stopped` and end as well.
template <class F>
void for_each_group(int batch, int threads, F&& run) {
  const int size = group_size(batch, threads), groups = (batch + size - 1) / size;
  std::atomic<int> next{0};
  std::atomic<bool> stopped{false};
  run_parallel(std::min(threads, groups), [&](int) {
    try {
      for (int g = next++; g < groups && !stopped; g = next++) run(g * size, std::min(batch, (g + 1) * size), stopped);
    } catch (...) {
      stopped = true;
      throw;
    }
  });
}

template <class Step, class T>
void forward_group(const SamForward<T>& f, const Packed<T>& recurrent, const Packed<T>& interface, int first, int last,
                   int search_threads, const std::atomic<bool>& stopped) {
  const SamShape& s = f.shape;
  const At<T> at{s, f.tape};
  Step step(s);
  step.share_search(search_threads);
  const T* from[kMaxRows];
  T* to[kMaxRows];
  int active[kMaxRows];
  for (int64_t t = 0; t < s.steps && !stopped; ++t) {
    if (t % kStepsPerCheck == kStepsPerCheck - 1 && f.check) f.check();
    int n = 0;
    for (int b = first; b < last; ++b) {
      if (t < f.lengths[b]) {
        active[n++] = b;
        continue;
      }
      std::fill_n(at.gates(t, b), 4 * s.hidden, T(0));  // padding: nothing is read from it, but products run over it
      std::fill_n(at.interface(t, b), s.interface(), T(0));
      std::fill_n(at.joint(t + 1, b), s.joint(), T(0));
    }
    if (n == 0) continue;
    for (int i = 0; i < n; ++i) from[i] = at.joint(t, active[i]), to[i] = at.gates(t, active[i]);
    recurrent.multiply(n, from, to);
    for (int i = 0; i < n; ++i) {
      const int b = active[i];
      lstm_forward(s.hidden, at.gates(t, b), at.cell(t, b), at.cell(t + 1, b), at.joint(t + 1, b));
      std::copy_n(f.interface_bias, s.interface(), at.interface(t, b));
      from[i] = at.joint(t + 1, b), to[i] = at.interface(t, b);
    }
    interface.multiply(n, from, to);
    for (int i = 0; i < n; ++i) {
      const int b = active[i];
      step.forward(*f.timelines[b], f.journals[b], at.step(t, b), at.joint(t + 1, b) + s.hidden);
    }
  }
}

template <class T>
void forward(const SamForward<T>& f, int threads) {
  const SamShape& s = f.shape;
  // B(k, n) = weight[n][k]: the weights as they stand are the transposes of what a forward product needs.
  const Packed<T> recurrent(f.recurrent, s.joint(), 4 * s.hidden, 1, s.joint());
  const Packed<T> interface(f.interface_weight, s.hidden, s.interface(), 1, s.hidden);
  const int search_threads = threads_per_search(s.batch, threads);
  for_each_group(s.batch, threads, [&](int first, int last, const std::atomic<bool>& stopped) {
    if (s.k_links > 0)
      forward_group<SdncStep<T>>(f, recurrent, interface, first, last, search_threads, stopped);
    else
      forward_group<SamStep<T>>(f, recurrent, interface, first, last, search_threads, stopped);
  });
}

template <class Step, class T>
void backward_group(SamBackward<T>& f, const Packed<T>& recurrent, const Packed<T>& interface, int first, int last,
                   const std::atomic<bool>& stopped) {
  const SamShape& s = f.shape;
  const At<T> at{s, f.tape};
  Step step(s);
  std::vector<std::unique_ptr<StateGradients<T>>> d_state(last - first);
  for (int b = first; b < last; ++b) {
    StateGradients<T>& d = *(d_state[b - first] = std::make_unique<StateGradients<T>>(s.rows, s.width));
    d.memory.add(f.d_memory[b]);
    if (!s.link_gradients) continue;
    d.links = std::make_unique<LinkGradients<T>>(*f.timelines[b]->links);
    d.links->add(*f.timelines[b]->links, f.d_links[b]);
  }
  const T* from[kMaxRows];
  T* to[kMaxRows];
  int active[kMaxRows];
  for (int64_t t = s.steps; t-- > 0 && !stopped;) {
    if (t % kStepsPerCheck == kStepsPerCheck - 1 && f.check) f.check();
    int n = 0;
    for (int b = first; b < last; ++b)
      if (t < f.lengths[b]) active[n++] = b;
    if (n == 0) continue;
    for (int i = 0; i < n; ++i) {
      const int b = active[i];
      T* d_joint = f.d_state_joint + int64_t(b) * s.joint();  // carried: [dh, dr] of step t
      const T* d_output = f.d_joint + at.index(t, b) * s.joint();
      for (int j = 0; j < s.joint(); ++j) d_joint[j] += d_output[j];
      step.backward(*f.timelines[b], *f.journals[b], t, *d_state[b - first], at.step(t, b), d_joint + s.hidden,
                    f.d_state_weights + int64_t(b) * s.reads());
      from[i] = at.interface(t, b), to[i] = d_joint;
    }
    interface.multiply(n, from, to);
    for (int i = 0; i < n; ++i) {
      const int b = active[i];
      lstm_backward(s.hidden, at.gates(t, b), at.cell(t, b), at.cell(t + 1, b), to[i],
                    f.d_state_cell + int64_t(b) * s.hidden);
      std::fill_n(to[i], s.joint(), T(0));
      from[i] = at.gates(t, b);
    }
    recurrent.multiply(n, from, to);
  }
  for (int b = first; b < last; ++b) {
    f.d_memory[b] = d_state[b - first]->memory.extracted();
    if (s.link_gradients) f.d_links[b] = d_state[b - first]->links->extracted(*f.timelines[b]->links);
  }
}

template <class T>
void backward(SamBackward<T>& f, int threads) {
  const SamShape& s = f.shape;
  const Packed<T> recurrent(f.recurrent, 4 * s.hidden, s.joint(), s.joint(), 1);
  const Packed<T> interface(f.interface_weight, s.interface(), s.hidden, s.hidden, 1);
  for_each_group(s.batch, threads, [&](int first, int last, const std::atomic<bool>& stopped) {
    if (s.k_links > 0)
      backward_group<SdncStep<T>>(f, recurrent, interface, first, last, stopped);
    else
      backward_group<SamStep<T>>(f, recurrent, interface, first, last, stopped);
  });
}

template <class T>
constexpr SequenceKernels<T> kKernels{&forward<T>, &backward<T>, &row_product<T>, &tall_product<T>};

}  // namespace sparsam::SPARSAM_ISA
