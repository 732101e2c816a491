// Rows of numbers by id that are zero until they are touched: only those cost anything.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "support/lazy_array.h"

namespace sparsam {

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

}  // namespace sparsam
