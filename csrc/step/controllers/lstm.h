// The LSTM, as torch.nn.LSTM has it: c_t = f c_{t-1} + i g, h_t = o tanh(c_t).
#pragma once

#include <algorithm>
#include <vector>

#include "step/sequence.h"
#include "support/packed_product.h"
#include "support/simd.h"
#include "support/tall_product.h"

namespace sparsam::SPARSAM_ISA {

// It keeps i, f, g and o, activated; in the backward pass these turn into their gradients before activation.
template <class T>
class Lstm {
 public:
  static constexpr bool kControls = true;  // it makes h_t, and the interface is a linear map of that

  class Forward {
   public:
    // B(k, n) = weight[n][k]: the weights as they stand are the transposes of what a forward product needs.
    Forward(const SequenceShape& s, const Weights<T>& w)
        : hidden_(s.hidden), bias_(s.gates), inputs_(w.w_ih, s.inputs, s.gates, 1, s.seen()), recurrent_(s.joint, s.gates) {
      for (int j = 0; j < s.gates; ++j) bias_[j] = w.b_ih[j] + w.b_hh[j];
      recurrent_.put(0, 0, w.w_hh, s.hidden, s.gates, 1, s.hidden);
      recurrent_.put(s.hidden, 0, w.w_ih + s.inputs, s.read_width(), s.gates, 1, s.seen());
    }
    // The biases and the part of x in the gates of n batch elements.
    void begin(int n, const T* const* x, T* const* gates) const {
      for (int i = 0; i < n; ++i) std::copy(bias_.begin(), bias_.end(), gates[i]);
      inputs_.multiply(n, x, gates);
    }
    // The part of [h_{t-1}, r_{t-1}] in the gates of n batch elements.
    void add(int n, const T* const* joint, T* const* gates) const { recurrent_.multiply(n, joint, gates); }
    void activate(T* gates, const T* /*h_before*/, const T* cell_before, T* cell, T* h) const {
      for_each_vector<T>(hidden_, [&](int j, auto n) __attribute__((always_inline)) {
        const Vec<T> i = sigmoid<T>(load_some(gates + j, n)), f = sigmoid<T>(load_some(gates + hidden_ + j, n));
        const Vec<T> g = hyperbolic_tangent<T>(load_some(gates + 2 * hidden_ + j, n));
        const Vec<T> o = sigmoid<T>(load_some(gates + 3 * hidden_ + j, n));
        const Vec<T> c = f * load_some(cell_before + j, n) + i * g;
        store_some<T>(gates + j, i, n);
        store_some<T>(gates + hidden_ + j, f, n);
        store_some<T>(gates + 2 * hidden_ + j, g, n);
        store_some<T>(gates + 3 * hidden_ + j, o, n);
        store_some<T>(cell + j, c, n);
        store_some<T>(h + j, o * hyperbolic_tangent<T>(c), n);
      });
    }

   private:
    int hidden_;
    std::vector<T> bias_;
    Packed<T> inputs_, recurrent_;
  };

  class Backward {
   public:
    Backward(const SequenceShape& s, const Weights<T>& w) : hidden_(s.hidden), recurrent_(s.gates, s.joint) {
      recurrent_.put(0, 0, w.w_hh, s.gates, s.hidden, s.hidden, 1);
      recurrent_.put(0, s.hidden, w.w_ih + s.inputs, s.gates, s.read_width(), s.seen(), 1);
    }
    // From d h_t in `d_h` and d c_t in `d_cell` to the gates' gradients, d c_{t-1}, and what h_{t-1} gets directly.
    void activate(T* gates, const T* /*h_before*/, const T* cell_before, const T* cell, T* d_h, T* d_cell) const {
      const Vec<T> one = splat<T>(1);
      for_each_vector<T>(hidden_, [&](int j, auto n) __attribute__((always_inline)) {
        const Vec<T> i = load_some(gates + j, n), f = load_some(gates + hidden_ + j, n);
        const Vec<T> g = load_some(gates + 2 * hidden_ + j, n), o = load_some(gates + 3 * hidden_ + j, n);
        const Vec<T> tanh_c = hyperbolic_tangent<T>(load_some(cell + j, n)), dh = load_some(d_h + j, n);
        const Vec<T> dc = load_some(d_cell + j, n) + dh * o * (one - tanh_c * tanh_c);
        store_some<T>(gates + j, dc * g * i * (one - i), n);
        store_some<T>(gates + hidden_ + j, dc * load_some(cell_before + j, n) * f * (one - f), n);
        store_some<T>(gates + 2 * hidden_ + j, dc * i * (one - g * g), n);
        store_some<T>(gates + 3 * hidden_ + j, dh * tanh_c * o * (one - o), n);
        store_some<T>(d_cell + j, dc * f, n);
        store_some<T>(d_h + j, Vec<T>{}, n);
      });
    }
    // Adds what [h_{t-1}, r_{t-1}] gets through the gates.
    void add(int n, const T* const* gates, T* const* d_joint) const { recurrent_.multiply(n, gates, d_joint); }

   private:
    int hidden_;
    Packed<T> recurrent_;
  };

  // Of all parameters and of x, one product each over all steps; x (T, B, I) is zero past the lengths.
  static void gradients(const SequenceBackward<T>& f, const T* x, int threads) {
    const SequenceShape& s = f.shape;
    const Parameters<T*>& to = f.gradients;
    const int64_t steps = s.steps * s.batch, ih_stride = s.seen();
    const T *gates = f.tape.gates, *joint = f.tape.joint;
    // All that the gates see, h, r, a one for the biases, and x, is one product: it goes through the gates once and wastes
    // fewer lanes than one for each.
    const ColumnBlock<T> seen[] = {{joint, s.joint, s.joint}, {nullptr, 0, 1}, {x, s.inputs, s.inputs}};
    const int64_t wide = s.joint + 1 + s.inputs;
    const Recycled<T> all = recycled_array<T>(size_t(s.gates) * wide);
    tall_product(gates, s.gates, seen, steps, s.gates, all.get(), wide, threads);
    for (int64_t row = 0; row < s.gates; ++row) {
      const T* from = all.get() + row * wide;
      std::copy_n(from, s.hidden, to.w_hh + row * s.hidden);
      std::copy_n(from + s.hidden, s.read_width(), to.w_ih + row * ih_stride + s.inputs);
      to.b_ih[row] = to.b_hh[row] = from[s.joint];
      std::copy_n(from + s.joint + 1, s.inputs, to.w_ih + row * ih_stride);
    }
    if (f.d_x == nullptr) return;
    const Packed<T> back(f.weights.w_ih, s.gates, s.inputs, ih_stride, 1);
    row_product<T>(gates, s.gates, back, steps, f.d_x, s.inputs, threads);
  }
};

}  // namespace sparsam::SPARSAM_ISA
