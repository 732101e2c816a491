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
  for_row_groups(s.rows, threads, [&](int64_t row, int n) {
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
  });
}

// Of weight (m, n) and bias (m): one product of d_y (rows, m) and all that the map sees, side by side; the last column
// is a one, whose weight is the bias.
template <class T, size_t Blocks>
void linear_gradients(const T* d_y, int m, const ColumnBlock<T> (&seen)[Blocks], int64_t rows, T* weight, T* bias,
                      int threads) {
  int64_t n = -1;
  for (const ColumnBlock<T>& block : seen) n += block.columns;
  const Recycled<T> all = recycled_array<T>(size_t(m) * (n + 1));
  tall_product(d_y, m, seen, rows, m, all.get(), n + 1, threads);
  for (int64_t row = 0; row < m; ++row) {
    const T* from = all.get() + row * (n + 1);
    std::copy_n(from, n, weight + row * n);
    bias[row] = from[n];
  }
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
  const ColumnBlock<T> seen[] = {{a, s.first, s.first}, {b, s.second, s.second}, {nullptr, 0, 1}};
  linear_gradients(d_out, s.outputs, seen, s.rows, d_weight, d_bias, threads);
}

}  // namespace sparsam::SPARSAM_ISA
