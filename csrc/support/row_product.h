// A linear layer over all steps: C = A B + bias for many rows of A and a B small enough to be packed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "support/parallel.h"
#include "support/packed_product.h"

namespace sparsam::SPARSAM_ISA {

constexpr int64_t kRowsPerTask = 64;

// Element (k, n) of B is b[k * row_stride + n * column_stride]; bias may be null. The rows are shared out over threads.
template <class T>
void row_product(const T* a, int64_t a_stride, const T* b, int row_stride, int column_stride, const T* bias,
                 int64_t rows, int depth, int columns, T* c, int threads) {
  const Packed<T> packed(b, depth, columns, row_stride, column_stride);
  const int64_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
  const int parts = int(std::min<int64_t>(threads, tasks));
  run_parallel(parts, [&](int part) {
    const int64_t first = tasks * part / parts * kRowsPerTask;
    const int64_t last = std::min(rows, tasks * (part + 1) / parts * kRowsPerTask);
    for (int64_t row = first; row < last; row += kMaxRows) {
      const int n = int(std::min<int64_t>(kMaxRows, last - row));
      const T* from[kMaxRows];
      T* to[kMaxRows];
      for (int i = 0; i < n; ++i) {
        from[i] = a + (row + i) * a_stride;
        to[i] = c + (row + i) * columns;
        if (bias)
          std::copy_n(bias, columns, to[i]);
        else
          std::fill_n(to[i], columns, T(0));
      }
      packed.multiply(n, from, to);
    }
  });
}

}  // namespace sparsam::SPARSAM_ISA
