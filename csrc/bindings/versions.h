// Versions as arguments.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <string>

#include "bindings/arguments.h"
#include "memory/timeline.h"

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

}  // namespace sparsam
