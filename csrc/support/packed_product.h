// Products of a few rows with a large matrix, C += A B: the shape of a recurrent step. B is packed once per call into
// panels that the kernel streams through. Each vector of it is used for as many rows as registers allow: B comes from the
// second-level cache, so the fewer times the better.
#pragma once

#include <algorithm>
#include <cstdint>

#include "support/parallel.h"
#include "support/recycled.h"
#include "support/simd.h"

namespace sparsam::SPARSAM_ISA {

constexpr int kMaxRows = 8;                                       // rows of A per product of a step
constexpr int kPassRows = SPARSAM_VECTOR_BYTES == 64 ? 8 : 4;     // rows of A per pass, as registers allow
constexpr int kMaxPanel = 3;                                      // vectors of B per pass

// B (depth x columns) as panels of whole vectors, panel by panel, each depth by its width.
template <class T>
class Packed {
 public:
  // To be filled by `put`, block by block.
  Packed(int depth, int columns)
      : depth_(depth),
        columns_(columns),
        vectors_((columns + kLanes<T> - 1) / kLanes<T>),
        panels_((vectors_ + kMaxPanel - 1) / kMaxPanel),
        data_(recycled_array<T>(size_t(depth) * vectors_ * kLanes<T>)) {
    const int last = panels_ - 1;
    if (last < 0) return;
    const int width = (begin(last + 1) - begin(last)) * kLanes<T>, real = columns - begin(last) * kLanes<T>;
    if (real < width)
      for (int k = 0; k < depth; ++k) std::memset(panel(last) + size_t(k) * width + real, 0, sizeof(T) * (width - real));
  }
  // Element (k, n) of B is source[k * row_stride + n * column_stride].
  Packed(const T* source, int depth, int columns, int64_t row_stride, int64_t column_stride) : Packed(depth, columns) {
    put(0, 0, source, depth, columns, row_stride, column_stride);
  }

  int depth() const { return depth_; }
  int columns() const { return columns_; }

  // A block of B from row `top` and column `left` on: element (k, n) is source[k * row_stride + n * column_stride].
  void put(int top, int left, const T* source, int depth, int columns, int64_t row_stride, int64_t column_stride) {
    for (int p = 0; p < panels_; ++p) {
      const int first = begin(p) * kLanes<T>, width = (begin(p + 1) - begin(p)) * kLanes<T>;
      const int from = std::max(first, left), to = std::min(first + width, left + columns);
      if (from >= to) continue;
      T* out = panel(p) + size_t(top) * width + (from - first);
      const T* in = source + (from - left) * column_stride;
      if (column_stride == 1)
        for (int k = 0; k < depth; ++k) std::memcpy(out + size_t(k) * width, in + k * row_stride, sizeof(T) * (to - from));
      else
        put_transposed(in, depth, to - from, row_stride, column_stride, out, width);
    }
  }

  // c[m][0..columns) += a[m][0..depth) B for each of `rows` rows.
  void multiply(int rows, const T* const* a, T* const* c) const {
    for (int p = 0; p < panels_; ++p) {
      const int first = begin(p), width = begin(p + 1) - first;
      const T* panel = data_.get() + size_t(first) * kLanes<T> * depth_;
      const int real = std::min(width * kLanes<T>, columns_ - first * kLanes<T>);
      for (int m = 0; m < rows; m += kPassRows)
        with_constant<kPassRows>(std::min(kPassRows, rows - m), [&]<int M>(std::integral_constant<int, M>) {
          with_constant<kMaxPanel>(width, [&]<int N>(std::integral_constant<int, N>) {
            kernel<M, N>(panel, a + m, c + m, first * kLanes<T>, real);
          });
        });
    }
  }

 private:
  // out[k * width + n] = source[k * row_stride + n * column_stride], in square tiles where numbers are neighbours in k.
  static void put_transposed(const T* source, int depth, int columns, int64_t row_stride, int64_t column_stride, T* out,
                             int width) {
    constexpr int L = kLanes<T>;
    const int whole_n = row_stride == 1 ? columns / L * L : 0, whole_k = depth / L * L;
    for (int n = 0; n < whole_n; n += L)
      for (int k = 0; k < whole_k; k += L) {
        Vec<T> tile[L];
#pragma GCC unroll 16
        for (int i = 0; i < L; ++i) tile[i] = load(source + (n + i) * column_stride + k);
        transpose<T>(tile);
#pragma GCC unroll 16
        for (int i = 0; i < L; ++i) store<T>(out + size_t(k + i) * width + n, tile[i]);
      }
    for (int n = 0; n < columns; ++n)
      for (int k = n < whole_n ? whole_k : 0; k < depth; ++k)
        out[size_t(k) * width + n] = source[k * row_stride + n * column_stride];
  }

  T* panel(int p) { return data_.get() + size_t(begin(p)) * kLanes<T> * depth_; }
  int begin(int panel) const { return int(int64_t(vectors_) * panel / panels_); }

  template <int M, int N>
  void kernel(const T* panel, const T* const* a, T* const* c, int first, int real) const {
    constexpr int L = kLanes<T>;
    Vec<T> sums[M][N] = {};
    const T* row[M];
    for (int m = 0; m < M; ++m) row[m] = a[m];
    for (int k = 0; k < depth_; ++k) {
      Vec<T> b[N];
#pragma GCC unroll 3
      for (int n = 0; n < N; ++n) b[n] = load(panel + (k * N + n) * L);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const Vec<T> x = splat(row[m][k]);
#pragma GCC unroll 3
        for (int n = 0; n < N; ++n) sums[m][n] += x * b[n];
      }
    }
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < N; ++n) {
        T* out = c[m] + first + n * L;
        const int left = real - n * L;
        if (left >= L)
          store<T>(out, load(out) + sums[m][n]);
        else if (left > 0)
          store_some<T>(out, load_some(out, left) + sums[m][n], left);
      }
  }

  int depth_, columns_, vectors_, panels_;
  Recycled<T> data_;
};

// run(row, n) for every n <= kMaxRows rows from `row` on; stretches of rows are shared out over threads.
template <class F>
void for_row_groups(int64_t rows, int threads, const F& run) {
  constexpr int64_t kRowsPerTask = 64;
  parallel_parts((rows + kRowsPerTask - 1) / kRowsPerTask, threads, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(rows, end * kRowsPerTask);
    for (int64_t row = begin * kRowsPerTask; row < last; row += kMaxRows)
      run(row, int(std::min<int64_t>(kMaxRows, last - row)));
  });
}

// A linear map over all steps: C (rows, c_stride apart) = A B for a packed B.
template <class T>
void row_product(const T* a, int64_t a_stride, const Packed<T>& b, int64_t rows, T* c, int64_t c_stride, int threads) {
  for_row_groups(rows, threads, [&](int64_t row, int n) {
    const T* from[kMaxRows];
    T* to[kMaxRows];
    for (int i = 0; i < n; ++i) {
      from[i] = a + (row + i) * a_stride;
      to[i] = c + (row + i) * c_stride;
      std::fill_n(to[i], b.columns(), T(0));
    }
    b.multiply(n, from, to);
  });
}

}  // namespace sparsam::SPARSAM_ISA
