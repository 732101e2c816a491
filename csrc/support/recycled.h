// Memory that comes round again: an episode's buffers are handed to the next one instead of back to the system, which
// would charge a page fault for every page of every episode.
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace sparsam {

// Blocks by their size in whole cache lines, up to a total that a process does not miss. Small ones, of which a call of
// one step takes dozens, are found without a search.
class BlockPool {
 public:
  static constexpr size_t kMostBytes = size_t(128) << 20, kLine = 64, kSmallBytes = size_t(16) << 10;

  // A block of at least `bytes` and at most twice that, null when there is none.
  void* take(size_t bytes, size_t* got) {
    const std::lock_guard<std::mutex> hold(lock_);
    if (bytes <= kSmallBytes) {
      std::vector<void*>& some = small_[bytes / kLine];
      if (some.empty()) return nullptr;
      void* block = some.back();
      some.pop_back();
      total_ -= bytes;
      return block;
    }
    const auto at = blocks_.lower_bound(bytes);
    if (at == blocks_.end() || at->first > 2 * bytes) return nullptr;
    void* block = at->second;
    *got = at->first;
    total_ -= at->first;
    blocks_.erase(at);
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
    return true;
  }

 private:
  void clear() {
    for (const auto& [bytes, block] : blocks_) std::free(block);
    blocks_.clear();
    for (auto& some : small_) {
      for (void* block : some) std::free(block);
      some.clear();
    }
    total_ = 0;
  }
  std::mutex lock_;
  std::multimap<size_t, void*> blocks_;
  std::array<std::vector<void*>, kSmallBytes / kLine + 1> small_;
  size_t total_ = 0;
};

// Uninitialised arrays on cache lines, recycled.
struct GiveBack {
  size_t bytes = 0;
  void operator()(void* p) const {
    if (!pool().give(p, bytes)) std::free(p);
  }
  static BlockPool& pool() {
    static BlockPool* pool = new BlockPool;  // lives for ever: threads may outlast static destructors
    return *pool;
  }
};
template <class T>
using Recycled = std::unique_ptr<T[], GiveBack>;

template <class T>
Recycled<T> recycled_array(size_t n) {
  const size_t bytes = (n * sizeof(T) + 127) / 64 * 64;
  size_t got = bytes;
  void* p = GiveBack::pool().take(bytes, &got);
  if (p == nullptr) p = std::aligned_alloc(64, bytes);
  if (p == nullptr) throw std::bad_alloc();
  return Recycled<T>(static_cast<T*>(p), GiveBack{got});
}

}  // namespace sparsam
