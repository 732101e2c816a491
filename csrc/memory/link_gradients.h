// The gradient with respect to the links while it is being accumulated: one number beside each entry that exists.
// Entries that do not exist need none: what would flow through them ends at a truncation or at a weight of zero.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/links.h"
#include "memory/touched_rows.h"

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

}  // namespace sparsam
