// Memory that comes round again: an episode's arrays are handed to the next one instead of back to the system, which
// would charge a page fault for every page of every episode. What is kept is given back when the system has no more.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace sparsam {

// Says how much there was no room for; Python's MemoryError.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(size_t bytes)
      : message_("out of memory: the system has no room for " + std::to_string(bytes) +
                 " bytes more; a smaller memory_size, word_size or batch, or shorter sequences, take less") {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

[[maybe_unused]] constexpr size_t kMarked = size_t(1) << 22;

// What lies in a pool belongs to nobody: under the address sanitizer, touching it is an error. Of arrays that are mostly
// address space only the beginning is marked, since a mark takes an eighth of what it marks.
inline void nobodys([[maybe_unused]] void* block, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(block, std::min(bytes, kMarked));
#endif
}
inline void somebodys([[maybe_unused]] void* block, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(block, std::min(bytes, kMarked));
#endif
}

// Uninitialised blocks by their size in whole cache lines, up to a total that a process does not miss. Small ones, of
// which a call of one step takes dozens, are found without a search.
class BlockPool {
 public:
  static constexpr size_t kMostBytes = size_t(256) << 20, kLine = 64, kSmallBytes = size_t(16) << 10;

  // A block of at least `bytes` and at most twice that, null when there is none.
  void* take(size_t bytes, size_t* got) {
    const std::lock_guard<std::mutex> hold(lock_);
    if (bytes <= kSmallBytes) {
      std::vector<void*>& some = small_[bytes / kLine];
      if (some.empty()) return nullptr;
      void* block = some.back();
      some.pop_back();
      total_ -= bytes;
      somebodys(block, bytes);
      return block;
    }
    const auto at = blocks_.lower_bound(bytes);
    if (at == blocks_.end() || at->first > 2 * bytes) return nullptr;
    void* block = at->second;
    *got = at->first;
    total_ -= at->first;
    blocks_.erase(at);
    somebodys(block, *got);
    return block;
  }
  // False when the block is too large to keep and the caller has to free it.
  bool give(void* block, size_t bytes) {
    if (bytes > kMostBytes / 2) return false;
    const std::lock_guard<std::mutex> hold(lock_);
    if (total_ + bytes > kMostBytes) clear();  // sizes have moved on
    total_ += bytes;
    if (bytes <= kSmallBytes)
      small_[bytes / kLine].push_back(block);
    else
      blocks_.emplace(bytes, block);
    nobodys(block, bytes);
    return true;
  }
  void release() {
    const std::lock_guard<std::mutex> hold(lock_);
    clear();
  }
  static BlockPool& only() {
    static BlockPool* pool = new BlockPool;  // lives for ever: threads may outlast static destructors
    return *pool;
  }

 private:
  void clear() {
    for (const auto& [bytes, block] : blocks_) {
      somebodys(block, bytes);
      std::free(block);
    }
    blocks_.clear();
    for (size_t lines = 0; lines < small_.size(); ++lines) {
      for (void* block : small_[lines]) {
        somebodys(block, lines * kLine);
        std::free(block);
      }
      small_[lines].clear();
    }
    total_ = 0;
  }
  std::mutex lock_;
  std::multimap<size_t, void*> blocks_;
  std::array<std::vector<void*>, kSmallBytes / kLine + 1> small_;
  size_t total_ = 0;
};

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

// Lazily zeroed arrays that ended their service with every byte zero again, by size. What counts is what is resident;
// address space is kept until there is none left.
class ZeroedPool {
 public:
  // A batch of 128 has about a thousand arrays.
  static constexpr size_t kMostArrays = 4096, kMostTouched = size_t(1) << 20, kMostResident = size_t(256) << 20;

  static void* take(size_t bytes) {
    Arrays& a = arrays();
    const std::lock_guard<std::mutex> hold(a.lock);
    const auto at = a.by_size.find(bytes);
    if (at == a.by_size.end()) return nullptr;
    void* data = at->second.data;
    a.resident -= at->second.touched;
    a.by_size.erase(at);
    somebodys(data, bytes);
    return data;
  }
  static bool give(void* data, size_t bytes, size_t touched) {
    if (touched > kMostTouched) return false;
    Arrays& a = arrays();
    const std::lock_guard<std::mutex> hold(a.lock);
    if (a.by_size.size() >= kMostArrays || a.resident + touched > kMostResident) return false;
    a.resident += touched;
    a.by_size.emplace(bytes, Kept{data, touched});
    nobodys(data, bytes);
    return true;
  }
  static void release() {
    Arrays& a = arrays();
    const std::lock_guard<std::mutex> hold(a.lock);
    for (const auto& [bytes, kept] : a.by_size) {
      somebodys(kept.data, bytes);
      unmap_zeros(kept.data, bytes);
    }
    a.by_size.clear();
    a.resident = 0;
  }

 private:
  struct Kept {
    void* data;
    size_t touched;
  };
  struct Arrays {
    std::mutex lock;
    std::multimap<size_t, Kept> by_size;
    size_t resident = 0;
  };
  static Arrays& arrays() {
    static Arrays* a = new Arrays;  // lives for ever: states may outlast static destructors
    return *a;
  }
};

// What `allocate` returns, if need be after the pools have given back what they keep; null is no room.
template <class Allocate>
void* allocated(size_t bytes, const Allocate& allocate) {
  void* at = allocate();
  if (at != nullptr) return at;
  ZeroedPool::release();
  BlockPool::only().release();
  at = allocate();
  if (at == nullptr) throw OutOfMemory(bytes);
  return at;
}

// `bytes` zero bytes on a cache line, which take memory only where they are written.
inline void* map_zeros(size_t bytes) {
#if defined(__linux__)
  void* at = allocated(bytes, [bytes]() -> void* {
    void* got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return got == MAP_FAILED ? nullptr : got;
  });
  madvise(at, bytes, MADV_NOHUGEPAGE);  // huge pages would make the first touch of a row cost 2 MiB
  return at;
#else
  constexpr size_t kLine = 64;
  // Lazily zeroed by the usual allocators.
  auto* raw = static_cast<std::byte*>(allocated(bytes, [bytes] { return std::calloc(bytes + 2 * kLine, 1); }));
  const size_t past = reinterpret_cast<size_t>(raw) % kLine;
  std::byte* at = raw + 2 * kLine - past;
  std::memcpy(at - sizeof raw, &raw, sizeof raw);  // what to free
  return at;
#endif
}

// `bytes` bytes, whatever is in them, on a cache line; a multiple of 64.
inline void* allocate_lines(size_t bytes) {
  return allocated(bytes, [bytes] { return std::aligned_alloc(64, bytes); });
}

}  // namespace sparsam
