// Memories: versions and rows read last as arguments, and gradients of memories and links on their way in and out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/tensors.h"
#include "step/record.h"

namespace sparsam {

// "8 words of width 4, 2 links to a row"
inline std::string described(const StoredShape& shape) {
  return std::to_string(shape.rows) + " words of width " + std::to_string(shape.width) + ", " +
         std::to_string(shape.k_links) + " links to a row, " + (shape.free_usage ? "usage" : "a ring");
}

// The versions of a batch as one object of Python, which makes objects of its elements when asked for them.
template <class T>
struct VersionBatch {
  Versions<T> versions;
};

// `batch` versions of memories of this shape, as a list, in which None is a blank memory, or as the core gave them.
template <class T>
Versions<T> versions_from(nb::handle value, int64_t batch, const StoredShape& shape) {
  VersionBatch<T>* whole = nullptr;
  if (nb::try_cast(value, whole, false) && whole != nullptr && int64_t(whole->versions.size()) == batch) {
    for (const auto& version : whole->versions)
      if (!(version->shape() == shape)) refuse("versions", described(shape), described(version->shape()));
    return whole->versions;
  }
  if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value))
    refuse("versions", "a list of versions", described(value));
  const nb::object items = nb::borrow(value);
  if (int64_t(nb::len(items)) != batch)
    refuse("versions", std::to_string(batch) + " of them, one per batch element", std::to_string(nb::len(items)));
  Versions<T> out;
  for (nb::handle item : items) {
    if (item.is_none()) {
      out.push_back(Version<T>::fresh(shape, nullptr));
      continue;
    }
    std::shared_ptr<Version<T>> version;
    if (!nb::try_cast(item, version, false) || version == nullptr)
      refuse("versions", std::string("versions of ") + element_name<T>(), described(item));
    if (!(version->shape() == shape)) refuse("versions", described(shape), described(version->shape()));
    out.push_back(std::move(version));
  }
  return out;
}

inline std::vector<int32_t> rows_from(nb::handle value, const SequenceShape& s) {
  const In<int64_t> rows(value, "rows0", {s.batch, s.heads, s.k});
  std::vector<int32_t> out;
  out.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    out.push_back(int32_t(require_within("rows0", rows.data()[i], -1, s.rows - 1)));
  return out;
}

// Null for None.
template <class T>
PendingGradients<T>* pending_from(nb::handle value, const char* name) {
  if (value.is_none()) return nullptr;
  return &taken_object<PendingGradients<T>>(value, name, (std::string("a Pending of ") + element_name<T>()).c_str());
}

template <class T>
void require_weights(const In<T>& weights) {
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights.data()[i] < 0) refuse("weights0", "numbers of at least 0", std::to_string(weights.data()[i]));
}

// Gradients of memories: batch elements and rows (2, n), and words (n, W). Empty for None.
template <class T>
std::vector<RowGradients<T>> memory_gradients(const SequenceShape& s, nb::handle at_, nb::handle words_) {
  if (at_.is_none()) {
    require_none(words_, "memory_words", "where memory_at is None");
    return {};
  }
  std::vector<RowGradients<T>> out(s.batch);
  const In<int64_t> at(at_, "memory_at", {2, kAny});
  const int64_t count = at.length(1);
  const In<T> words(words_, "memory_words", {count, s.width});
  for (int64_t i = 0; i < count; ++i) {
    auto& to = out[size_t(require_within("memory_at: batch elements", at.data()[i], 0, s.batch - 1))];
    to.rows.push_back(int32_t(require_within("memory_at: rows", at.data()[count + i], 0, s.rows - 1)));
    to.words.insert(to.words.end(), words.data() + i * s.width, words.data() + (i + 1) * s.width);
  }
  return out;
}

// Gradients of links: batch elements, rows of `Links` and columns (3, n), and values (n).
template <class T>
std::vector<LinkEntries<T>> link_gradients(const SequenceShape& s, nb::handle at_, nb::handle values_) {
  std::vector<LinkEntries<T>> out(s.batch);
  if (at_.is_none()) {
    require_none(values_, "link_values", "where link_at is None");
    return out;
  }
  if (!s.link_gradients) refuse("link_at", "None, since the links are constants", described(at_));
  const In<int64_t> at(at_, "link_at", {3, kAny});
  const int64_t count = at.length(1);
  const In<T> values(values_, "link_values", {count});
  for (int64_t i = 0; i < count; ++i) {
    auto& to = out[size_t(require_within("link_at: batch elements", at.data()[i], 0, s.batch - 1))];
    to.ids.push_back(require_within("link_at: rows", at.data()[count + i], 0, 2 * int64_t(s.rows)));
    to.columns.push_back(int32_t(require_within("link_at: columns", at.data()[2 * count + i], 0, s.rows - 1)));
    to.values.push_back(values.data()[i]);
  }
  return out;
}

// What a backward pass gives, one part for each batch element: where, elements first and then the coordinates of each
// part, and the values, in rows of `width` or (0) one by one.
template <class T, class Part, class... Coordinates>
void add_entries(nb::list& out, const std::vector<Part>& parts, size_t width, std::vector<T> Part::*values,
                 Coordinates... coordinates) {
  std::vector<int64_t> elements, at;
  std::vector<T> all;
  auto join = [&](auto member, auto& to) {
    for (const Part& part : parts) to.insert(to.end(), (part.*member).begin(), (part.*member).end());
  };
  join(values, all);
  (join(coordinates, at), ...);
  const size_t count = at.size() / sizeof...(coordinates);
  for (size_t b = 0; b < parts.size(); ++b)
    elements.insert(elements.end(), (parts[b].*values).size() / std::max<size_t>(width, 1), int64_t(b));
  elements.insert(elements.end(), at.begin(), at.end());
  out.append(to_numpy(std::move(elements), {1 + sizeof...(coordinates), count}));
  out.append(to_numpy(std::move(all), width > 0 ? std::vector{count, width} : std::vector{count}));
}
template <class T>
void add_memory_outputs(const Gradients<T>& g, nb::list& out) {
  using Part = RowGradients<T>;
  if (!g.memory.empty()) return add_entries(out, g.memory, size_t(g.shape.width), &Part::words, &Part::rows);
  for (int i = 0; i < 2; ++i) out.append(nb::none());
}
template <class T>
void add_link_outputs(const Gradients<T>& g, nb::list& out) {
  using Part = LinkEntries<T>;
  if (g.shape.link_gradients) return add_entries(out, g.links, 0, &Part::values, &Part::ids, &Part::columns);
  for (int i = 0; i < 2; ++i) out.append(nb::none());
}

}  // namespace sparsam
