// Gradients with respect to memories and links: while they are accumulated, only rows that were touched cost anything;
// and on their way back from the calls that used a memory to the call that left it.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "memory/links.h"
#include "memory/words.h"
#include "support/lazy_array.h"

namespace sparsam {

// Rows of numbers by id that are zero until they are touched.
template <class T, class Id>
class TouchedRows {
 public:
  TouchedRows(size_t rows, size_t stride) : stride_(stride), values_(rows * stride), touched_(rows) {}
  TouchedRows(const TouchedRows&) = delete;
  TouchedRows& operator=(const TouchedRows&) = delete;
  ~TouchedRows() {
    const size_t bytes = ids_.size() * stride_ * sizeof(T);
    if (bytes > ZeroedPool::kMostTouched) return;
    for (const Id id : ids_) {
      clear(id);
      touched_[id] = 0;
    }
    values_.recycle(bytes);
    touched_.recycle(bytes);
  }

  size_t rows() const { return touched_.size(); }
  const std::vector<Id>& ids() const { return ids_; }  // that were touched, the first one first
  bool touched(Id id) const { return touched_[id] != 0; }
  const T* at(Id id) const { return values_.data() + size_t(id) * stride_; }
  T* row(Id id) {
    if (!touched_[id]) {
      touched_[id] = 1;
      ids_.push_back(id);
    }
    return values_.data() + size_t(id) * stride_;
  }
  void clear(Id id) {
    if (touched_[id]) std::memset(values_.data() + size_t(id) * stride_, 0, sizeof(T) * stride_);
  }

 private:
  size_t stride_;
  LazyArray<T> values_;
  LazyArray<uint8_t> touched_;
  std::vector<Id> ids_;
};

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

// A gradient with respect to the links of one batch element: entries of the rows that `Links` names.
template <class T>
struct LinkEntries {
  std::vector<int64_t> ids;
  std::vector<int32_t> columns;
  std::vector<T> values;
};

// The gradient of one batch element's links: one number beside each entry that exists. Entries that do not exist need
// none: what would flow through them ends at a truncation or at a weight of zero.
template <class T>
class LinkGradients {
 public:
  explicit LinkGradients(const Links<T>& links) : rows_(2 * size_t(links.rows()) + 1, size_t(links.k())) {}

  // The gradient of row `id` of the links as they are now, entry by entry.
  T* row(int64_t id) { return rows_.row(id); }
  bool touched(int64_t id) const { return rows_.touched(id); }

  void add(const Links<T>& links, const LinkEntries<T>& from) {
    for (size_t i = 0; i < from.ids.size(); ++i) {
      const int at = links.find(links.row(from.ids[i]), from.columns[i]);
      if (at >= 0) row(from.ids[i])[at] += from.values[i];
    }
  }
  LinkEntries<T> extracted(const Links<T>& links) const {
    LinkEntries<T> out;
    for (const int64_t id : rows_.ids()) {
      const LinkRow<const T> row = links.row(id);
      for (int e = 0; e < links.count(row); ++e) {
        out.ids.push_back(id);
        out.columns.push_back(row.columns[e] - 1);
        out.values.push_back(rows_.at(id)[e]);
      }
    }
    return out;
  }

 private:
  TouchedRows<T, int64_t> rows_;
};

// Of a batch, one for each element; empty for none.
template <class T>
using BatchRowGradients = std::vector<std::unique_ptr<RowGradientBuffer<T>>>;

// Of the memories that one call leaves. Between calls that run one after the other the buffer itself goes from hand to
// hand, so that a step costs what it touches and not what all later steps touched. What is pending belongs to a
// backward pass, told by its number: a pass that ends before it reaches the call, by an exception or since nobody asked
// it to go there, leaves nothing to the next.
template <class T>
class PendingGradients {
 public:
  void leave(int64_t pass, BatchRowGradients<T>&& given) {
    const std::lock_guard<std::mutex> hold(lock_);
    for (auto& [number, pending] : passes_) {
      if (number != pass) continue;
      if (pending.size() != given.size()) throw std::invalid_argument("pending: expected gradients of one batch");
      for (size_t b = 0; b < given.size(); ++b) pending[b]->add(*given[b]);
      return;
    }
    if (passes_.size() >= kMostPasses) passes_.erase(passes_.begin());
    passes_.emplace_back(pass, std::move(given));
  }

  // Empty where nothing is pending.
  BatchRowGradients<T> take(int64_t pass) {
    const std::lock_guard<std::mutex> hold(lock_);
    for (size_t i = 0; i < passes_.size(); ++i) {
      if (passes_[i].first != pass) continue;
      BatchRowGradients<T> found = std::move(passes_[i].second);
      passes_.erase(passes_.begin() + int64_t(i));
      return found;
    }
    return {};
  }

  size_t size() const {
    const std::lock_guard<std::mutex> hold(lock_);
    return passes_.size();
  }

 private:
  static constexpr size_t kMostPasses = 8;  // so many at a time; older ones have ended

  mutable std::mutex lock_;
  std::vector<std::pair<int64_t, BatchRowGradients<T>>> passes_;
};

}  // namespace sparsam
