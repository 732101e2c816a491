// What trees and hash tables share: buckets of one cache line, the ranking of what they hold, and the branches not
// taken.
//
// An entry is a row number and a 32-bit sketch of its word: the signs of 32 random projections. Two words at angle a
// differ in about 32 a / pi bits, so the entries of all visited buckets are ranked by Hamming distance to the query's
// sketch, and only the best few words are ever fetched: at a million words every fetch is a cache miss.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/lazy_array.h"
#include "index/candidate_index.h"

namespace sparsam::SPARSAM_ISA {

constexpr int32_t kBucketEntries = 7;
constexpr int32_t kDense = 1 << 16;  // an index of more words than this asks for large pages
constexpr int kScannedBlocks = 4;  // of a chain, per visit: many equal words in one bucket must not cost O(N)

// Zero bytes are an empty bucket: rows are stored plus one, links to block 0 mean none.
struct alignas(64) Bucket {
  uint32_t sketch[kBucketEntries];
  int32_t next;
  int32_t row_plus_one[kBucketEntries];
  int32_t prev;

  int32_t free_entry() const {
    for (int32_t i = 0; i < kBucketEntries; ++i)
      if (row_plus_one[i] == 0) return i;
    return -1;
  }
  int32_t count() const {
    int32_t n = 0;
    for (int32_t i = 0; i < kBucketEntries; ++i) n += row_plus_one[i] != 0;
    return n;
  }
  bool empty() const {
    int32_t any = 0;
    for (int32_t i = 0; i < kBucketEntries; ++i) any |= row_plus_one[i];
    return any == 0;
  }
};
static_assert(sizeof(Bucket) == 64);

// A slot names an entry: block * 8 + entry + 1, never 0, so that zero bytes mean 'not indexed'.
inline int32_t slot_of(int32_t block, int32_t entry) { return block * 8 + entry + 1; }
inline int32_t block_of(int32_t slot) { return (slot - 1) >> 3; }
inline int32_t entry_of(int32_t slot) { return (slot - 1) & 7; }

// A branch not taken: the heap pops the likeliest.
struct Branch {
  float key;      // how unlikely it is
  int32_t where;  // node, or flipped bits
  int32_t tag;    // tree or table, and last flipped bit
};
struct Visit {  // of a chain of buckets
  int32_t block;
  int32_t table;
  int32_t distance;
};
struct Found {
  int32_t row;
  int32_t distance;
};
struct BucketScratch {
  std::vector<float> numbers;
  std::vector<Branch> heap;
  std::vector<Visit> visits;
  std::vector<Found> found;
  std::vector<int32_t> seen;
};

// Blocks [first, ...) of one array, handed out and taken back.
class BucketPool {
 public:
  BucketPool() = default;
  BucketPool(int32_t first, int32_t count)
      : blocks_(static_cast<size_t>(first) + static_cast<size_t>(count)), first_(first), used_(first) {}

  Bucket& operator[](int32_t block) { return blocks_[static_cast<size_t>(block)]; }
  const Bucket& operator[](int32_t block) const { return blocks_[static_cast<size_t>(block)]; }

  int32_t allocate() {
    if (free_ == 0) return used_++;
    const int32_t block = free_;
    free_ = (*this)[block].next;
    (*this)[block].next = 0;
    return block;
  }
  void release(int32_t block) {  // an empty one
    (*this)[block].prev = 0;
    (*this)[block].next = free_;
    free_ = block;
  }
  int32_t first() const { return first_; }
  int32_t used() const { return used_; }  // blocks ever handed out, from first()

  void expect_dense() { blocks_.expect_dense(); }
  void reset() {
    blocks_.reset();
    used_ = first_;
    free_ = 0;
  }

 private:
  LazyArray<Bucket> blocks_;
  int32_t first_ = 0;
  int32_t used_ = 0;
  int32_t free_ = 0;
};

// Puts an entry into the chain that starts at `head`, in O(1); new blocks come second, where holes are found again.
inline int32_t chain_insert(BucketPool& pool, int32_t head, int32_t row, uint32_t sketch) {
  int32_t block = head;
  for (int i = 0; i < kScannedBlocks; ++i) {
    const int32_t entry = pool[block].free_entry();
    if (entry >= 0) {
      pool[block].row_plus_one[entry] = row + 1;
      pool[block].sketch[entry] = sketch;
      return slot_of(block, entry);
    }
    if (pool[block].next == 0) break;
    block = pool[block].next;
  }
  const int32_t fresh = pool.allocate();
  Bucket& added = pool[fresh];
  added.prev = head;
  added.next = pool[head].next;
  if (added.next != 0) pool[added.next].prev = fresh;
  pool[head].next = fresh;
  added.row_plus_one[0] = row + 1;
  added.sketch[0] = sketch;
  return slot_of(fresh, 0);
}

// Takes an empty block that is not the head out of its chain.
inline void chain_unlink(BucketPool& pool, int32_t block) {
  const Bucket& gone = pool[block];
  pool[gone.prev].next = gone.next;
  if (gone.next != 0) pool[gone.next].prev = gone.prev;
  pool.release(block);
}

// Bits set in each of eight numbers, in steps that vectorise on any machine.
inline void count_bits(const uint32_t* __restrict a, uint32_t b, int32_t* __restrict out) {
  for (int i = 0; i < 8; ++i) {
    uint32_t x = a[i] ^ b;
    x = x - ((x >> 1) & 0x55555555u);
    x = (x & 0x33333333u) + ((x >> 2) & 0x33333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0fu;
    x = x + (x >> 8);
    out[i] = static_cast<int32_t>((x + (x >> 16)) & 0x3fu);
  }
}

// Writes the entries of a chain's first blocks with their distances; returns the end, at most kScanned further on.
constexpr int32_t kScanned = kScannedBlocks * kBucketEntries;

inline Found* scan_chain(const BucketPool& pool, int32_t block, uint32_t sketch,
                                                  int32_t distance,
                         Found* found) {
  for (int i = 0; i < kScannedBlocks; ++i) {
    const Bucket& bucket = pool[block];
    uint32_t sketches[8];  // the eighth lane is the link beside them, counted and not used
    std::memcpy(sketches, &bucket, sizeof sketches);
    int32_t bits[8];
    count_bits(sketches, sketch, bits);
    for (int32_t e = 0; e < kBucketEntries; ++e) {
      *found = {bucket.row_plus_one[e] - 1, bits[e] + distance};
      found += bucket.row_plus_one[e] != 0;
    }
    if (bucket.next == 0) break;
    block = bucket.next;
  }
  return found;
}

// The `limit` distinct rows of least distance among the first n found, nearest first: a counting sort, then a small
// set against repeats.
inline int32_t propose_nearest(BucketScratch& scratch, size_t n, int32_t limit, int32_t* out) {
  constexpr int32_t kDistances = 64;
  const Found* found = scratch.found.data();
  int32_t start[kDistances + 1] = {};
  for (size_t i = 0; i < n; ++i) ++start[std::min(found[i].distance, kDistances - 1) + 1];
  for (int32_t d = 0; d < kDistances; ++d) start[d + 1] += start[d];
  size_t table = 16;
  while (table < 2 * static_cast<size_t>(limit)) table *= 2;
  // seen: [0, table) the set, then the sorted rows
  scratch.seen.resize(table + n);
  int32_t* sorted = scratch.seen.data() + table;
  for (size_t i = 0; i < n; ++i) sorted[start[std::min(found[i].distance, kDistances - 1)]++] = found[i].row;
  std::memset(scratch.seen.data(), 0xff, table * sizeof(int32_t));
  int32_t proposed = 0;
  for (size_t i = 0; i < n && proposed < limit; ++i) {
    const int32_t row = sorted[i];
    size_t at = (static_cast<uint32_t>(row) * 2654435761u >> 7) & (table - 1);
    while (scratch.seen[at] != -1 && scratch.seen[at] != row) at = (at + 1) & (table - 1);
    if (scratch.seen[at] == row) continue;
    scratch.seen[at] = row;
    out[proposed++] = row;
  }
  return proposed;
}

// A binary heap of branches, the least key on top, without the call overhead that std::push_heap's moves bring here.
inline void heap_push(std::vector<Branch>& heap, const Branch branch) {
  size_t i = heap.size();
  heap.push_back(branch);
  for (; i > 0 && heap[(i - 1) / 2].key > branch.key; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
  heap[i] = branch;
}

// Takes the top away and puts `branch` in: one pass instead of two.
inline void heap_replace_top(std::vector<Branch>& heap, const Branch branch) {
  const size_t n = heap.size();
  size_t i = 0;
  for (size_t down = 1; down < n; down = 2 * i + 1) {
    if (down + 1 < n && heap[down + 1].key < heap[down].key) ++down;
    if (branch.key <= heap[down].key) break;
    heap[i] = heap[down];
    i = down;
  }
  heap[i] = branch;
}

inline Branch heap_pop(std::vector<Branch>& heap) {
  const Branch top = heap.front(), last = heap.back();
  heap.pop_back();
  if (!heap.empty()) heap_replace_top(heap, last);
  return top;
}

}  // namespace sparsam::SPARSAM_ISA
