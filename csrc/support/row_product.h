// A linear map over all steps: C = A B for many rows of A and a B small enough to be packed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "support/parallel.h"
#include "support/packed_product.h"

namespace sparsam::SPARSAM_ISA {

constexpr int64_t kRowsPerTask = 64;

// C (rows, c_stride apart) = A B for a packed B. The rows are shared out over threads.
template <class T>
void row_product(const T* a, int64_t a_stride, const Packed<T>& b, int64_t rows, T* c, int64_t c_stride, int threads) {
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
        to[i] = c + (row + i) * c_stride;
        std::fill_n(to[i], b.columns(), T(0));
      }
      b.multiply(n, from, to);
    }
  });
}

}  // namespace sparsam::SPARSAM_ISA
