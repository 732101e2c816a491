// Locality-sensitive hashing: signs of random projections, several tables, several buckets probed in each.
//
// Charikar 2002, 'Similarity estimation techniques from rounding algorithms' (sign projections); Lv et al. 2007,
// 'Multi-probe LSH' (buckets in order of the squared margins of the flipped bits, here over all tables at once).
//
// The hashes cut space through the centre of the words, not through the origin (projection.h). Beside each
// row is a sketch of its word, more signs; of all entries in the probed buckets only the `checks` nearest by sketch are
// proposed. Up to `few` words lie in one list of sketches (sketch_list.h), as if in a single bucket that is always
// probed; more of them lie in tables (lsh_tables.h). Where there can be no more than `few`, lsh_list.h is used instead. Made for cosine similarity, with words and queries of unit length.
//
// Memory per indexed word: 16 bytes in the list, about 26 bytes per table in the tables; nothing for rows that are not
// indexed. Cost: insert and remove O(tables); query O(probes).
#pragma once

#include <memory>

#include "index/projection.h"
#include "index/sketch_list.h"
#include "index/lsh_tables.h"

namespace sparsam::SPARSAM_ISA {

struct LSHSettings {
  int32_t tables = 4;
  int32_t bits = 0;     // most key bits per table; 0: as many as the capacity can use
  int32_t probes = 48;  // buckets read per query, over all tables
  int32_t checks = 32;  // words proposed per query
  int32_t few = 8192;  // words that lie in a list, before there are tables
  uint64_t seed = 0;
};

class LSH final : public CandidateIndex {
 public:
  static constexpr int32_t kMaxTables = ProbeOrder::kMaxTables;
  static constexpr int32_t kMaxBits = ProbeOrder::kMaxBits;
  static constexpr int32_t kPatience = 4;  // times `probes` buckets are read when the likely ones are empty

  LSH(int32_t capacity, int32_t word_size, const LSHSettings& settings, const WordSource* source = nullptr)
      : CandidateIndex(capacity, word_size),
        settings_(with_bits(settings, capacity)),
        projection_(word_size, std::max(kListBits, kSketchBits + settings_.tables * settings_.bits), settings_.seed) {
    source_ = source;
  }

  void put(int32_t row, const float* word) override {
    float projections[kMaxProjections];
    project(word, projections);
    if (tables_) {
      uint32_t keys[kMaxTables];
      hash(projections, keys);
      tables_->insert(row, keys, sketch(projections));
    } else {
      list_.insert(row, {long_sketch(projections)});
    }
    if (list_.size() <= settings_.few) return watch_centre(projections);
    projection_.centre_on(list_.rows().data(), list_.size(), word_size_, *source_);
    hash_again();
  }

  void take(int32_t row) override {
    if (tables_) {
      tables_->remove(row);
      if (tables_->size() < settings_.few / 4 && source_ != nullptr) hash_again();
    } else {
      list_.remove(row);
    }
  }

  void replace(int32_t row, const float* word) override {
    if (tables_) tables_->prefetch(row);
    float projections[kMaxProjections];
    project(word, projections);
    if (tables_) {
      uint32_t keys[kMaxTables];
      hash(projections, keys);
      tables_->update(row, keys, sketch(projections));
    } else {
      list_.set(row, {long_sketch(projections)});
    }
    watch_centre(projections);
  }

  bool contains(int32_t row) const override {
    return row >= 0 && row < capacity_ && (tables_ ? tables_->contains(row) : list_.contains(row));
  }
  int32_t size() const override { return tables_ ? tables_->size() : list_.size(); }

  void clear() override {
    tables_.reset();
    list_.clear();
    projection_.forget();
    insertions_ = 0;
  }

  int32_t max_candidates() const override { return std::min(settings_.checks, capacity_); }

  int32_t propose(const float* query, int32_t* out) const override {
    Scratch& scratch = own_scratch<Scratch>();
    scratch.numbers.resize(at(projection_.padded()));
    float* projections = scratch.numbers.data();
    project(query, projections);
    if (tables_ == nullptr) return list_.nearest({long_sketch(projections)}, max_candidates(), scratch.list, out);
    if (size() <= max_candidates()) {
      int32_t n = 0;
      tables_->each([&](int32_t row, uint32_t) { out[n++] = row; });
      return n;
    }
    scratch.visits.resize(at(settings_.probes));
    const int32_t visits = look_up(projections, scratch);
    size_t found = scan(scratch.visits.data(), visits, sketch(projections), scratch, 0);
    if (found < at(settings_.checks)) found = read_further(projections, visits, scratch, found);
    return propose_nearest(scratch, found, max_candidates(), out);
  }

  void rows(std::vector<int32_t>& out) const override {
    if (tables_)
      tables_->each([&](int32_t row, uint32_t) { out.push_back(row); });
    else
      out.insert(out.end(), list_.rows().begin(), list_.rows().end());
  }

  void fill(const int32_t* rows, int32_t n, int threads) override {
    projection_.centre_on(rows, n, word_size_, *source_);
    take_in(rows, n, threads);
  }

  size_t bytes() const override {
    const size_t held = tables_ ? tables_->bytes() : list_.bytes();
    return held + projection_.bytes();
  }

 private:
  struct Scratch : BucketScratch {
    SketchScratch list;
  };
  static constexpr int32_t kSketchBits = 32, kListBits = 64;
  static constexpr int32_t kMaxProjections = kSketchBits + kMaxTables * kMaxBits + Projection::kLanes;
  static_assert(kListBits == 2 * kSketchBits && kListBits % Projection::kLanes == 0);

  // As many bits as the capacity can use where none are given.
  static LSHSettings with_bits(LSHSettings s, int32_t capacity) {
    if (s.bits > 0) return s;
    s.bits = 1;
    while (s.bits < kMaxBits && (int64_t{LSHTables::kLoad} << s.bits) < capacity) ++s.bits;
    return s;
  }

  // The list needs fewer projections than the tables, so no more are computed.
  int32_t projected() const { return tables_ ? projection_.padded() : kListBits; }
  void project(const float* word, float* projections) const { projection_.project(word, projections, projected()); }
  static uint32_t sketch(const float* projections) { return Projection::signs(projections, kSketchBits); }
  static uint64_t long_sketch(const float* projections) {
    return sketch(projections) | uint64_t{sketch(projections + kSketchBits)} << kSketchBits;
  }
  uint32_t key(const float* projections, int32_t table) const {
    return Projection::signs(projections + kSketchBits + table * settings_.bits, settings_.bits);
  }
  void hash(const float* projections, uint32_t* keys) const {
    for (int32_t t = 0; t < settings_.tables; ++t) keys[t] = key(projections, t);
  }

  // The likeliest buckets, on their way from memory; returns their number.
  int32_t look_up(const float* projections, Scratch& scratch) const {
    ProbeOrder order(tables_->directory(), settings_.tables, settings_.bits, projections + kSketchBits, scratch.heap);
    int32_t n = 0;
    for (; n < settings_.probes && order.next(scratch.visits[at(n)]); ++n) tables_->prefetch(scratch.visits[at(n)]);
    return n;
  }

  size_t scan(const Visit* visits, int32_t n, uint32_t sketch, Scratch& scratch, size_t found) const {
    const size_t needed = found + at(n) * kScanned + 1;
    if (scratch.found.size() < needed) scratch.found.resize(needed);
    Found* end = scratch.found.data() + found;
    for (int32_t i = 0; i < n; ++i) end = tables_->scan(visits[i], sketch, end);
    return static_cast<size_t>(end - scratch.found.data());
  }

  // Words that crowd far from the query (a memory at the start of training) leave all likely buckets empty.
  size_t read_further(const float* projections, int32_t visited, Scratch& scratch, size_t found) const {
    ProbeOrder order(tables_->directory(), settings_.tables, settings_.bits, projections + kSketchBits, scratch.heap);
    Visit visit;
    const int64_t most = int64_t{kPatience} * settings_.probes;
    for (int64_t i = 0; i < most && found < at(settings_.checks) && order.next(visit); ++i)
      if (i >= visited) found = scan(&visit, 1, sketch(projections), scratch, found);
    if (found >= at(settings_.checks)) return found;
    return tables_->scan_occupied(tables_->bucket_of(key(projections, 0)), sketch(projections), scratch.found, found,
                                  at(settings_.checks));
  }

  void watch_centre(const float* projections) {
    if (projection_.watch(projections, size(), projected())) hash_again();
  }

  // All words about the present centre, in tables or in the list as their number asks for.
  void hash_again() {
    std::vector<int32_t> present;
    rows(present);
    if (tables_ && tables_->size() < settings_.few / 4) tables_.reset();
    take_in(present.data(), static_cast<int32_t>(present.size()), 1);
  }

  // Holds these rows and no others; words are read from the source and hashed about the centre.
  void take_in(const int32_t* rows, int32_t n, int threads) {
    list_.clear();
    if (n > settings_.few && tables_ == nullptr)
      tables_ = std::make_unique<LSHTables>(capacity_, settings_.tables, settings_.bits);
    std::vector<uint64_t> sketches(at(n));
    try {
      fetch_all(rows, n, threads, [&] {
        return [&](int32_t i, const float* word) {
          float projections[kMaxProjections];
          project(word, projections);
          sketches[at(i)] = tables_ ? sketch(projections) : long_sketch(projections);
          for (int32_t t = 0; tables_ && t < settings_.tables; ++t) tables_->set_key(rows[i], t, key(projections, t));
        };
      });
    } catch (...) {
      clear();
      throw;
    }
    if (tables_) return tables_->fill(rows, sketches.data(), n, threads);
    for (int32_t i = 0; i < n; ++i) list_.insert(rows[i], {sketches[at(i)]});
  }

  LSHSettings settings_;
  CentredProjection projection_;
  SketchList<> list_;
  std::unique_ptr<LSHTables> tables_;  // null while the list will do
};

}  // namespace sparsam::SPARSAM_ISA
