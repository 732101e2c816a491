// A linear map of many rows, out = [a, b] W^T + bias with the rows of a and b side by side, and its gradients.
#pragma once

#include <algorithm>
#include <cstdint>

#include "support/packed_product.h"
#include "support/tall_product.h"

namespace sparsam::SPARSAM_ISA {

template <class T>
void linear(const LinearShape& s, const T* a, const T* b, const T* weight, const T* bias, T* out, int threads) {
  const int64_t wide = int64_t(s.first) + s.second;
  const Packed<T> left(weight, s.first, s.outputs, 1, wide), right(weight + s.first, s.second, s.outputs, 1, wide);
  const int64_t tasks = (s.rows + kRowsPerTask - 1) / kRowsPerTask;
  const int parts = int(std::min<int64_t>(threads, tasks));
  run_parallel(parts, [&](int part) {
    const int64_t first = tasks * part / parts * kRowsPerTask;
    const int64_t last = std::min(s.rows, tasks * (part + 1) / parts * kRowsPerTask);
    for (int64_t row = first; row < last; row += kMaxRows) {
      const int n = int(std::min<int64_t>(kMaxRows, last - row));
      const T *of_a[kMaxRows], *of_b[kMaxRows];
      T* to[kMaxRows];
      for (int i = 0; i < n; ++i) {
        of_a[i] = a + (row + i) * s.first;
        if (s.second > 0) of_b[i] = b + (row + i) * s.second;
        to[i] = out + (row + i) * s.outputs;
        std::copy_n(bias, s.outputs, to[i]);
      }
      left.multiply(n, of_a, to);
      if (s.second > 0) right.multiply(n, of_b, to);
    }
  });
}

// Gradients that are null are not wanted.
template <class T>
void linear_backward(const LinearShape& s, const T* a, const T* b, const T* weight, const T* d_out, T* d_a, T* d_b,
                     T* d_weight, T* d_bias, int threads) {
  const int wide = s.first + s.second;
  if (d_a) row_product<T>(d_out, s.outputs, {weight, s.outputs, s.first, wide, 1}, s.rows, d_a, s.first, threads);
  if (d_b)
    row_product<T>(d_out, s.outputs, {weight + s.first, s.outputs, s.second, wide, 1}, s.rows, d_b, s.second, threads);
  if (!d_weight) return;
  const Recycled<T> all = recycled_array<T>(size_t(s.outputs) * (wide + 1));
  const ColumnBlock<T> seen[] = {{a, s.first, s.first}, {b, s.second, s.second}, {nullptr, 0, 1}};
  tall_product(d_out, s.outputs, seen, s.rows, s.outputs, all.get(), wide + 1, threads);
  for (int row = 0; row < s.outputs; ++row) {
    const T* from = all.get() + size_t(row) * (wide + 1);
    std::copy_n(from, wide, d_weight + size_t(row) * wide);
    d_bias[row] = from[wide];
  }
}

}  // namespace sparsam::SPARSAM_ISA
