// The gradient with respect to a memory while it is being accumulated: only rows that were touched cost anything.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/touched_rows.h"
#include "memory/words.h"

namespace sparsam {

// A gradient with respect to the memory of one batch element: rows and their words.
template <class T>
struct RowGradients {
  std::vector<int32_t> rows;
  std::vector<T> words;  // (rows, W)
};

template <class T>
class RowGradientBuffer {
 public:
  RowGradientBuffer(int32_t rows, int32_t width)
      : width_(width), rows_(size_t(rows), size_t(padded_width<T>(width))) {}

  bool fits(int32_t rows, int32_t width) const { return rows_.rows() == size_t(rows) && width_ == width; }
  T* row(int32_t row) { return rows_.row(row); }
  bool touched(int32_t row) const { return rows_.touched(row); }
  void clear_row(int32_t row) { rows_.clear(row); }

  void add(const RowGradients<T>& from) {
    for (size_t i = 0; i < from.rows.size(); ++i) add(from.rows[i], from.words.data() + i * width_);
  }
  void add(const RowGradientBuffer& other) {
    for (const int32_t row : other.rows_.ids()) add(row, other.rows_.at(row));
  }
  RowGradients<T> extracted() const {
    RowGradients<T> out;
    out.rows = rows_.ids();
    out.words.resize(out.rows.size() * width_);
    for (size_t i = 0; i < out.rows.size(); ++i)
      std::memcpy(out.words.data() + i * width_, rows_.at(out.rows[i]), sizeof(T) * width_);
    return out;
  }

 private:
  void add(int32_t row, const T* from) {
    T* to = rows_.row(row);
    for (int32_t j = 0; j < width_; ++j) to[j] += from[j];
  }

  int32_t width_;
  TouchedRows<T, int32_t> rows_;
};

}  // namespace sparsam
