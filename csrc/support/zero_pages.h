// A fixed array of zero bytes that takes memory only where it is written, and can ask for large pages once it is full.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace sparsam {

template <class T>
class ZeroPages {
  static_assert(std::is_trivially_copyable_v<T>, "zero bytes must be a valid element");

 public:
  ZeroPages() = default;
  explicit ZeroPages(size_t count) : count_(count) {
    if (count == 0) return;
#if defined(__linux__)
    void* pages = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(pages);
#else
    // calloc of a large block is lazily zeroed by the usual allocators; aligned by hand for cache-line elements.
    raw_ = std::calloc(bytes() + alignof(T), 1);
    if (raw_ == nullptr) throw std::bad_alloc();
    const auto address = reinterpret_cast<size_t>(raw_);
    data_ = reinterpret_cast<T*>((address + alignof(T) - 1) / alignof(T) * alignof(T));
#endif
  }
  ~ZeroPages() {
#if defined(__linux__)
    if (data_ != nullptr) munmap(data_, bytes());
#else
    std::free(raw_);
#endif
  }
  ZeroPages(ZeroPages&& other) noexcept { swap(other); }
  ZeroPages& operator=(ZeroPages&& other) noexcept {
    swap(other);
    return *this;
  }

  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return count_; }

  // Large pages from now on: worth it once most of a large array is in use and read at random, a waste before.
  void expect_dense() {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (data_ != nullptr) madvise(data_, bytes(), MADV_HUGEPAGE);
#endif
  }

  // Back to zero bytes and no pages.
  void reset() { *this = ZeroPages(count_); }

 private:
  size_t bytes() const { return count_ * sizeof(T); }
  void swap(ZeroPages& other) {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
#if !defined(__linux__)
    std::swap(raw_, other.raw_);
#endif
  }

  T* data_ = nullptr;
  size_t count_ = 0;
#if !defined(__linux__)
  void* raw_ = nullptr;
#endif
};

}  // namespace sparsam
