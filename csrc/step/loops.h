// The loops over time: controller and memory of a group of batch elements, forward and backward, for every controller
// and memory. Compiled once per instruction set (sequence_*.cpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <vector>

#include "index/index_kinds.h"
#include "step/backward_clip.h"
#include "step/controllers/gru.h"
#include "step/controllers/lstm.h"
#include "step/sam_step.h"
#include "step/sdnc_step.h"
#include "step/sequence.h"
#include "support/causal_convolution.h"
#include "support/interrupt.h"
#include "support/linear.h"
#include "support/packed_product.h"
#include "support/parallel.h"
#include "support/tall_product.h"

namespace sparsam::SPARSAM_ISA {

// No controller: x is the interface vector before its activation, and nothing recurs but the memory.
template <class T>
struct NoController {
  static constexpr bool kControls = false;
  struct Weightless {
    Weightless(const SequenceShape&, const Weights<T>&) {}
  };
  using Forward = Weightless;
  using Backward = Weightless;
  static void gradients(const SequenceBackward<T>&, const T*, int) {}
};

// Offsets into a tape: step t of batch element b.
template <class T>
struct At {
  const SequenceShape& s;
  const Tape<T>& tape;
  int64_t index(int64_t t, int b) const { return t * s.batch + b; }
  T* gates(int64_t t, int b) const { return tape.gates + index(t, b) * s.gates; }
  T* cell(int64_t t, int b) const { return tape.cells ? tape.cells + index(t, b) * s.hidden : nullptr; }
  T* joint(int64_t t, int b) const { return tape.joint + index(t, b) * s.joint; }
  T* interface(int64_t t, int b) const { return tape.interface + index(t, b) * s.interface; }
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

// f.operator()<Controller, Step>(), with the classes that this sequence's kinds name.
template <class T, class F>
void with_kinds(const SequenceShape& s, F&& f) {
  auto with_step = [&]<class Step>() {
    switch (s.controller) {
#define SPARSAM_WITH(name, type, ...) \
  case ControllerKind::name: return f.template operator()<type<T>, Step>();
      SPARSAM_CONTROLLERS(SPARSAM_WITH)
#undef SPARSAM_WITH
    }
  };
  switch (s.memory) {
#define SPARSAM_WITH(name, type, links) \
  case MemoryKind::name: return with_step.template operator()<type<T>>();
    SPARSAM_MEMORIES(SPARSAM_WITH)
#undef SPARSAM_WITH
  }
}

// Batch elements are run in groups, each through all its steps with no barrier in between.
inline int group_size(int batch, int threads) { return std::min(kMaxRows, (batch + threads - 1) / threads); }

constexpr int64_t kStepsPerCheck = 16;

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

// The packed weights of one direction of a controller, of the interface and of the output layer, shared by all groups.
template <class Direction, class T>
struct PackedWeights {
  Direction controller;
  Packed<T> interface, output;
};

// Runs the controller of n active batch elements at step t: h_t and the interface vector before its activation.
template <class Controller, class T, class Packs>
void control(const SequenceForward<T>& f, const Packs& packed, const At<T>& at, int64_t t, int n,
             const int* active) {
  const SequenceShape& s = f.shape;
  if constexpr (Controller::kControls) {
    const T* from[kMaxRows] = {};
    T* to[kMaxRows] = {};
    for (int i = 0; i < n; ++i) from[i] = f.x + at.index(t, active[i]) * s.inputs, to[i] = at.gates(t, active[i]);
    packed.controller.begin(n, from, to);
    for (int i = 0; i < n; ++i) from[i] = at.joint(t, active[i]);
    packed.controller.add(n, from, to);
    for (int i = 0; i < n; ++i) {
      const int b = active[i];
      packed.controller.activate(at.gates(t, b), at.joint(t, b), at.cell(t, b), at.cell(t + 1, b), at.joint(t + 1, b));
      std::copy_n(f.weights.b_interface, s.interface, at.interface(t, b));
      from[i] = at.joint(t + 1, b), to[i] = at.interface(t, b);
    }
    packed.interface.multiply(n, from, to);
  } else {
    for (int i = 0; i < n; ++i)
      std::copy_n(f.x + at.index(t, active[i]) * s.interface, s.interface, at.interface(t, active[i]));
  }
}

// What step t puts out for the batch elements from first to last: y_t = W [h_t, r_t] + b of the active ones, or [h_t, r_t].
template <class T, class Packs>
void put_out(const SequenceForward<T>& f, const Packs& packed, const At<T>& at, int64_t t, int first, int last,
             int n, const int* active) {
  const SequenceShape& s = f.shape;
  if (s.outputs > 0) {
    const T* from[kMaxRows] = {};
    T* to[kMaxRows] = {};
    if (n < last - first)
      std::fill_n(f.out + at.index(t, first) * s.outputs, int64_t(last - first) * s.outputs, T(0));
    for (int i = 0; i < n; ++i) {
      from[i] = at.joint(t + 1, active[i]), to[i] = f.out + at.index(t, active[i]) * s.outputs;
      std::copy_n(f.weights.b_output, s.outputs, to[i]);
    }
    return packed.output.multiply(n, from, to);
  }
  std::copy_n(at.joint(t + 1, first), int64_t(last - first) * s.joint, f.out + at.index(t, first) * s.joint);
}

template <class Controller, class Step, class T, class Packs>
void forward_group(const SequenceForward<T>& f, const Packs& packed, int first, int last, int search_threads,
                   const std::atomic<bool>& stopped) {
  const SequenceShape& s = f.shape;
  const At<T> at{s, f.tape};
  Step step(s);
  step.share_search(search_threads);
  int active[kMaxRows];
  for (int64_t t = 0; t < s.steps && !stopped; ++t) {
    if (t % kStepsPerCheck == kStepsPerCheck - 1) check_interrupt();
    int n = 0;
    for (int b = first; b < last; ++b) {
      if (t < f.lengths[b]) {
        active[n++] = b;
        continue;
      }
      // Padding: nothing is read from it, but products run over it.
      if (s.gates > 0) std::fill_n(at.gates(t, b), s.gates, T(0));
      std::fill_n(at.interface(t, b), s.interface, T(0));
      std::fill_n(at.joint(t + 1, b), s.joint, T(0));
    }
    if (n > 0) control<Controller>(f, packed, at, t, n, active);
    for (int i = 0; i < n; ++i) {
      const int b = active[i];
      if constexpr (!Controller::kControls)
        step.expect(b - first, {f.x + at.index(t, b) * s.interface, int64_t(s.batch) * s.interface, f.lengths[b] - t});
      step.forward(*f.timelines[b], f.journals[b], at.step(t, b), at.joint(t + 1, b) + s.hidden);
    }
    if (f.out) put_out(f, packed, at, t, first, last, n, active);
  }
}

template <class T>
void forward(const SequenceForward<T>& f, int threads) {
  const SequenceShape& s = f.shape;
  const Weights<T>& w = f.weights;
  const int search_threads = threads_per_search(s.batch, threads);
  with_kinds<T>(s, [&]<class Controller, class Step>() {
    const PackedWeights<typename Controller::Forward, T> packed{
        {s, w},
        {w.w_interface, s.hidden, s.hidden > 0 ? s.interface : 0, 1, s.hidden},
        {w.w_output, s.joint, s.outputs, 1, s.joint}};
    for_each_group(s.batch, threads, [&](int first, int last, const std::atomic<bool>& stopped) {
      forward_group<Controller, Step>(f, packed, first, last, search_threads, stopped);
    });
  });
}

// From the gradients of the interface vectors and of h_t, in `d_joint`, to those of [h_{t-1}, r_{t-1}] there.
template <class Controller, class T, class Packs>
void control_backward(const SequenceBackward<T>& f, const Packs& packed, const At<T>& at, int64_t t, int n,
                      const int* active, T* const* d_joint) {
  const SequenceShape& s = f.shape;
  if constexpr (Controller::kControls) {
    const T* from[kMaxRows] = {};
    for (int i = 0; i < n; ++i) from[i] = at.interface(t, active[i]);
    packed.interface.multiply(n, from, d_joint);
    for (int i = 0; i < n; ++i) {
      const int b = active[i];
      T* d_cell = f.d_state_cell ? f.d_state_cell + int64_t(b) * s.hidden : nullptr;
      packed.controller.activate(at.gates(t, b), at.joint(t, b), at.cell(t, b), at.cell(t + 1, b), d_joint[i], d_cell);
      std::fill_n(d_joint[i] + s.hidden, s.read_width(), T(0));
      from[i] = at.gates(t, b);
    }
    packed.controller.add(n, from, d_joint);
  } else {
    for (int i = 0; i < n; ++i) std::fill_n(d_joint[i], s.joint, T(0));
  }
}

// Adds what [h_t, r_t] gets of the gradient of what step t put out.
template <class T, class Packs>
void put_out_backward(const SequenceBackward<T>& f, const Packs& packed, const At<T>& at, int64_t t, int n,
                      const int* active, T* const* d_joint) {
  const SequenceShape& s = f.shape;
  if (s.outputs > 0) {
    const T* from[kMaxRows] = {};
    for (int i = 0; i < n; ++i) from[i] = f.d_out + at.index(t, active[i]) * s.outputs;
    return packed.output.multiply(n, from, d_joint);
  }
  for (int i = 0; i < n; ++i) {
    const T* d_output = f.d_out + at.index(t, active[i]) * s.joint;
    for (int j = 0; j < s.joint; ++j) d_joint[i][j] += d_output[j];
  }
}

template <class Controller, class Step, class T, class Packs>
void backward_group(SequenceBackward<T>& f, const Packs& packed, int first, int last,
                    const std::atomic<bool>& stopped) {
  const SequenceShape& s = f.shape;
  const At<T> at{s, f.tape};
  Step step(s);
  std::vector<std::unique_ptr<StateGradients<T>>> d_state(last - first);
  for (int b = first; b < last; ++b) {
    StateGradients<T>& d = *(d_state[b - first] = std::make_unique<StateGradients<T>>(*f.d_memory[b]));
    if (!s.link_gradients) continue;
    d.links = std::make_unique<LinkGradients<T>>(*f.timelines[b]->links);
    d.links->add(*f.timelines[b]->links, f.d_links[b]);
  }
  T *d_joint[kMaxRows], *given[kMaxRows];
  int active[kMaxRows];
  BackwardClip<T> clip(Controller::kControls ? f.clip : 0, last - first, s.joint);
  for (int b = first; clip.on() && b < last; ++b) clip.note(b - first, f.d_state_joint + int64_t(b) * s.joint);
  for (int64_t t = s.steps; t-- > 0 && !stopped;) {
    if (t % kStepsPerCheck == kStepsPerCheck - 1) check_interrupt();
    int n = 0;
    for (int b = first; b < last; ++b)
      if (t < f.lengths[b]) active[n++] = b;
    if (n == 0) continue;
    for (int i = 0; i < n; ++i) d_joint[i] = f.d_state_joint + int64_t(active[i]) * s.joint;  // carried: [dh, dr] of step t
    for (int i = 0; clip.on() && i < n; ++i) given[i] = clip.room(active[i] - first);
    if (f.d_out) put_out_backward(f, packed, at, t, n, active, clip.on() ? given : d_joint);
    for (int i = 0; clip.on() && i < n; ++i) clip.note_and_add(active[i] - first, d_joint[i]);
    for (int i = 0; i < n; ++i) {
      const int b = active[i];
      step.backward(*f.timelines[b], *f.journals[b], t, *d_state[b - first], at.step(t, b), d_joint[i] + s.hidden,
                    f.d_state_weights + int64_t(b) * s.reads());
    }
    control_backward<Controller>(f, packed, at, t, n, active, d_joint);
    for (int i = 0; clip.on() && i < n; ++i) clip.limit(active[i] - first, d_joint[i]);
  }
  if (s.link_gradients)
    for (int b = first; b < last; ++b) f.d_links[b] = d_state[b - first]->links->extracted(*f.timelines[b]->links);
}

// Numbers (T, B, width) with zeros past the lengths, where they are nobody's; null when there is nothing to hide.
template <class T>
Recycled<T> hidden_padding(const SequenceBackward<T>& f, const T* from, int64_t width) {
  const SequenceShape& s = f.shape;
  if (std::all_of(f.lengths, f.lengths + s.batch, [&](int64_t length) { return length == s.steps; })) return nullptr;
  Recycled<T> out = recycled_array<T>(size_t(s.steps) * s.batch * width);
  for (int64_t t = 0; t < s.steps; ++t)
    for (int b = 0; b < s.batch; ++b) {
      const int64_t at = (t * s.batch + b) * width;
      if (t < f.lengths[b])
        std::copy_n(from + at, width, out.get() + at);
      else
        std::fill_n(out.get() + at, width, T(0));
    }
  return out;
}

// Of the weights and biases, from what the loop left in the tape.
template <class Controller, class T>
void parameter_gradients(const SequenceBackward<T>& f, int threads) {
  const SequenceShape& s = f.shape;
  const Parameters<T*>& to = f.gradients;
  const int64_t steps = s.steps * s.batch;
  const T* const joint = f.tape.joint + int64_t(s.batch) * s.joint;  // [h_t, r_t] of step t
  const Recycled<T> x = hidden_padding(f, f.x, s.inputs);
  Controller::gradients(f, x ? x.get() : f.x, threads);
  const ColumnBlock<T> hidden[] = {{joint, s.joint, s.hidden}, {nullptr, 0, 1}};
  linear_gradients(f.tape.interface, s.interface, hidden, steps, to.w_interface, to.b_interface, threads);
  if (s.outputs == 0) return;
  if (f.d_out == nullptr) {
    std::fill_n(to.w_output, int64_t(s.outputs) * s.joint, T(0));
    std::fill_n(to.b_output, s.outputs, T(0));
    return;
  }
  const Recycled<T> d_out = hidden_padding(f, f.d_out, s.outputs);
  const ColumnBlock<T> whole[] = {{joint, s.joint, s.joint}, {nullptr, 0, 1}};
  linear_gradients(d_out ? d_out.get() : f.d_out, s.outputs, whole, steps, to.w_output, to.b_output, threads);
}

template <class T>
void backward(SequenceBackward<T>& f, int threads) {
  const SequenceShape& s = f.shape;
  const Weights<T>& w = f.weights;
  with_kinds<T>(s, [&]<class Controller, class Step>() {
    {
      const PackedWeights<typename Controller::Backward, T> packed{
          {s, w},
          {w.w_interface, s.hidden > 0 ? s.interface : 0, s.hidden, s.hidden, 1},
          {w.w_output, s.outputs, s.outputs > 0 ? s.joint : 0, s.joint, 1}};
      for_each_group(s.batch, threads, [&](int first, int last, const std::atomic<bool>& stopped) {
        backward_group<Controller, Step>(f, packed, first, last, stopped);
      });
    }
    if (f.gradients.w_ih != nullptr) parameter_gradients<Controller>(f, threads);
  });
}

template <class T>
T norm(const T* word, int32_t stride) {
  return std::sqrt(dot(word, word, stride));
}

template <class T>
constexpr SequenceKernels<T> kKernels{&forward<T>, &backward<T>, &norm<T>, &convolve<T>, &convolve_backward<T>,
                                      &linear<T>,  &linear_backward<T>};
const InstructionSet& instruction_set() {
  static constexpr InstructionSet kSet{kKernels<float>, kKernels<double>, &make_index};
  return kSet;
}

}  // namespace sparsam::SPARSAM_ISA
