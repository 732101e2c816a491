// Hash tables over the same rows, and the order in which their buckets are probed: each row lies under one key in every
// table, keys come from whoever hashes the words.
//
// Litwin 1980, 'Linear hashing': one bucket is split for every kLoad rows, so the number of key bits in use follows the
// number of rows and no insertion pays for a doubling. A bucket is one cache line (bucket.h) with a sketch beside
// each row; the key stays with the row, so that neither removal nor splitting needs the word.
//
// Memory per row: tables * (64 / kLoad + 8) bytes and some overflow, about 26 bytes per table.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "index/bucket.h"
#include "support/interrupt.h"
#include "support/parallel.h"

namespace sparsam::SPARSAM_ISA {

// Linear hashing (Litwin 1980): 2^level buckets, of which the first `split` are split by one more bit of the key.
struct LinearDirectory {
  int32_t level = 0;
  int32_t split = 0;

  int32_t count() const { return (1 << level) + split; }
  void resize(int32_t count) {
    level = std::bit_width(static_cast<uint32_t>(count)) - 1;
    split = count - (1 << level);
  }
  bool is_split(uint32_t key) const { return static_cast<int32_t>(key & ((1u << level) - 1)) < split; }
  int32_t bucket_of(uint32_t key) const {
    return static_cast<int32_t>(key & ((is_split(key) ? 2u << level : 1u << level) - 1));
  }
  int32_t bits() const { return level + (split > 0); }  // of a key, in use
};

// Buckets of all tables in order of likelihood: first the query's own, then, of the subsets of a key's bits, those with
// the least sum of squared margins (Lv et al. 2007). Each subset is reached once, by moving its last bit on or by
// adding the next one, bits being in order of margin.
class ProbeOrder {
 public:
  static constexpr int32_t kMaxTables = 32;
  static constexpr int32_t kMaxBits = 24;

  // margins: `bits` projections of the query for each table, whose signs are the keys.
  ProbeOrder(const LinearDirectory& directory, int32_t tables, int32_t bits, const float* margins,
             std::vector<Branch>& heap)
      : directory_(directory), tables_(tables), bits_(directory.bits()), heap_(heap) {
    heap_.clear();
    for (int32_t t = 0; t < tables; ++t) order_bits(t, margins + t * bits);
  }

  bool next(Visit& visit) {
    if (started_ < tables_) {
      const int32_t t = started_++;
      if (bits_ > 0) heap_push(heap_, {cost_[t][0], 1 << bit_[t][0], t});
      visit = {directory_.bucket_of(keys_[t]), t, 0};
      return true;
    }
    while (!heap_.empty()) {
      const Branch best = heap_.front();
      const int32_t t = best.tag % kMaxTables, last = best.tag / kMaxTables;
      if (last + 1 < bits_) {
        const int32_t next_bit = 1 << bit_[t][last + 1];
        heap_replace_top(heap_, {best.key - cost_[t][last] + cost_[t][last + 1],
                                 (best.where & ~(1 << bit_[t][last])) | next_bit, best.tag + kMaxTables});
        heap_push(heap_, {best.key + cost_[t][last + 1], best.where | next_bit, best.tag + kMaxTables});
      } else {
        heap_pop(heap_);
      }
      const uint32_t probed = keys_[t] ^ static_cast<uint32_t>(best.where);
      // Flipping the newest bit leads nowhere new while that bucket is not split.
      if ((best.where >> directory_.level) != 0 && !directory_.is_split(probed)) continue;
      visit = {directory_.bucket_of(probed), t, std::popcount(static_cast<uint32_t>(best.where))};
      return true;
    }
    return false;
  }

 private:
  void order_bits(int32_t t, const float* margins) {
    keys_[t] = 0;
    for (int32_t j = 0; j < bits_; ++j) {
      keys_[t] |= static_cast<uint32_t>(margins[j] > 0.0f) << j;
      const float cost = margins[j] * margins[j];
      int32_t i = j;
      for (; i > 0 && cost_[t][i - 1] > cost; --i) {
        cost_[t][i] = cost_[t][i - 1];
        bit_[t][i] = bit_[t][i - 1];
      }
      cost_[t][i] = cost;
      bit_[t][i] = static_cast<int8_t>(j);
    }
  }

  LinearDirectory directory_;
  int32_t tables_;
  int32_t bits_;
  int32_t started_ = 0;  // tables whose own bucket was given
  std::vector<Branch>& heap_;
  uint32_t keys_[kMaxTables];
  float cost_[kMaxTables][kMaxBits];
  int8_t bit_[kMaxTables][kMaxBits];
};

class LSHTables {
 public:
  static constexpr int32_t kLoad = 4;  // rows per bucket

  LSHTables(int32_t capacity, int32_t tables, int32_t bits)
      : tables_(tables), bits_(bits), records_(at(capacity) * at(tables)), occupied_((size_t{1} << bits) / 64 + 1) {
    for (int32_t t = 0; t < tables; ++t) pools_.emplace_back(1 << bits, capacity + 2);
  }

  int32_t size() const { return size_; }
  bool contains(int32_t row) const { return record(row, 0).slot != 0; }
  const LinearDirectory& directory() const { return directory_; }
  int32_t bucket_of(uint32_t key) const { return directory_.bucket_of(key); }

  // `keys` has one for each table.
  void insert(int32_t row, const uint32_t* keys, uint32_t sketch) {
    prefetch(keys);
    for (int32_t t = 0; t < tables_; ++t) record(row, t) = {keys[t], put_in(t, keys[t], row, sketch)};
    ++size_;
    if (directory_.count() < (1 << bits_) && size_ > kLoad * directory_.count()) grow();
  }

  void remove(int32_t row) {
    prefetch(row);
    for (int32_t t = 0; t < tables_; ++t) {
      take_out(t, record(row, t));
      record(row, t).slot = 0;
    }
    --size_;
    if (directory_.count() > kFewBuckets && size_ < kLoad * directory_.count() / 8) lay_out();
  }

  // The row's word will change soon: its buckets are fetched ahead.
  void prefetch(int32_t row) {
    for (int32_t t = 0; t < tables_; ++t) __builtin_prefetch(&pools_[at(t)][block_of(record(row, t).slot)], 1);
  }

  void update(int32_t row, const uint32_t* keys, uint32_t sketch) {
    prefetch(keys);
    for (int32_t t = 0; t < tables_; ++t) {
      Record& r = record(row, t);
      if (bucket_of(r.key) == bucket_of(keys[t])) {
        pools_[at(t)][block_of(r.slot)].sketch[entry_of(r.slot)] = sketch;
      } else {
        take_out(t, r);
        r.slot = put_in(t, keys[t], row, sketch);
      }
      r.key = keys[t];
    }
  }

  // Empties all, then holds these rows under the keys that set_key() gave them, with the low bits of these sketches.
  void set_key(int32_t row, int32_t table, uint32_t key) { record(row, table).key = key; }
  void fill(const int32_t* rows, const uint64_t* sketches, int32_t n, int threads) {
    occupied_.reset();
    for (BucketPool& pool : pools_) pool.reset();
    size_ = n;
    directory_.resize(std::max(1, std::min((n + kLoad - 1) / kLoad, 1 << bits_)));
    if (n >= kDense) expect_dense();
    constexpr int32_t kAhead = 16;
    parallel_parts(tables_, threads, [&](int32_t begin, int32_t end) {
      for (int32_t t = begin; t < end; ++t) {
        for (int32_t i = 0; i < n; ++i) {
          if (i % 4096 == 0) check_interrupt();
          if (i + 2 * kAhead < n) __builtin_prefetch(&record(rows[i + 2 * kAhead], t), 1);
          if (i + kAhead < n) __builtin_prefetch(&pools_[at(t)][bucket_of(record(rows[i + kAhead], t).key)], 1);
          Record& r = record(rows[i], t);
          r.slot = put_in(t, r.key, rows[i], static_cast<uint32_t>(sketches[i]));
        }
      }
    });
  }

  void prefetch(const Visit& visit) const { __builtin_prefetch(&pools_[at(visit.table)][visit.block]); }
  // Writes what a bucket holds, with distances; returns the end, at most kScanned further on.
  Found* scan(const Visit& visit, uint32_t sketch, Found* found) const {
    return scan_chain(pools_[at(visit.table)], visit.block, sketch, visit.distance, found);
  }
  // Reads occupied buckets of the first table from `bucket` on, round once, until there are `enough` candidates.
  size_t scan_occupied(int32_t bucket, uint32_t sketch, std::vector<Found>& into, size_t found, size_t enough) const {
    const size_t words = at(directory_.count() + 63) / 64, first = at(bucket) / 64;
    for (size_t i = 0; i < words && found < enough; ++i) {
      const size_t word = (first + i) % words;
      for (uint64_t bits = occupied_[word]; bits != 0 && found < enough; bits &= bits - 1) {
        if (into.size() < found + kScanned + 1) into.resize(2 * (found + kScanned) + 1);
        const int32_t next = static_cast<int32_t>(word) * 64 + std::countr_zero(bits);
        Found* start = into.data() + found;
        found += static_cast<size_t>(scan_chain(pools_[0], next, sketch, 0, start) - start);
      }
    }
    return found;
  }

  // use(row, sketch) for every row.
  template <class Use>
  void each(const Use& use) const {
    for (int32_t bucket = 0; bucket < directory_.count(); ++bucket) {
      int32_t block = bucket;
      do {
        const Bucket& b = pools_[0][block];
        for (int32_t e = 0; e < kBucketEntries; ++e)
          if (b.row_plus_one[e] != 0) use(b.row_plus_one[e] - 1, b.sketch[e]);
        block = b.next;
      } while (block != 0);
    }
  }

  size_t bytes() const {
    size_t blocks = 0;
    for (const BucketPool& pool : pools_) blocks += at(directory_.count()) + at(pool.used() - pool.first());
    return blocks * sizeof(Bucket) + at(size_) * at(tables_) * sizeof(Record);
  }

 private:
  static constexpr int32_t kFewBuckets = 16;  // not worth shrinking

  struct Record {
    uint32_t key;
    int32_t slot;
  };

  static size_t at(int32_t i) { return static_cast<size_t>(i); }
  Record& record(int32_t row, int32_t table) { return records_[at(row) * at(tables_) + at(table)]; }
  const Record& record(int32_t row, int32_t table) const { return records_[at(row) * at(tables_) + at(table)]; }

  void prefetch(const uint32_t* keys) {
    for (int32_t t = 0; t < tables_; ++t) __builtin_prefetch(&pools_[at(t)][bucket_of(keys[t])], 1);
  }

  int32_t put_in(int32_t table, uint32_t key, int32_t row, uint32_t sketch) {
    const int32_t bucket = bucket_of(key);
    if (table == 0) occupied_[at(bucket) / 64] |= uint64_t{1} << (bucket % 64);
    return chain_insert(pools_[at(table)], bucket, row, sketch);
  }

  void take_out(int32_t table, const Record& taken) {
    BucketPool& pool = pools_[at(table)];
    const int32_t block = block_of(taken.slot);
    pool[block].row_plus_one[entry_of(taken.slot)] = 0;
    if (block >= pool.first() && pool[block].empty()) chain_unlink(pool, block);
    if (table == 0) note_occupied(bucket_of(taken.key));
  }

  void note_occupied(int32_t bucket) {
    const bool holds = pools_[0][bucket].next != 0 || !pools_[0][bucket].empty();
    uint64_t& bits = occupied_[at(bucket) / 64];
    bits = (bits & ~(uint64_t{1} << (bucket % 64))) | uint64_t{holds} << (bucket % 64);
  }

  // Splits the next bucket of every table by the next bit of the keys.
  void grow() {
    const int32_t from = directory_.split, to = directory_.count();
    for (int32_t t = 0; t < tables_; ++t) {
      BucketPool& pool = pools_[at(t)];
      for (int32_t block = from, next = 0, i = 0; i == 0 || block != 0; block = next, ++i) {
        next = pool[block].next;
        for (int32_t e = 0; e < kBucketEntries; ++e) {
          const int32_t row = pool[block].row_plus_one[e] - 1;
          if (row < 0 || (record(row, t).key >> directory_.level & 1) == 0) continue;
          pool[block].row_plus_one[e] = 0;
          record(row, t).slot = chain_insert(pool, to, row, pool[block].sketch[e]);
        }
        if (block >= pool.first() && pool[block].empty()) chain_unlink(pool, block);
      }
    }
    note_occupied(from);
    note_occupied(to);
    directory_.resize(to + 1);
    if (directory_.count() * kLoad == kDense) expect_dense();
  }

  void expect_dense() {
    records_.expect_dense();
    for (BucketPool& pool : pools_) pool.expect_dense();
  }

  // Lays all entries out afresh over as many buckets as their number asks for.
  void lay_out() {
    std::vector<int32_t> rows;
    std::vector<uint64_t> sketches;
    each([&](int32_t row, uint32_t sketch) {
      rows.push_back(row);
      sketches.push_back(sketch);
    });
    fill(rows.data(), sketches.data(), static_cast<int32_t>(rows.size()), 1);
  }

  int32_t tables_;
  int32_t bits_;  // of a key, at most in use
  LazyArray<Record> records_;
  LazyArray<uint64_t> occupied_;  // a bit for each bucket of the first table that holds rows
  std::vector<BucketPool> pools_;
  int32_t size_ = 0;
  LinearDirectory directory_;
};

}  // namespace sparsam::SPARSAM_ISA
