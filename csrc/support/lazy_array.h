// Arrays whose untouched pages cost nothing: anonymous mappings on Linux, calloc elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace sparsam {

// `bytes` zero bytes on a cache line, which take memory only where they are written.
inline void* map_zeros(size_t bytes) {
#if defined(__linux__)
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  madvise(at, bytes, MADV_NOHUGEPAGE);  // huge pages would make the first touch of a row cost 2 MiB
  return at;
#else
  constexpr size_t kLine = 64;
  auto* raw = static_cast<std::byte*>(std::calloc(bytes + 2 * kLine, 1));  // lazily zeroed by the usual allocators
  if (raw == nullptr) throw std::bad_alloc();
  const size_t past = reinterpret_cast<size_t>(raw) % kLine;
  std::byte* at = raw + 2 * kLine - past;
  std::memcpy(at - sizeof raw, &raw, sizeof raw);  // what to free
  return at;
#endif
}
inline void unmap_zeros(void* at, size_t bytes) {
#if defined(__linux__)
  munmap(at, bytes);
#else
  (void)bytes;
  void* raw;
  std::memcpy(&raw, static_cast<std::byte*>(at) - sizeof raw, sizeof raw);
  std::free(raw);
#endif
}

// Arrays that ended their service with every byte zero again, by size. What counts is what is resident.
class ZeroedPool {
 public:
  static constexpr size_t kMostArrays = 4096, kMostTouched = size_t(1) << 20, kMostResident = size_t(256) << 20;

  static void* take(size_t bytes) {
    Arrays& a = arrays();
    const std::lock_guard<std::mutex> hold(a.lock);
    const auto at = a.by_size.find(bytes);
    if (at == a.by_size.end()) return nullptr;
    void* data = at->second.first;
    a.resident -= at->second.second;
    a.by_size.erase(at);
    return data;
  }
  static bool give(void* data, size_t bytes, size_t touched) {
    if (touched > kMostTouched) return false;
    Arrays& a = arrays();
    const std::lock_guard<std::mutex> hold(a.lock);
    if (a.by_size.size() >= kMostArrays || a.resident + touched > kMostResident) return false;
    a.resident += touched;
    a.by_size.emplace(bytes, std::pair(data, touched));
    return true;
  }

 private:
  struct Arrays {
    std::mutex lock;
    std::multimap<size_t, std::pair<void*, size_t>> by_size;  // where, and how much of it was touched
    size_t resident = 0;
  };
  static Arrays& arrays() {
    static Arrays* a = new Arrays;  // lives for ever: states may outlast static destructors
    return *a;
  }
};

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

// The name that the indexes know it by.
template <class T>
using ZeroPages = LazyArray<T>;

}  // namespace sparsam
