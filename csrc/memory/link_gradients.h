// The gradient with respect to the links while it is being accumulated: one number beside each entry that exists.
// Entries that do not exist need none: what would flow through them ends at a truncation or at a weight of zero.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/links.h"
#include "support/lazy_array.h"

namespace sparsam {

// A gradient with respect to the links of one batch element: entries of the rows that `Links` names.
template <class T>
struct LinkEntries {
  std::vector<int64_t> ids;
  std::vector<int32_t> columns;
  std::vector<T> values;
};

template <class T>
class LinkGradients {
 public:
  explicit LinkGradients(const Links<T>& links)
      : k_(links.k()), values_((2 * size_t(links.rows()) + 1) * k_), touched_(2 * size_t(links.rows()) + 1) {}
  LinkGradients(const LinkGradients&) = delete;
  LinkGradients& operator=(const LinkGradients&) = delete;
  ~LinkGradients() {
    const size_t bytes = ids_.size() * sizeof(T) * k_;
    if (bytes > ZeroedPool::kMostTouched) return;
    for (const int64_t id : ids_) {
      std::memset(values_.data() + size_t(id) * k_, 0, sizeof(T) * k_);
      touched_[id] = 0;
    }
    values_.recycle(bytes);
    touched_.recycle(bytes);
  }

  // The gradient of row `id` of the links as they are now, entry by entry.
  T* row(int64_t id) {
    if (!touched_[id]) {
      touched_[id] = 1;
      ids_.push_back(id);
    }
    return values_.data() + size_t(id) * k_;
  }
  bool touched(int64_t id) const { return touched_[id] != 0; }

  void add(const Links<T>& links, const LinkEntries<T>& from) {
    for (size_t i = 0; i < from.ids.size(); ++i) {
      const int at = links.find(links.row(from.ids[i]), from.columns[i]);
      if (at >= 0) row(from.ids[i])[at] += from.values[i];
    }
  }
  LinkEntries<T> extracted(const Links<T>& links) const {
    LinkEntries<T> out;
    for (const int64_t id : ids_) {
      const LinkRow<const T> row = links.row(id);
      for (int e = 0; e < links.count(row); ++e) {
        out.ids.push_back(id);
        out.columns.push_back(row.columns[e] - 1);
        out.values.push_back(values_[size_t(id) * k_ + e]);
      }
    }
    return out;
  }

 private:
  int32_t k_;
  LazyArray<T> values_;
  LazyArray<uint8_t> touched_;
  std::vector<int64_t> ids_;
};

}  // namespace sparsam
