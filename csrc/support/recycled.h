// Uninitialised arrays on cache lines, recycled.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "support/pools.h"

namespace sparsam {

struct GiveBack {
  size_t bytes = 0;
  void operator()(void* p) const {
    if (!BlockPool::only().give(p, bytes)) std::free(p);
  }
};
template <class T>
using Recycled = std::unique_ptr<T[], GiveBack>;

template <class T>
Recycled<T> recycled_array(size_t n) {
  const size_t bytes = (n * sizeof(T) + 127) / 64 * 64;
  size_t got = bytes;
  void* p = BlockPool::only().take(bytes, &got);
  if (p == nullptr) p = allocate_lines(bytes);
  return Recycled<T>(static_cast<T*>(p), GiveBack{got});
}

}  // namespace sparsam
