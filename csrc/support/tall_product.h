// Weight gradients as one product over all steps: C = A^T B with A (depth x M) and B (depth x N), depth = T·B.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "support/interrupt.h"
#include "support/parallel.h"
#include "support/recycled.h"
#include "support/simd.h"

namespace sparsam::SPARSAM_ISA {

constexpr int kDepthBlock = 64;  // a panel of B this deep stays in the first-level cache
constexpr int kTileRows = 4;     // of C per tile
constexpr int kFewestRows = 64;  // of C for which all panels are packed
constexpr int kTileVectors = SPARSAM_VECTOR_BYTES == 64 ? 6 : 3;  // of B per tile, as registers allow

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

// `count` columns of A, kTileRows at a time, so that a tile walks through neighbours: rows of A are far apart, and each
// of their lines would be asked for again by the next tiles.
template <class T>
void pack_rows(const T* a, int64_t a_stride, int deep, int count, T* out) {
  constexpr int kLine = 4 * kTileRows;  // columns that are copied side by side
  const size_t block = size_t(deep) * kTileRows;
  const int whole = count / kLine * kLine;
  for (int j = 0; j < whole; j += kLine, out += 4 * block)
    for (int k = 0; k < deep; ++k) {
      const T* from = a + k * a_stride + j;
      for (int i = 0; i < 4; ++i)
        std::memcpy(out + i * block + k * kTileRows, from + i * kTileRows, sizeof(T) * kTileRows);
    }
  for (int j = whole; j < count; ++j)
    for (int k = 0; k < deep; ++k)
      out[(j - whole) / kTileRows * block + k * kTileRows + (j - whole) % kTileRows] = a[k * a_stride + j];
}

// Columns of B that stand side by side; without data they are ones, for the sums of the columns of A.
template <class T>
struct ColumnBlock {
  const T* data;
  int64_t stride;
  int columns;
};

// `deep` rows of B from row k on, `width` columns of them from column `from` on; zeros past its last column.
template <class T, size_t Blocks>
void pack_columns(const ColumnBlock<T> (&b)[Blocks], int64_t k, int deep, int from, int width, T* out) {
  int begin = 0;  // of a block, counted from `from`
  for (size_t i = 0, at = 0; i < Blocks; at += b[i].columns, ++i) {
    const int first = std::max(0, int(at) - from), last = std::min(width, int(at) + b[i].columns - from);
    begin = std::max(begin, last);
    if (first >= last) continue;
    for (int row = 0; row < deep; ++row) {
      T* to = out + row * width + first;
      if (b[i].data)
        std::memcpy(to, b[i].data + (k + row) * b[i].stride + (from + first - int(at)), sizeof(T) * (last - first));
      else
        std::fill(to, to + (last - first), T(1));
    }
  }
  if (begin < width)
    for (int row = 0; row < deep; ++row) std::fill(out + row * width + begin, out + (row + 1) * width, T(0));
}

// C (M x N, rows c_stride apart) = A^T B. Stretches of rows of C, and with many threads panels of its columns, are shared
// out over threads; what a tile sums does not depend on how, nor on what stands beside a column.
template <class T, size_t Blocks>
void tall_product(const T* a, int64_t a_stride, const ColumnBlock<T> (&b)[Blocks], int64_t depth, int m, T* c,
                  int64_t c_stride, int threads) {
  constexpr int L = kLanes<T>;
  int n = 0;
  for (const ColumnBlock<T>& block : b) n += block.columns;
  const int vectors = (n + L - 1) / L, panels = (vectors + kTileVectors - 1) / kTileVectors;
  const int blocks = (m + kTileRows - 1) / kTileRows;
  // Every stretch packs the panels that it takes, which is too much for a few rows.
  const int shares = threads * kFewestRows > m ? panels : 1;
  // No more tasks than threads: one more would keep all others waiting for as long as it takes.
  const int stretches = std::max(1, std::min(threads / shares, blocks)), tasks = shares * stretches;
  const bool pack_a = panels > 1;  // else its lines are asked for once only
  auto multiply = [&](int share, int stretch, T* packed, T* packed_a) {
    const int first = blocks * stretch / stretches * kTileRows;
    const int last = std::min(m, blocks * (stretch + 1) / stretches * kTileRows);
    const int first_panel = shares == 1 ? 0 : share, last_panel = shares == 1 ? panels : share + 1;
    const int left = vectors * first_panel / panels * L, right = std::min(n, vectors * last_panel / panels * L);
    for (int row = first; row < last; ++row) std::fill(c + row * c_stride + left, c + row * c_stride + right, T(0));
    for (int64_t k = 0; k < depth; k += kDepthBlock) {
      if (k > 0 && k % (4 * kDepthBlock) == 0) check_interrupt();
      const int deep = int(std::min<int64_t>(kDepthBlock, depth - k));
      if (pack_a) pack_rows(a + k * a_stride + first, a_stride, deep, last - first, packed_a);
      for (int p = first_panel; p < last_panel; ++p) {
        const int from = vectors * p / panels, width = vectors * (p + 1) / panels - from;
        const int columns = std::min(width * L, n - from * L);
        pack_columns(b, k, deep, from * L, width * L, packed);
        for (int row = first; row < last; row += kTileRows) {
          const int rows = std::min(kTileRows, last - row);
          const T* at = pack_a ? packed_a + size_t(row - first) * deep : a + k * a_stride + row;
          const int64_t apart = pack_a ? kTileRows : a_stride;
          T* to = c + row * c_stride + from * L;
          with_constant<kTileVectors>(width, [&]<int N>(std::integral_constant<int, N>) {
            with_constant<kTileRows>(rows, [&]<int M>(std::integral_constant<int, M>) {
              tile<T, M, N>(at, apart, packed, deep, to, c_stride, columns);
            });
          });
        }
      }
    }
  };
  std::atomic<int> next{0};
  run_parallel(std::min(threads, tasks), [&](int) {
    const Recycled<T> packed = recycled_array<T>(size_t(kDepthBlock) * kTileVectors * L);
    const Recycled<T> packed_a = recycled_array<T>(pack_a ? size_t(kDepthBlock) * (m + kTileRows) : 0);
    for (int task = next++; task < tasks; task = next++)
      multiply(task / stretches, task % stretches, packed.get(), packed_a.get());
  });
}

// The same for a B that is one matrix.
template <class T>
void tall_product(const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t depth, int m, int n, T* c,
                  int64_t c_stride, int threads) {
  const ColumnBlock<T> whole[] = {{b, b_stride, n}};
  tall_product(a, a_stride, whole, depth, m, c, c_stride, threads);
}

}  // namespace sparsam::SPARSAM_ISA
