// Arrays whose untouched pages cost nothing: anonymous mappings on Linux, calloc elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#if defined(__linux__)
#define SPARSAM_MAPPINGS 1
#include <sys/mman.h>
#endif

namespace sparsam {

// Zeroed arrays that ended their service with every byte zero again, by size. What counts is what is resident.
class ZeroedPool {
 public:
  static constexpr size_t kMostArrays = 256, kMostTouched = size_t(1) << 20;

  static void* take(size_t bytes) {
    Arrays& a = arrays();
    const std::lock_guard<std::mutex> hold(a.lock);
    const auto at = a.by_size.find(bytes);
    if (at == a.by_size.end()) return nullptr;
    void* data = at->second;
    a.by_size.erase(at);
    return data;
  }
  static bool give(void* data, size_t bytes, size_t touched) {
    if (touched > kMostTouched) return false;
    Arrays& a = arrays();
    const std::lock_guard<std::mutex> hold(a.lock);
    if (a.by_size.size() >= kMostArrays) return false;
    a.by_size.emplace(bytes, data);
    return true;
  }

 private:
  struct Arrays {
    std::mutex lock;
    std::multimap<size_t, void*> by_size;
  };
  static Arrays& arrays() {
    static Arrays* a = new Arrays;  // lives for ever: states may outlast static destructors
    return *a;
  }
};

// `size` elements that read as zero bytes until they are written.
template <class T>
class LazyArray {
 public:
  LazyArray() = default;
  explicit LazyArray(size_t size) : bytes_(size * sizeof(T)) {
    if (bytes_ == 0) return;
    data_ = static_cast<T*>(ZeroedPool::take(bytes_));
    if (data_ != nullptr) return;
#ifdef SPARSAM_MAPPINGS
    void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(at);
    // Huge pages would make the first touch of a row cost 2 MiB.
    madvise(data_, bytes_, MADV_NOHUGEPAGE);
#else
    data_ = static_cast<T*>(std::calloc(bytes_, 1));
    if (data_ == nullptr) throw std::bad_alloc();
#endif
  }
  LazyArray(LazyArray&& other) noexcept { swap(other); }
  LazyArray& operator=(LazyArray&& other) noexcept {
    swap(other);
    return *this;
  }
  ~LazyArray() {
    if (data_ == nullptr) return;
#ifdef SPARSAM_MAPPINGS
    munmap(data_, bytes_);
#else
    std::free(data_);
#endif
  }

  // Hand the array on, every byte of it zero again, to the next one of its size. `touched` bytes of it are resident.
  void recycle(size_t touched) {
    if (data_ != nullptr && ZeroedPool::give(data_, bytes_, touched)) data_ = nullptr;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  size_t size() const { return bytes_ / sizeof(T); }

 private:
  void swap(LazyArray& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  T* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace sparsam
