// Weight gradients as one product over all steps: C = A^T B with A (depth x M) and B (depth x N), depth = T·B.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/aligned.h"
#include "support/parallel.h"
#include "support/packed_product.h"

namespace sparsam::SPARSAM_ISA {

constexpr int kDepthBlock = 64;  // a panel of B this deep stays in the first-level cache

// One tile: c[m][0..N vectors) += sum_k a[k][m] b[k][...]; b is a packed panel, a and c are strided.
template <class T, int M, int N>
void tile(const T* a, int64_t a_stride, const T* b, int depth, T* c, int64_t c_stride, int columns) {
  constexpr int L = kLanes<T>;
  Vec<T> sums[M][N] = {};
  for (int k = 0; k < depth; ++k) {
    Vec<T> row[N];
#pragma GCC unroll 6
    for (int n = 0; n < N; ++n) row[n] = load(b + (k * N + n) * L);
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      const Vec<T> x = splat(a[k * a_stride + m]);
#pragma GCC unroll 6
      for (int n = 0; n < N; ++n) sums[m][n] += x * row[n];
    }
  }
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      T* out = c + m * c_stride + n * L;
      const int left = columns - n * L;
      if (left >= L)
        store<T>(out, load(out) + sums[m][n]);
      else if (left > 0)
        store_some<T>(out, load_some(out, left) + sums[m][n], left);
    }
}

template <class T, int N>
void tile_rows(int rows, const T* a, int64_t a_stride, const T* b, int depth, T* c, int64_t c_stride, int columns) {
  switch (rows) {
    case 1: return tile<T, 1, N>(a, a_stride, b, depth, c, c_stride, columns);
    case 2: return tile<T, 2, N>(a, a_stride, b, depth, c, c_stride, columns);
    case 3: return tile<T, 3, N>(a, a_stride, b, depth, c, c_stride, columns);
    default: return tile<T, 4, N>(a, a_stride, b, depth, c, c_stride, columns);
  }
}

// C (M x N, rows c_stride apart) = A^T B. The rows of C are shared out over threads.
template <class T>
void tall_product(const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t depth, int m, int n, T* c,
                  int64_t c_stride, int threads) {
  constexpr int L = kLanes<T>;
  const int vectors = (n + L - 1) / L, panels = (vectors + kMaxPanel - 1) / kMaxPanel;
  const int blocks = (m + kMaxRows - 1) / kMaxRows, parts = std::min(threads, blocks);
  run_parallel(parts, [&](int part) {
    const int first = blocks * part / parts * kMaxRows, last = std::min(m, blocks * (part + 1) / parts * kMaxRows);
    for (int row = first; row < last; ++row) std::fill_n(c + row * c_stride, n, T(0));
    const Aligned<T> packed = aligned_array<T>(size_t(kDepthBlock) * kMaxPanel * L);
    for (int64_t k = 0; k < depth; k += kDepthBlock) {
      const int deep = int(std::min<int64_t>(kDepthBlock, depth - k));
      for (int p = 0; p < panels; ++p) {
        const int from = vectors * p / panels, width = vectors * (p + 1) / panels - from;
        const int columns = std::min(width * L, n - from * L);
        for (int i = 0; i < deep; ++i) {
          T* row = packed.get() + i * width * L;
          std::memcpy(row, b + (k + i) * b_stride + from * L, sizeof(T) * columns);
          std::fill(row + columns, row + width * L, T(0));
        }
        for (int row = first; row < last; row += kMaxRows) {
          const int rows = std::min(kMaxRows, last - row);
          const T* at = a + k * a_stride + row;
          T* to = c + row * c_stride + from * L;
          switch (width) {
            case 1: tile_rows<T, 1>(rows, at, a_stride, packed.get(), deep, to, c_stride, columns); break;
            case 2: tile_rows<T, 2>(rows, at, a_stride, packed.get(), deep, to, c_stride, columns); break;
            case 3: tile_rows<T, 3>(rows, at, a_stride, packed.get(), deep, to, c_stride, columns); break;
            case 4: tile_rows<T, 4>(rows, at, a_stride, packed.get(), deep, to, c_stride, columns); break;
            case 5: tile_rows<T, 5>(rows, at, a_stride, packed.get(), deep, to, c_stride, columns); break;
            default: tile_rows<T, 6>(rows, at, a_stride, packed.get(), deep, to, c_stride, columns); break;
          }
        }
      }
    }
  });
}

// The sums of the columns of A (depth x m), in the order in which `tall_product` would multiply them by 1.
template <class T>
void column_sums(const T* a, int64_t a_stride, int64_t depth, int m, T* out) {
  std::fill_n(out, m, T(0));
  std::vector<T> some(m);
  for (int64_t k = 0; k < depth; k += kDepthBlock) {
    std::fill(some.begin(), some.end(), T(0));
    for (int64_t i = k; i < std::min(depth, k + kDepthBlock); ++i)
      for (int j = 0; j < m; ++j) some[j] += a[i * a_stride + j];
    for (int j = 0; j < m; ++j) out[j] += some[j];
  }
}

}  // namespace sparsam::SPARSAM_ISA
