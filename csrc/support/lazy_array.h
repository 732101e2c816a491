// Arrays whose untouched pages cost nothing: anonymous mappings on Linux, calloc elsewhere.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "support/pools.h"

namespace sparsam {

// `size` elements that read as zero bytes until they are written.
template <class T>
class LazyArray {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 64, "zero bytes must be a valid element");

 public:
  LazyArray() = default;
  explicit LazyArray(size_t size) : size_(size) {
    if (size == 0) return;
    data_ = static_cast<T*>(ZeroedPool::take(bytes()));
    if (data_ == nullptr) data_ = static_cast<T*>(map_zeros(bytes()));
  }
  LazyArray(LazyArray&& other) noexcept { swap(other); }
  LazyArray& operator=(LazyArray&& other) noexcept {
    swap(other);
    return *this;
  }
  ~LazyArray() {
    if (data_ != nullptr) unmap_zeros(data_, bytes());
  }

  // Hand the array on, every byte of it zero again, to the next one of its size. `touched` bytes of it are resident.
  void recycle(size_t touched) {
    if (data_ != nullptr && ZeroedPool::give(data_, bytes(), touched)) data_ = nullptr;
  }
  // Back to zero bytes and no pages.
  void reset() { *this = LazyArray(size_); }
  // Large pages from now on: worth it once most of a large array is in use and read at random, a waste before.
  void expect_dense() {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (data_ != nullptr) madvise(data_, bytes(), MADV_HUGEPAGE);
#endif
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  size_t size() const { return size_; }

 private:
  size_t bytes() const { return size_ * sizeof(T); }
  void swap(LazyArray& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace sparsam
