// The LSTM cell, as torch.nn.LSTM has it: c_t = f c_{t-1} + i g, h_t = o tanh(c_t).
#pragma once

#include <algorithm>
#include <vector>

#include "step/sequence.h"
#include "support/row_product.h"
#include "support/simd.h"
#include "support/tall_product.h"

namespace sparsam::SPARSAM_ISA {

// It keeps i, f, g and o, activated; in the backward pass these turn into their gradients before activation.
template <class T>
class LstmCell {
 public:
  static constexpr bool kControls = true;  // it makes h_t, and the interface is a linear map of that

  // The part of x in all steps' gates, with the biases.
  static void project(const SequenceForward<T>& f, int threads) {
    const SequenceShape& s = f.shape;
    const Weights<T>& w = f.weights;
    std::vector<T> bias(s.gates);
    for (int j = 0; j < s.gates; ++j) bias[j] = w.b_ih[j] + w.b_hh[j];
    // B(k, n) = weight[n][k]: the weights as they stand are the transposes of what a forward product needs.
    const Packed<T> b(w.w_ih, s.inputs, s.gates, 1, w.ih_stride);
    row_product(f.x, s.inputs, b, bias.data(), s.steps * s.batch, f.tape.gates, s.gates, threads);
  }

  class Forward {
   public:
    Forward(const SequenceShape& s, const Weights<T>& w) : hidden_(s.hidden), recurrent_(s.joint, s.gates) {
      recurrent_.put(0, 0, w.w_hh, s.hidden, s.gates, 1, w.hh_stride);
      recurrent_.put(s.hidden, 0, w.w_ih + s.inputs, s.read_width(), s.gates, 1, w.ih_stride);
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
    Packed<T> recurrent_;
  };

  class Backward {
   public:
    Backward(const SequenceShape& s, const Weights<T>& w) : hidden_(s.hidden), recurrent_(s.gates, s.joint) {
      recurrent_.put(0, 0, w.w_hh, s.gates, s.hidden, w.hh_stride, 1);
      recurrent_.put(0, s.hidden, w.w_ih + s.inputs, s.gates, s.read_width(), w.ih_stride, 1);
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
    const ParameterGradients<T>& to = f.gradients;
    const int64_t steps = s.steps * s.batch, ih_stride = s.inputs + s.read_width();
    const T *gates = f.tape.gates, *joint = f.tape.joint;
    tall_product(gates, s.gates, x, s.inputs, steps, s.gates, s.inputs, to.w_ih, ih_stride, threads);
    // [h, r] stand side by side, so they are one product, which wastes fewer lanes than two.
    const Recycled<T> both = recycled_array<T>(size_t(s.gates) * s.joint);
    tall_product(gates, s.gates, joint, s.joint, steps, s.gates, s.joint, both.get(), s.joint, threads);
    for (int64_t row = 0; row < s.gates; ++row) {
      std::copy_n(both.get() + row * s.joint, s.hidden, to.w_hh + row * s.hidden);
      std::copy_n(both.get() + row * s.joint + s.hidden, s.read_width(), to.w_ih + row * ih_stride + s.inputs);
    }
    column_sums(gates, s.gates, steps, s.gates, to.b_ih, threads);
    std::copy_n(to.b_ih, s.gates, to.b_hh);
    if (to.x == nullptr) return;
    const Packed<T> back(f.weights.w_ih, s.gates, s.inputs, f.weights.ih_stride, 1);
    row_product<T>(gates, s.gates, back, nullptr, steps, to.x, s.inputs, threads);
  }
};

}  // namespace sparsam::SPARSAM_ISA
