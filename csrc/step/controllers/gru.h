// The GRU, as torch.nn.GRU has it: h_t = (1 - z) n + z h_{t-1} with n = tanh(W_in x + b_in + r (W_hn h + b_hn)).
#pragma once

#include <algorithm>
#include <vector>

#include "step/sequence.h"
#include "support/packed_product.h"
#include "support/simd.h"
#include "support/tall_product.h"

namespace sparsam::SPARSAM_ISA {

// It keeps n, r, z and W_hn h + b_hn, in this order: what comes from x and r_{t-1} are the first three blocks, what
// comes from h_{t-1} the last three. Torch's weights have their blocks in the order r, z, n. In the backward pass the
// four turn into gradients: of n, r and z before activation, and of W_hn h + b_hn.
template <class T>
class Gru {
 public:
  static constexpr bool kControls = true;

  class Forward {
   public:
    Forward(const SequenceShape& s, const Weights<T>& w)
        : hidden_(s.hidden),
          bias_(4 * s.hidden),
          from_x_(s.inputs, 3 * s.hidden),
          from_h_(s.hidden, 3 * s.hidden),
          from_read_(s.read_width(), 3 * s.hidden) {
      const int H = s.hidden;
      std::copy_n(w.b_ih + 2 * H, H, bias_.begin());
      for (int j = 0; j < 2 * H; ++j) bias_[H + j] = w.b_ih[j] + w.b_hh[j];
      std::copy_n(w.b_hh + 2 * H, H, bias_.begin() + 3 * H);
      put_inputs(from_x_, w.w_ih, s.inputs, H, s.seen());
      from_h_.put(0, 0, w.w_hh, H, 3 * H, 1, H);
      put_inputs(from_read_, w.w_ih + s.inputs, s.read_width(), H, s.seen());
    }
    void begin(int n, const T* const* x, T* const* gates) const {
      for (int i = 0; i < n; ++i) std::copy(bias_.begin(), bias_.end(), gates[i]);
      from_x_.multiply(n, x, gates);
    }
    void add(int n, const T* const* joint, T* const* gates) const {
      const T* from[kMaxRows] = {};
      T* to[kMaxRows] = {};
      for (int i = 0; i < n; ++i) from[i] = joint[i] + hidden_, to[i] = gates[i] + hidden_;
      from_h_.multiply(n, joint, to);
      from_read_.multiply(n, from, gates);
    }
    void activate(T* gates, const T* h_before, const T* /*cell_before*/, T* /*cell*/, T* h) const {
      for_each_vector<T>(hidden_, [&](int j, auto n) __attribute__((always_inline)) {
        const Vec<T> r = sigmoid<T>(load_some(gates + hidden_ + j, n));
        const Vec<T> z = sigmoid<T>(load_some(gates + 2 * hidden_ + j, n));
        const Vec<T> fresh =
            hyperbolic_tangent<T>(load_some(gates + j, n) + r * load_some(gates + 3 * hidden_ + j, n));
        store_some<T>(gates + j, fresh, n);
        store_some<T>(gates + hidden_ + j, r, n);
        store_some<T>(gates + 2 * hidden_ + j, z, n);
        store_some<T>(h + j, fresh + z * (load_some(h_before + j, n) - fresh), n);
      });
    }

   private:
    int hidden_;
    std::vector<T> bias_;
    Packed<T> from_x_, from_h_, from_read_;
  };

  class Backward {
   public:
    Backward(const SequenceShape& s, const Weights<T>& w)
        : hidden_(s.hidden), to_h_(3 * s.hidden, s.hidden), to_read_(3 * s.hidden, s.read_width()) {
      to_h_.put(0, 0, w.w_hh, 3 * s.hidden, s.hidden, s.hidden, 1);
      put_inputs_back(to_read_, w.w_ih + s.inputs, s.read_width(), s.hidden, s.seen());
    }
    void activate(T* gates, const T* h_before, const T* /*cell_before*/, const T* /*cell*/, T* d_h,
                  T* /*d_cell*/) const {
      const Vec<T> one = splat<T>(1);
      for_each_vector<T>(hidden_, [&](int j, auto n) __attribute__((always_inline)) {
        const Vec<T> fresh = load_some(gates + j, n), r = load_some(gates + hidden_ + j, n);
        const Vec<T> z = load_some(gates + 2 * hidden_ + j, n), from_h = load_some(gates + 3 * hidden_ + j, n);
        const Vec<T> dh = load_some(d_h + j, n);
        const Vec<T> d_fresh = dh * (one - z) * (one - fresh * fresh);
        store_some<T>(gates + j, d_fresh, n);
        store_some<T>(gates + hidden_ + j, d_fresh * from_h * r * (one - r), n);
        store_some<T>(gates + 2 * hidden_ + j, dh * (load_some(h_before + j, n) - fresh) * z * (one - z), n);
        store_some<T>(gates + 3 * hidden_ + j, d_fresh * r, n);
        store_some<T>(d_h + j, dh * z, n);
      });
    }
    void add(int n, const T* const* gates, T* const* d_joint) const {
      const T* from[kMaxRows] = {};
      T* to[kMaxRows] = {};
      for (int i = 0; i < n; ++i) from[i] = gates[i] + hidden_, to[i] = d_joint[i] + hidden_;
      to_h_.multiply(n, from, d_joint);
      to_read_.multiply(n, gates, to);
    }

   private:
    int hidden_;
    Packed<T> to_h_, to_read_;
  };

  static void gradients(const SequenceBackward<T>& f, const T* x, int threads) {
    const SequenceShape& s = f.shape;
    const Parameters<T*>& to = f.gradients;
    const int H = s.hidden;
    const int64_t steps = s.steps * s.batch, ih_stride = s.seen();
    const T *gates = f.tape.gates, *joint = f.tape.joint;
    auto input_part = [&](const T* in, int64_t stride, int n, int at) {  // rows r and z, then n
      tall_product(gates + H, s.gates, in, stride, steps, 2 * H, n, to.w_ih + at, ih_stride, threads);
      tall_product(gates, s.gates, in, stride, steps, H, n, to.w_ih + 2 * H * ih_stride + at, ih_stride, threads);
    };
    input_part(x, s.inputs, s.inputs, 0);
    input_part(joint + H, s.joint, s.read_width(), s.inputs);
    tall_product(gates + H, s.gates, joint, s.joint, steps, 3 * H, H, to.w_hh, H, threads);
    std::vector<T> sums(4 * H);
    const ColumnBlock<T> one[] = {{nullptr, 0, 1}};
    tall_product(gates, s.gates, one, steps, 4 * H, sums.data(), 1, threads);
    std::copy_n(sums.data() + H, 3 * H, to.b_hh);
    std::copy_n(sums.data() + H, 2 * H, to.b_ih);
    std::copy_n(sums.data(), H, to.b_ih + 2 * H);
    if (f.d_x == nullptr) return;
    Packed<T> back(3 * H, s.inputs);
    put_inputs_back(back, f.weights.w_ih, s.inputs, H, ih_stride);
    row_product<T>(gates, s.gates, back, steps, f.d_x, s.inputs, threads);
  }

 private:
  // Columns of W_ih for a product with x or r_{t-1}, its blocks in the order n, r, z; then the same for the way back.
  static void put_inputs(Packed<T>& b, const T* weight, int depth, int hidden, int64_t stride) {
    b.put(0, 0, weight + 2 * hidden * stride, depth, hidden, 1, stride);
    b.put(0, hidden, weight, depth, 2 * hidden, 1, stride);
  }
  static void put_inputs_back(Packed<T>& b, const T* weight, int columns, int hidden, int64_t stride) {
    b.put(0, 0, weight + 2 * hidden * stride, hidden, columns, stride, 1);
    b.put(hidden, 0, weight, 2 * hidden, columns, stride, 1);
  }
};

}  // namespace sparsam::SPARSAM_ISA
