// Uninitialised arrays on cache-line boundaries, with a line to spare for whole-vector loads at the end.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "support/pools.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

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

// One that is read all over: in large pages where there are some, so that few addresses have to be looked up.
template <class T>
Aligned<T> dense_array(size_t n) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr size_t kPage = size_t{2} << 20;
  const size_t bytes = (n * sizeof(T) + 64 + kPage - 1) / kPage * kPage;
  if (n * sizeof(T) >= kPage) {
    void* at = allocated(bytes, [bytes] { return std::aligned_alloc(kPage, bytes); });
    madvise(at, bytes, MADV_HUGEPAGE);
    return Aligned<T>(static_cast<T*>(at));
  }
#endif
  return aligned_array<T>(n);
}

}  // namespace sparsam
