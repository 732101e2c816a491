// Uninitialised arrays on cache-line boundaries, with a line to spare for whole-vector loads at the end.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "support/pools.h"

namespace sparsam {

struct FreeAligned {
  void operator()(void* p) const { std::free(p); }
};
template <class T>
using Aligned = std::unique_ptr<T[], FreeAligned>;

template <class T>
Aligned<T> aligned_array(size_t n) {
  return Aligned<T>(static_cast<T*>(allocate_lines((n * sizeof(T) + 127) / 64 * 64)));
}

}  // namespace sparsam
