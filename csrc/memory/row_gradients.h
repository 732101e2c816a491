// The gradient with respect to a memory while it is being accumulated: only rows that were touched cost anything.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/words.h"
#include "support/lazy_array.h"

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
      : width_(width), stride_(padded_width<T>(width)), words_(size_t(rows) * stride_), touched_(size_t(rows)) {}
  RowGradientBuffer(const RowGradientBuffer&) = delete;
  RowGradientBuffer& operator=(const RowGradientBuffer&) = delete;
  ~RowGradientBuffer() {
    const size_t bytes = rows_.size() * stride_ * sizeof(T);
    if (bytes > ZeroedPool::kMostTouched) return;
    for (const int32_t row : rows_) {
      clear_row(row);
      touched_[row] = 0;
    }
    words_.recycle(bytes);
    touched_.recycle(bytes);
  }

  bool fits(int32_t rows, int32_t width) const { return touched_.size() == size_t(rows) && width_ == width; }

  T* row(int32_t row) {
    if (!touched_[row]) {
      touched_[row] = 1;
      rows_.push_back(row);
    }
    return words_.data() + size_t(row) * stride_;
  }
  bool touched(int32_t row) const { return touched_[row] != 0; }
  void clear_row(int32_t row) {
    if (touched_[row]) std::memset(words_.data() + size_t(row) * stride_, 0, sizeof(T) * stride_);
  }
  void add(const RowGradients<T>& from) {
    for (size_t i = 0; i < from.rows.size(); ++i) {
      T* to = row(from.rows[i]);
      for (int32_t j = 0; j < width_; ++j) to[j] += from.words[i * width_ + j];
    }
  }
  void add(const RowGradientBuffer& other) {
    for (const int32_t at : other.rows_) {
      const T* from = other.words_.data() + size_t(at) * stride_;
      T* to = row(at);
      for (int32_t j = 0; j < width_; ++j) to[j] += from[j];
    }
  }
  RowGradients<T> extracted() const {
    RowGradients<T> out;
    out.rows = rows_;
    out.words.resize(rows_.size() * width_);
    for (size_t i = 0; i < rows_.size(); ++i)
      std::memcpy(out.words.data() + i * width_, words_.data() + size_t(rows_[i]) * stride_, sizeof(T) * width_);
    return out;
  }

 private:
  int32_t width_, stride_;
  LazyArray<T> words_;
  LazyArray<uint8_t> touched_;
  std::vector<int32_t> rows_;
};

}  // namespace sparsam
