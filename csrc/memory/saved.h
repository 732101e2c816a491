// The contents of one memory as plain arrays, on the way to or from a file or another engine.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory/shape.h"

namespace sparsam {

template <class T>
struct SavedMemory {
  std::vector<int64_t> rows;  // that were written, in the order of their first write
  std::vector<T> words;       // (rows, W)
  std::vector<int64_t> recency;   // rows that went to the back of the ring, least recently accessed first
  std::vector<int64_t> link_ids;  // rows of links that are not empty, as `Links` numbers them
  std::vector<int32_t> link_columns;  // (ids, K_L), -1 for none
  std::vector<T> link_weights;
  std::vector<int64_t> usage_rows;  // of usage above 0
  std::vector<T> usage;

  // f(part, name, array, length, columns) for every array, in the order of the parts: its length is that of another one
  // or -1, and the columns are 0 for a single dimension and -1 in a memory of this shape without the part.
  template <class F>
  void each(const StoredShape& s, F&& f) {
    const int64_t links = s.k_links > 0 ? s.k_links : -1;
    f("words", "rows", rows, -1, 0);
    f("words", "words", words, int64_t(rows.size()), s.width);
    f("ring", "recency", recency, -1, 0);
    f("links", "link_ids", link_ids, -1, 0);
    f("links", "link_columns", link_columns, int64_t(link_ids.size()), links);
    f("links", "link_weights", link_weights, int64_t(link_ids.size()), links);
    f("usage", "usage_rows", usage_rows, -1, 0);
    f("usage", "usage", usage, int64_t(usage_rows.size()), 0);
  }
};

// What a part needs beside the saved arrays to take them in: |word|, computed as the steps do, to the same bits.
template <class T>
using WordNorm = std::function<T(const T* padded_word, int32_t stride)>;

inline void require_count(const char* name, size_t got, size_t expected) {
  if (got != expected)
    throw std::invalid_argument(std::string(name) + ": expected " + std::to_string(expected) + " numbers, got " +
                                std::to_string(got));
}
inline int32_t saved_row(const char* name, int64_t row, int32_t rows) {
  if (row < 0 || row >= rows)
    throw std::invalid_argument(std::string(name) + ": expected rows 0 to " + std::to_string(rows - 1) + ", got " +
                                std::to_string(row));
  return int32_t(row);
}
[[noreturn]] inline void repeated_row(const char* name, int64_t row) {
  throw std::invalid_argument(std::string(name) + ": expected distinct rows, got " + std::to_string(row) + " twice");
}

}  // namespace sparsam
