// A causal convolution over time, one weight per channel and step back: out_t = bias + sum_j w_j * in_{t+j}, where `in` is
// the window of inputs before x, then x. In torch's own operations it takes two dozen passes over the sequence.
#pragma once

#include <algorithm>
#include <cstdint>

#include "support/parallel.h"
#include "support/recycled.h"
#include "support/simd.h"

namespace sparsam::SPARSAM_ISA {

// The arrays of one convolution: x (T, B, D), window (B, taps - 1, D) with the oldest first, weight (D, taps).
template <class T>
class Convolution {
 public:
  Convolution(const ConvolutionShape& s, const T* window, const T* x, const T* weight)
      : s_(s), reach_(s.taps - 1), window_(window), x_(x), by_tap_(recycled_array<T>(size_t(s.taps) * s.width)) {
    for (int j = 0; j < s.taps; ++j)
      for (int64_t d = 0; d < s.width; ++d) by_tap_[j * s.width + d] = weight[d * s.taps + j];
  }

  // The present first, then the oldest to the newest of the past, products rounded: to the bit what torch's operations
  // give where the layer is traced.
  void forward(const T* bias, T* out, int threads) const {
    share(s_.steps, threads, [&](int64_t t) {
      for (int64_t b = 0; b < s_.batch; ++b) {
        T* to = out + (t * s_.batch + b) * s_.width;
        const T* present = input(t + reach_, b);
        for_each_vector<T>(int(s_.width), [&](int d, auto n) __attribute__((always_inline)) {
          Vec<T> sum = load_some(bias + d, n) + rounded(load_some(present + d, n) * load_some(tap(reach_) + d, n));
          for (int64_t j = 0; j < reach_; ++j)
            sum += rounded(load_some(input(t + j, b) + d, n) * load_some(tap(j) + d, n));
          store_some<T>(to + d, sum, n);
        });
      }
    });
  }

  // From d_out (T, B, D). What a number is summed from does not depend on the threads.
  void backward(const T* d_out, T* d_window, T* d_x, T* d_weight, T* d_bias, int threads) const {
    share(s_.steps + reach_, threads, [&](int64_t i) {
      for (int64_t b = 0; b < s_.batch; ++b) {
        T* to = i < reach_ ? d_window + (b * reach_ + i) * s_.width : d_x + ((i - reach_) * s_.batch + b) * s_.width;
        std::fill_n(to, s_.width, T(0));
        for (int j = 0; j < s_.taps; ++j)
          if (i - j >= 0 && i - j < s_.steps) add_product(to, d_out + ((i - j) * s_.batch + b) * s_.width, tap(j));
      }
    });
    const int64_t columns = (s_.width + kColumns - 1) / kColumns;
    share(columns * (s_.taps + 1), threads, [&](int64_t task) {
      const int j = int(task / columns);
      const int64_t first = task % columns * kColumns;
      const int count = int(std::min<int64_t>(kColumns, s_.width - first));
      T total[kColumns] = {};
      for (int64_t t = 0; t < s_.steps; ++t) {
        T some[kColumns] = {};
        for (int64_t b = 0; b < s_.batch; ++b) {
          const T* d = d_out + (t * s_.batch + b) * s_.width + first;
          if (j == s_.taps)
            for (int e = 0; e < count; ++e) some[e] += d[e];
          else
            multiply_add(some, d, input(t + j, b) + first, count);
        }
        for (int e = 0; e < count; ++e) total[e] += some[e];
      }
      for (int e = 0; e < count; ++e) (j == s_.taps ? d_bias[first + e] : d_weight[(first + e) * s_.taps + j]) = total[e];
    });
  }

 private:
  static constexpr int kColumns = 64;  // of a task

  template <class F>
  static void share(int64_t tasks, int threads, const F& run) {
    parallel_parts(tasks, threads, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run(i);
    });
  }
  const T* tap(int64_t j) const { return by_tap_.get() + j * s_.width; }
  const T* input(int64_t i, int64_t b) const {
    return i < reach_ ? window_ + (b * reach_ + i) * s_.width : x_ + ((i - reach_) * s_.batch + b) * s_.width;
  }
  static void multiply_add(T* to, const T* a, const T* b, int count) {
    for_each_vector<T>(count, [&](int d, auto n) __attribute__((always_inline)) {
      store_some<T>(to + d, load_some(to + d, n) + load_some(a + d, n) * load_some(b + d, n), n);
    });
  }
  void add_product(T* to, const T* a, const T* b) const { multiply_add(to, a, b, int(s_.width)); }

  const ConvolutionShape s_;
  const int64_t reach_;
  const T *window_, *x_;
  Recycled<T> by_tap_;  // (taps, D)
};

template <class T>
void convolve(const ConvolutionShape& s, const T* window, const T* x, const T* weight, const T* bias, T* out,
              int threads) {
  Convolution<T>(s, window, x, weight).forward(bias, out, threads);
}
template <class T>
void convolve_backward(const ConvolutionShape& s, const T* window, const T* x, const T* weight, const T* d_out,
                       T* d_window, T* d_x, T* d_weight, T* d_bias, int threads) {
  Convolution<T>(s, window, x, weight).backward(d_out, d_window, d_x, d_weight, d_bias, threads);
}

}  // namespace sparsam::SPARSAM_ISA
