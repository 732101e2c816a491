// Locality-sensitive hashing: signs of random projections, several tables, several buckets probed in each.
//
// Charikar 2002, 'Similarity estimation techniques from rounding algorithms' (sign projections); Lv et al. 2007,
// 'Multi-probe LSH' (buckets in order of the squared margins of the flipped bits, here over all tables at once);
// Litwin 1980, 'Linear hashing' (one bucket is split for every kLoad words, so the number of key bits in use follows
// the number of words and no insertion pays for a doubling).
//
// The hashes cut space through the centre of the words, not through the origin (ann_centred_projection.h).
//
// A bucket is one cache line (ann_bucket.h) and keeps a sketch beside each row; of all entries in the probed buckets
// only the `checks` nearest by sketch are proposed. Made for cosine similarity, with words and queries of unit length.
//
// Memory per indexed word: tables * (64 / kLoad + 8) bytes and some overflow, about 26 bytes per table; nothing for
// rows that are not indexed. Cost: insert and remove O(tables); query O(probes).
#pragma once

#include <bit>
#include <limits>

#include "ann_bucket.h"
#include "ann_centred_projection.h"
#include "ann_parallel.h"
#include "ann_probe_order.h"

namespace sparsam::SPARSAM_ISA {

struct LSHSettings {
  int32_t tables = 4;
  int32_t bits = 0;     // most key bits per table; 0: as many as the capacity can use
  int32_t probes = 48;  // buckets read per query, over all tables
  int32_t checks = 32;  // words proposed per query
  uint64_t seed = 0;
};

class LSH final : public CandidateIndex {
 public:
  static constexpr int32_t kLoad = 4;       // words per bucket
  static constexpr int32_t kMaxTables = ProbeOrder::kMaxTables;
  static constexpr int32_t kMaxBits = ProbeOrder::kMaxBits;
  static constexpr int32_t kFewProbes = 3;  // times `probes` buckets in a table are read without choosing
  static constexpr int32_t kPatience = 4;   // times `probes` buckets are read when the likely ones are empty

  LSH(int32_t capacity, int32_t word_size, const LSHSettings& settings, const WordSource* source = nullptr)
      : CandidateIndex(capacity, word_size), settings_(checked(settings, capacity)) {
    source_ = source;
    projection_ = CentredProjection(word_size, kSketchBits + settings_.tables * settings_.bits, settings_.seed);
    occupied_ = ZeroPages<uint64_t>((size_t{1} << settings_.bits) / 64 + 1);
    records_ = ZeroPages<Record>(static_cast<size_t>(capacity) * tables());
    for (int32_t t = 0; t < settings_.tables; ++t) pools_.emplace_back(1 << settings_.bits, capacity + 2);
  }

  void insert(int32_t row, const float* word) override {
    check_row(row);
    check_absent(row, contains(row));
    check_word(row, word);
    check_source();
    float projections[kMaxProjections];
    projection_.project(word, projections);
    place(row, projections);
    ++size_;
    if (bucket_count() < (1 << settings_.bits) && size_ > kLoad * bucket_count()) grow();
    watch_centre(projections);
    count_insertion();
  }

  void remove(int32_t row) override {
    check_row(row);
    check_present(row, contains(row));
    for (int32_t t = 0; t < settings_.tables; ++t) __builtin_prefetch(&pools_[at(t)][block_of(record(row, t).slot)], 1);
    for (int32_t t = 0; t < settings_.tables; ++t) {
      take_out(t, record(row, t));
      record(row, t).slot = 0;
    }
    --size_;
    if (bucket_count() > kFewBuckets && size_ < kLoad * bucket_count() / 8) lay_out();
  }

  void update(int32_t row, const float* word) override {
    check_row(row);
    check_present(row, contains(row));
    check_word(row, word);
    check_source();
    for (int32_t t = 0; t < settings_.tables; ++t) __builtin_prefetch(&pools_[at(t)][block_of(record(row, t).slot)], 1);
    float projections[kMaxProjections];
    projection_.project(word, projections);
    const uint32_t sketch = Projection::signs(projections, kSketchBits);
    uint32_t keys[kMaxTables];
    for (int32_t t = 0; t < settings_.tables; ++t) {
      keys[t] = key(projections, t);
      __builtin_prefetch(&pools_[at(t)][bucket_of(keys[t])], 1);
    }
    for (int32_t t = 0; t < settings_.tables; ++t) {
      Record& r = record(row, t);
      if (bucket_of(r.key) == bucket_of(keys[t])) {
        pools_[at(t)][block_of(r.slot)].sketch[entry_of(r.slot)] = sketch;
      } else {
        take_out(t, r);
        r.slot = put_in(t, keys[t], row, sketch);
      }
      r.key = keys[t];
    }
    watch_centre(projections);
    count_insertion();
  }

  bool contains(int32_t row) const override {
    return row >= 0 && row < capacity_ && record(row, 0).slot != 0;
  }
  int32_t size() const override { return size_; }

  void clear() override {
    records_.reset();
    occupied_.reset();
    for (BucketPool& pool : pools_) pool.reset();
    size_ = 0;
    directory_ = {};
    projection_.forget();
    insertions_ = 0;
  }

  int32_t max_candidates() const override { return std::min(settings_.checks, capacity_); }

  int32_t query(const float* query, Scratch& scratch, int32_t* out) const override {
    if (size_ <= max_candidates()) {
      int32_t n = 0;
      each_entry(pools_[0], [&](int32_t row, uint32_t) { out[n++] = row; });
      return n;
    }
    scratch.numbers.resize(at(projection_.padded()));
    float* projections = scratch.numbers.data();
    projection_.project(query, projections);
    const uint32_t sketch = Projection::signs(projections, kSketchBits);
    if (bucket_count() <= kFewProbes * settings_.probes) {  // reading all takes no longer than choosing some
      const size_t found = scan_occupied(0, sketch, scratch, 0, at(size_));
      return propose_nearest(scratch, found, max_candidates(), out);
    }
    ProbeOrder order(directory_, settings_.tables, settings_.bits, projections + kSketchBits, scratch.heap);
    scratch.visits.resize(at(settings_.probes));
    size_t found = 0;
    for (int32_t turn = 0; turn < kPatience && found < at(settings_.checks); ++turn) {
      int32_t visits = 0;
      for (; visits < settings_.probes && order.next(scratch.visits[at(visits)]); ++visits) {
        const Scratch::Visit& visit = scratch.visits[at(visits)];
        __builtin_prefetch(&pools_[at(visit.table)][visit.block]);
      }
      if (visits == 0) break;
      const size_t room = found + at(visits) * kScanned + 1;
      if (scratch.found.size() < room) scratch.found.resize(room);
      Scratch::Found* end = scratch.found.data() + found;
      for (int32_t i = 0; i < visits; ++i) {
        const Scratch::Visit& visit = scratch.visits[at(i)];
        end = scan_chain(pools_[at(visit.table)], visit.block, sketch, visit.distance, end);
      }
      found = static_cast<size_t>(end - scratch.found.data());
    }
    // Words that crowd far from the query (a memory at the start of training) leave all likely buckets empty.
    if (found < at(settings_.checks))
      found = scan_occupied(bucket_of(key(projections, 0)), sketch, scratch, found, at(settings_.checks));
    return propose_nearest(scratch, found, max_candidates(), out);
  }

  void rows(std::vector<int32_t>& out) const override {
    each_entry(pools_[0], [&](int32_t row, uint32_t) { out.push_back(row); });
  }

  void build(const int32_t* rows, int32_t n, int threads) override {
    check_source();
    clear();
    for (int32_t i = 0; i < n; ++i) {
      check_row(rows[i]);
      check_absent(rows[i], contains(rows[i]));
      record(rows[i], 0).slot = -1;
    }
    projection_.centre_on(rows, n, word_size_, *source_);
    hash_and_fill(rows, n, threads);
  }

  std::unique_ptr<CandidateIndex> clone() const override {
    auto copy = std::make_unique<LSH>(capacity_, word_size_, settings_, source_);
    each_entry(pools_[0], [&](int32_t row, uint32_t) {
      for (int32_t t = 0; t < settings_.tables; ++t) copy->record(row, t) = record(row, t);
    });
    for (size_t t = 0; t < tables(); ++t) copy->pools_[t].copy_from(pools_[t], bucket_count());
    std::memcpy(copy->occupied_.data(), occupied_.data(), (at(bucket_count()) / 64 + 1) * sizeof(uint64_t));
    copy->size_ = size_;
    copy->directory_ = directory_;
    copy->projection_ = projection_;
    copy->insertions_ = insertions_;
    copy->rebuilds_ = rebuilds_;
    return copy;
  }

  std::unique_ptr<CandidateIndex> fresh() const override {
    return std::make_unique<LSH>(capacity_, word_size_, settings_, source_);
  }

  size_t bytes() const override {
    size_t blocks = 0;
    for (const BucketPool& pool : pools_) blocks += at(bucket_count()) + at(pool.used() - pool.first());
    return blocks * sizeof(Bucket) + at(size_) * tables() * sizeof(Record) + projection_.bytes();
  }

  const LSHSettings& settings() const { return settings_; }

 private:
  static constexpr int32_t kSketchBits = 32;
  static constexpr int32_t kFewBuckets = 16;  // not worth shrinking
  static constexpr int32_t kMaxProjections = kSketchBits + kMaxTables * kMaxBits + Projection::kLanes;

  // Per row and table. The key stays with the row, so that neither removal nor splitting needs the word.
  struct Record {
    uint32_t key;
    int32_t slot;
  };

  static size_t at(int32_t i) { return static_cast<size_t>(i); }
  size_t tables() const { return at(settings_.tables); }
  Record& record(int32_t row, int32_t table) { return records_[at(row) * tables() + at(table)]; }
  const Record& record(int32_t row, int32_t table) const { return records_[at(row) * tables() + at(table)]; }

  static LSHSettings checked(LSHSettings s, int32_t capacity) {
    auto within = [](const char* name, int32_t value, int32_t low, int32_t high) {
      if (value < low || value > high)
        throw std::invalid_argument(std::string(name) + " must be in " + std::to_string(low) + ".." +
                                    std::to_string(high) + ", got " + std::to_string(value));
    };
    within("tables", s.tables, 1, kMaxTables);
    within("bits", s.bits, 0, kMaxBits);
    within("probes", s.probes, 1, 1 << 20);
    within("checks", s.checks, 1, std::numeric_limits<int32_t>::max());
    if (s.bits == 0) {
      s.bits = 1;
      while (s.bits < kMaxBits && (int64_t{kLoad} << s.bits) < capacity) ++s.bits;
    }
    return s;
  }

  int32_t bucket_count() const { return directory_.count(); }
  int32_t bucket_of(uint32_t key) const { return directory_.bucket_of(key); }

  uint32_t key(const float* projections, int32_t table) const {
    return Projection::signs(projections + kSketchBits + table * settings_.bits, settings_.bits);
  }

  void place(int32_t row, const float* projections) {
    const uint32_t sketch = Projection::signs(projections, kSketchBits);
    uint32_t keys[kMaxTables];
    for (int32_t t = 0; t < settings_.tables; ++t) {
      keys[t] = key(projections, t);
      __builtin_prefetch(&pools_[at(t)][bucket_of(keys[t])], 1);
    }
    for (int32_t t = 0; t < settings_.tables; ++t)
      record(row, t) = {keys[t], put_in(t, keys[t], row, sketch)};
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

  // Reads occupied buckets of the first table from `bucket` on, round once, until there are `enough` candidates.
  size_t scan_occupied(int32_t bucket, uint32_t sketch, Scratch& scratch, size_t found, size_t enough) const {
    const size_t words = at(bucket_count() + 63) / 64, first = at(bucket) / 64;
    for (size_t i = 0; i < words && found < enough; ++i) {
      const size_t word = (first + i) % words;
      for (uint64_t bits = occupied_[word]; bits != 0 && found < enough; bits &= bits - 1) {
        if (scratch.found.size() < found + kScanned + 1) scratch.found.resize(2 * (found + kScanned) + 1);
        const int32_t next = static_cast<int32_t>(word) * 64 + std::countr_zero(bits);
        Scratch::Found* start = scratch.found.data() + found;
        found += static_cast<size_t>(scan_chain(pools_[0], next, sketch, 0, start) - start);
      }
    }
    return found;
  }

  // Splits the next bucket of every table by the next bit of the keys.
  void grow() {
    const int32_t from = directory_.split, to = bucket_count();
    for (int32_t t = 0; t < settings_.tables; ++t) {
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
    if (bucket_count() * kLoad == kDense) expect_dense();
  }

  void expect_dense() {
    records_.expect_dense();
    for (BucketPool& pool : pools_) pool.expect_dense();
  }

  void watch_centre(const float* projections) {
    if (!projection_.watch(projections, size_)) return;
    std::vector<int32_t> present;
    rows(present);
    occupied_.reset();
    for (BucketPool& pool : pools_) pool.reset();
    hash_and_fill(present.data(), static_cast<int32_t>(present.size()), 1);
  }

  void hash_and_fill(const int32_t* rows, int32_t n, int threads) {
    std::vector<uint32_t> sketches(at(n));
    try {
      parallel_parts(n, threads, [&](int32_t begin, int32_t end) {
        std::vector<float> word(at(word_size_));
        float projections[kMaxProjections];
        for (int32_t i = begin; i < end; ++i) {
          source_->fetch(rows[i], word.data());
          check_word(rows[i], word.data());
          projection_.project(word.data(), projections);
          sketches[at(i)] = Projection::signs(projections, kSketchBits);
          for (int32_t t = 0; t < settings_.tables; ++t) record(rows[i], t).key = key(projections, t);
        }
      });
    } catch (...) {
      clear();
      throw;
    }
    fill(rows, sketches.data(), n, threads);
  }

  // Lays all entries out afresh over as many buckets as their number asks for; the keys stand in the records.
  void lay_out() {
    std::vector<int32_t> rows;
    std::vector<uint32_t> sketches;
    each_entry(pools_[0], [&](int32_t row, uint32_t sketch) {
      rows.push_back(row);
      sketches.push_back(sketch);
    });
    occupied_.reset();
    for (BucketPool& pool : pools_) pool.reset();
    fill(rows.data(), sketches.data(), static_cast<int32_t>(rows.size()), 1);
  }

  // Puts rows, whose keys stand in the records, into empty pools.
  void fill(const int32_t* rows, const uint32_t* sketches, int32_t n, int threads) {
    size_ = n;
    const int32_t wanted = std::max(1, std::min((n + kLoad - 1) / kLoad, 1 << settings_.bits));
    directory_.resize(wanted);
    if (n >= kDense) expect_dense();
    constexpr int32_t kAhead = 16;
    parallel_parts(settings_.tables, threads, [&](int32_t begin, int32_t end) {
      for (int32_t t = begin; t < end; ++t) {
        for (int32_t i = 0; i < n; ++i) {
          if (i + 2 * kAhead < n) __builtin_prefetch(&record(rows[i + 2 * kAhead], t), 1);
          if (i + kAhead < n) __builtin_prefetch(&pools_[at(t)][bucket_of(record(rows[i + kAhead], t).key)], 1);
          Record& r = record(rows[i], t);
          r.slot = put_in(t, r.key, rows[i], sketches[i]);
        }
      }
    });
  }

  template <class Use>
  void each_entry(const BucketPool& pool, const Use& use) const {
    for (int32_t bucket = 0; bucket < bucket_count(); ++bucket) {
      int32_t block = bucket;
      do {
        for (int32_t e = 0; e < kBucketEntries; ++e)
          if (pool[block].row_plus_one[e] != 0) use(pool[block].row_plus_one[e] - 1, pool[block].sketch[e]);
        block = pool[block].next;
      } while (block != 0);
    }
  }

  LSHSettings settings_;
  CentredProjection projection_;
  ZeroPages<Record> records_;
  ZeroPages<uint64_t> occupied_;  // a bit for each bucket of the first table that holds words
  std::vector<BucketPool> pools_;
  int32_t size_ = 0;
  LinearDirectory directory_;
};

}  // namespace sparsam::SPARSAM_ISA
