// Uninitialised arrays on cache lines, with a line to spare for whole-vector loads at the end, recycled.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "support/pools.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace sparsam {

struct GiveBack {
  size_t bytes = 0;  // 0 for a block that no pool takes
  void operator()(void* p) const {
    if (bytes == 0 || !BlockPool::only().give(p, bytes)) std::free(p);
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

// One that is read all over: in large pages where there are some, so that few addresses have to be looked up.
template <class T>
Recycled<T> dense_array(size_t n) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr size_t kPage = size_t{2} << 20;
  const size_t bytes = (n * sizeof(T) + 64 + kPage - 1) / kPage * kPage;
  if (n * sizeof(T) >= kPage) {
    void* at = allocated(bytes, [bytes] { return std::aligned_alloc(kPage, bytes); });
    madvise(at, bytes, MADV_HUGEPAGE);
    return Recycled<T>(static_cast<T*>(at), GiveBack{});
  }
#endif
  return recycled_array<T>(n);
}

}  // namespace sparsam
