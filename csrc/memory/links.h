// Sparse temporal links of one batch element (section D.1): N, P and the precedence p, at most K_L entries to a row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "memory/saved.h"
#include "memory/shape.h"
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

template <class T>
class LinkJournal;

// All rows in one lazily zeroed array, named by a number: N(i,.) and P(i,.) side by side, then p.
template <class T>
class Links {
 public:
  using Journal = LinkJournal<T>;

  // `written` are the rows that the memory of these links has written: no other row has links, none links to another.
  Links(int32_t rows, int32_t k, const std::vector<int32_t>& written)
      : rows_(rows),
        k_(k),
        stride_(link_row_bytes<T>(k)),
        written_(written),
        bytes_((2 * size_t(rows) + 1) * stride_ + 64) {}  // a line to spare for whole-vector loads
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;
  ~Links() {  // an episode that wrote little leaves its array to the next, blank again
    const size_t touched = (2 * written_.size() + 1) * stride_;
    if (touched > ZeroedPool::kMostTouched) return;
    for (const int32_t row : written_) std::memset(bytes(predecessors(row)), 0, 2 * stride_);
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

  void copy_from(const Links& other) {
    other.each_row([&](int64_t id) { copy_lines(bytes(id), other.bytes(id), stride_); });
  }
  void save_to(SavedMemory<T>& saved) const {
    each_row([&](int64_t id) {
      const LinkRow<const T> from = row(id);
      if (count(from) == 0) return;
      saved.link_ids.push_back(id);
      for (int e = 0; e < k_; ++e) saved.link_columns.push_back(from.columns[e] - 1);
      saved.link_weights.insert(saved.link_weights.end(), from.weights, from.weights + k_);
    });
  }
  // Entries stand at the front of a row, each to another row, none to the row itself. The words come before the links.
  void restore(const SavedMemory<T>& saved, const WordNorm<T>&) {
    require_count("link_columns", saved.link_columns.size(), saved.link_ids.size() * k_);
    require_count("link_weights", saved.link_weights.size(), saved.link_ids.size() * k_);
    std::vector<int32_t> known(written_);
    std::sort(known.begin(), known.end());
    auto require_written = [&](const char* name, int32_t row) {
      if (!std::binary_search(known.begin(), known.end(), row))
        throw std::invalid_argument(std::string(name) + ": expected rows that were written, got " +
                                    std::to_string(row));
    };
    std::vector<int32_t> seen;
    for (size_t i = 0; i < saved.link_ids.size(); ++i) {
      const int64_t id = saved.link_ids[i];
      if (id < 0 || id > precedence())
        throw std::invalid_argument("link_ids: expected 0 to " + std::to_string(precedence()) + ", got " +
                                    std::to_string(id));
      if (id != precedence()) require_written("link_ids", int32_t(id / 2));
      const LinkRow<T> to = row(id);
      if (count(to) != 0) repeated_row("link_ids", id);
      seen.clear();
      for (int e = 0; e < k_; ++e) {
        const int32_t column = saved.link_columns[i * k_ + e];
        if (column == -1) continue;
        require_written("link_columns", saved_row("link_columns", column, rows_));
        if (id != precedence() && column == id / 2)
          throw std::invalid_argument("link_columns: expected no row that links to itself, got " +
                                      std::to_string(column));
        if (size_t(e) != seen.size()) throw std::invalid_argument("link_columns: expected -1 after the last link only");
        if (std::find(seen.begin(), seen.end(), column) != seen.end()) repeated_row("link_columns", column);
        seen.push_back(column);
        to.columns[e] = column + 1;
        to.weights[e] = saved.link_weights[i * k_ + e];
      }
    }
  }

 private:
  template <class F>
  void each_row(const F& f) const {  // that may hold links
    for (const int32_t row : written_) {
      f(predecessors(row));
      f(successors(row));
    }
    f(precedence());
  }

  int32_t rows_, k_;
  size_t stride_;
  const std::vector<int32_t>& written_;
  LazyArray<std::byte> bytes_;
};

// What a sequence did to the links, so that it can be taken back and applied again. Two lists for every step. First the
// entries of P that only decayed: most rows of P change in one or two numbers, and a whole row would be many times as
// much to put down and to swap. Then whole rows as they were: N and P of the rows that took in new entries, and p.
// Undoing a step swaps both lists with what stands in `Links`, the latest first, so that the same journal then holds
// what redoing needs. Blocks are taken as they fill.
template <class T>
class LinkJournal {
 public:
  struct Decayed {
    int32_t row, entry;  // of P
    T weight;            // before it decayed
  };

  LinkJournal(int64_t steps, const MemoryShape& shape)
      : stride_(link_row_bytes<T>(shape.k_links)),
        most_decayed_(int64_t(shape.max_writes()) * std::min(shape.k_links, shape.rows)),
        block_decayed_(std::max(kDecayedBlock, most_decayed_)) {
    steps_.reserve(steps);
  }

  void begin_step(const Links<T>&) {
    if (decayed_blocks_.empty() || decayed_at_ + most_decayed_ > block_decayed_) {
      decayed_blocks_.push_back(recycled_array<Decayed>(block_decayed_));
      decayed_at_ = 0;
    }
    steps_.push_back({size_, int64_t(decayed_blocks_.size()) - 1, decayed_at_, 0});
  }
  // At most R(K+1) K_L in a step, and none of them after a whole row of the same step.
  void save_decayed(int32_t row, int32_t entry, T weight) {
    decayed_blocks_.back()[decayed_at_++] = {row, entry, weight};
    ++steps_.back().decayed;
  }
  void save(const Links<T>& links, int64_t id) {
    if (size_ == int64_t(blocks_.size()) * kBlock)
      blocks_.push_back(recycled_array<std::byte>(kBlock * (stride_ + sizeof(int64_t))));
    id_of(size_) = id;
    copy_lines(saved(size_++), links.bytes(id), stride_);
  }

  // Whole rows of a step, in the order in which they were saved.
  int64_t begin(int64_t step) const { return steps_[step].first; }
  int64_t end(int64_t step) const {
    return step + 1 < int64_t(steps_.size()) ? steps_[step + 1].first : size_;
  }
  int64_t id(int64_t record) const { return id_of(record); }
  std::byte* saved(int64_t record) { return blocks_[record / kBlock].get() + (record % kBlock) * stride_; }
  const std::byte* saved(int64_t record) const {
    return blocks_[record / kBlock].get() + (record % kBlock) * stride_;
  }
  // Entries of a step that only decayed.
  const Decayed* decayed(int64_t step) const { return decayed_blocks_[steps_[step].block].get() + steps_[step].offset; }
  int32_t decayed_count(int64_t step) const { return steps_[step].decayed; }

  void undo(Links<T>& links, int64_t step) {
    for (int64_t record = end(step); record-- > begin(step);) swap(links, record);
    swap_decayed(links, step);
  }
  void redo(Links<T>& links, int64_t step) {
    swap_decayed(links, step);
    for (int64_t record = begin(step); record < end(step); ++record) swap(links, record);
  }
  size_t bytes() const {
    size_t total = size_t(size_) * (stride_ + sizeof(int64_t)) + steps_.size() * sizeof(Step);
    for (const Step& step : steps_) total += size_t(step.decayed) * sizeof(Decayed);
    return total;
  }

 private:
  static constexpr int64_t kBlock = 256, kDecayedBlock = 1024;  // records
  struct Step {
    int64_t first;          // whole row
    int64_t block, offset;  // of its decayed entries
    int32_t decayed;        // how many
  };
  void swap(Links<T>& links, int64_t record) { swap_lines(saved(record), links.bytes(id(record)), stride_); }
  // Behind the rows of its block: which row each is.
  int64_t& id_of(int64_t record) const {
    return reinterpret_cast<int64_t*>(blocks_[record / kBlock].get() + kBlock * stride_)[record % kBlock];
  }
  // In any order: no entry decays twice in a step.
  void swap_decayed(Links<T>& links, int64_t step) {
    Decayed* const first = decayed_blocks_[steps_[step].block].get() + steps_[step].offset;
    for (int32_t i = 0; i < steps_[step].decayed; ++i)
      std::swap(first[i].weight, links.row(links.successors(first[i].row)).weights[first[i].entry]);
  }

  size_t stride_;
  int64_t most_decayed_, block_decayed_, decayed_at_ = 0, size_ = 0;
  std::vector<Step> steps_;
  std::vector<Recycled<std::byte>> blocks_;
  std::vector<Recycled<Decayed>> decayed_blocks_;
};

}  // namespace sparsam
