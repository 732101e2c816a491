// Sparse temporal links of one batch element (section D.1): N, P and the precedence p, at most K_L entries to a row.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "support/lazy_array.h"
#include "support/recycled.h"

namespace sparsam {

// A row of links. Entries fill it from the front; `columns` are row numbers plus 1, so that zero bytes mean 'no link'.
template <class T>
struct LinkRow {
  T* weights;
  int32_t* columns;
};

// Bytes of a row of `k` links, padded to whole cache lines: with K_L = 8 in float32 a row is one line.
template <class T>
constexpr size_t link_row_bytes(int32_t k) {
  return (size_t(k) * (sizeof(T) + sizeof(int32_t)) + 63) / 64 * 64;
}

// Rows are copied and swapped a line at a time, whose size the compiler knows.
inline void copy_lines(std::byte* to, const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 64) std::memcpy(to + at, from + at, 64);
}
inline void swap_lines(std::byte* a, std::byte* b, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 64) {
    std::byte line[64];
    std::memcpy(line, a + at, 64);
    std::memcpy(a + at, b + at, 64);
    std::memcpy(b + at, line, 64);
  }
}

// All rows in one lazily zeroed array, named by a number: N(i,.) and P(i,.) side by side, then p.
template <class T>
class Links {
 public:
  Links(int32_t rows, int32_t k)
      : rows_(rows),
        k_(k),
        stride_(link_row_bytes<T>(k)),
        bytes_((2 * size_t(rows) + 1) * stride_ + 64) {}  // a line to spare for whole-vector loads
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // Leave the array, blank again, to the next episode; no other rows than those `written` hold links.
  void recycle(const std::vector<int32_t>& written) {
    const size_t touched = (2 * written.size() + 1) * stride_;
    if (touched > ZeroedPool::kMostTouched) return;
    for (const int32_t row : written) std::memset(bytes(predecessors(row)), 0, 2 * stride_);
    std::memset(bytes(precedence()), 0, stride_);
    bytes_.recycle(touched);
  }

  int32_t rows() const { return rows_; }
  int32_t k() const { return k_; }
  size_t stride() const { return stride_; }
  static int64_t predecessors(int32_t row) { return 2 * int64_t(row); }    // N
  static int64_t successors(int32_t row) { return 2 * int64_t(row) + 1; }  // P
  int64_t precedence() const { return 2 * int64_t(rows_); }                // p

  std::byte* bytes(int64_t id) { return bytes_.data() + size_t(id) * stride_; }
  const std::byte* bytes(int64_t id) const { return bytes_.data() + size_t(id) * stride_; }
  LinkRow<T> row(int64_t id) { return view(bytes(id)); }
  LinkRow<const T> row(int64_t id) const { return view(bytes(id)); }
  LinkRow<T> view(std::byte* row) const {
    return {reinterpret_cast<T*>(row), reinterpret_cast<int32_t*>(row + sizeof(T) * k_)};
  }
  LinkRow<const T> view(const std::byte* row) const {
    return {reinterpret_cast<const T*>(row), const_cast<int32_t*>(reinterpret_cast<const int32_t*>(row + sizeof(T) * k_))};
  }
  template <class U>
  int count(const LinkRow<U>& row) const {
    int n = 0;
    while (n < k_ && row.columns[n] != 0) ++n;
    return n;
  }
  template <class U>
  int find(const LinkRow<U>& row, int32_t to) const {  // -1 for none
    for (int e = 0; e < k_ && row.columns[e] != 0; ++e)
      if (row.columns[e] == to + 1) return e;
    return -1;
  }

 private:
  int32_t rows_, k_;
  size_t stride_;
  LazyArray<std::byte> bytes_;
};

// Rows of links as they were before each step. Undoing a step swaps them with the rows in `Links`, so that the same
// journal then holds what redoing needs. A step changes at most R(K+1) rows of N, K_L (R(K+1) + 1) of P, and p; blocks
// are taken as they fill, so it keeps what was changed and nothing in reserve.
template <class T>
class LinkJournal {
 public:
  LinkJournal(int64_t steps, int32_t k) : stride_(link_row_bytes<T>(k)) { begins_.reserve(steps + 1); }

  void begin_step() { begins_.push_back(int64_t(ids_.size())); }
  void save(const Links<T>& links, int64_t id) {
    const int64_t record = int64_t(ids_.size());
    if (record == int64_t(blocks_.size()) * kBlock) blocks_.push_back(recycled_array<std::byte>(kBlock * stride_));
    ids_.push_back(id);
    copy_lines(bytes(record), links.bytes(id), stride_);
  }

  // Records of a step, in the order in which they were saved.
  int64_t begin(int64_t step) const { return begins_[step]; }
  int64_t end(int64_t step) const {
    return step + 1 < int64_t(begins_.size()) ? begins_[step + 1] : int64_t(ids_.size());
  }
  int64_t id(int64_t record) const { return ids_[record]; }
  std::byte* bytes(int64_t record) { return blocks_[record / kBlock].get() + (record % kBlock) * stride_; }
  const std::byte* bytes(int64_t record) const {
    return blocks_[record / kBlock].get() + (record % kBlock) * stride_;
  }

  void undo(Links<T>& links, int64_t step) {
    for (int64_t record = end(step); record-- > begin(step);) swap(links, record);
  }
  void redo(Links<T>& links, int64_t step) {
    for (int64_t record = begin(step); record < end(step); ++record) swap(links, record);
  }
  size_t used_bytes() const {
    return ids_.size() * (stride_ + sizeof(int64_t)) + begins_.size() * sizeof(int64_t);
  }

 private:
  static constexpr int64_t kBlock = 256;  // records
  void swap(Links<T>& links, int64_t record) { swap_lines(bytes(record), links.bytes(ids_[record]), stride_); }

  size_t stride_;
  std::vector<int64_t> begins_;  // first record of each step
  std::vector<int64_t> ids_;     // which row each record is
  std::vector<Recycled<std::byte>> blocks_;
};

// Copies of the rows that hold links: those of `written` rows (no other row has any) and p.
template <class T>
void copy_links(const Links<T>& from, Links<T>& to, const std::vector<int32_t>& written) {
  auto copy = [&](int64_t id) { copy_lines(to.bytes(id), from.bytes(id), from.stride()); };
  for (const int32_t row : written) {
    copy(from.predecessors(row));
    copy(from.successors(row));
  }
  copy(from.precedence());
}

}  // namespace sparsam
