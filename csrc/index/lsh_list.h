// Locality-sensitive hashing without tables: signs of random projections of all words, in one list that a query reads.
//
// What LSH is by default (lsh.h has the tables, for `few` words and more). Signs are taken about a centre that depends on
// rows and words alone (sample_centre.h), and where distances are equal the lowest rows are proposed, so that the past
// does not show: a state that goes on needs nothing built anew.
//
// 128 signs: of 150,004 words that a trained model wrote, all K nearest of four heads are among the 8,192 nearest by sketch
// in 0.95 to 0.97 of the queries with 64 signs and in 0.99 to 1.00 with 128.
//
// Memory per word: 20 bytes in the list, 16 to 32 of the map from rows.
#pragma once

#include <algorithm>
#include <vector>

#include "index/candidate_index.h"
#include "index/projection.h"
#include "index/sample_centre.h"
#include "index/sketch_list.h"

namespace sparsam::SPARSAM_ISA {

class LSHList final : public CandidateIndex {
 public:
  // `checks` words are proposed per query.
  LSHList(int32_t capacity, int32_t word_size, int32_t checks, uint64_t seed, const WordSource* source = nullptr)
      : CandidateIndex(capacity, word_size), checks_(checks), projection_(word_size, kBits, seed),
        centre_(word_size, seed), shift_(kBits, 0.0f) {
    source_ = source;
  }

  bool is_value() const override { return true; }

  void put(int32_t row, const float* word) override {
    list_.insert(row, sketch(word));
    centre_.inserted(row);
  }

  void take(int32_t row) override {
    list_.remove(row);
    centre_.removed(row);
  }

  void replace(int32_t row, const float* word) override {
    list_.set(row, sketch(word));
    centre_.updated(row);
  }

  bool contains(int32_t row) const override { return row >= 0 && list_.contains(row); }
  int32_t size() const override { return list_.size(); }

  void clear() override {
    list_.clear();
    centre_.clear();
    std::fill(shift_.begin(), shift_.end(), 0.0f);
  }

  // All sketches about the present centre; while every word is proposed anyway, they need not be right.
  void settle(int threads) override {
    if (!centre_.is_stale() || size() <= checks_) return;
    check_source();
    if (centre_.refresh(centre_.is_incomplete() ? list_.rows() : std::vector<int32_t>(), *source_)) sketch_all(threads);
  }

  int32_t max_candidates() const override { return std::min(checks_, capacity_); }

  int32_t propose(const float* query, int32_t* out) const override {
    return list_.nearest(sketch(query), max_candidates(), own_scratch<SketchScratch>(), out);
  }

  void rows(std::vector<int32_t>& out) const override {
    out.insert(out.end(), list_.rows().begin(), list_.rows().end());
  }

  void fill(const int32_t* rows, int32_t n, int threads) override {
    for (int32_t i = 0; i < n; ++i) {
      if (i % 4096 == 0) check_interrupt();
      list_.insert(rows[i], {});
      centre_.inserted(rows[i]);
    }
    if (n > 0) centre_.refresh({}, *source_);
    sketch_all(threads);
  }

  size_t bytes() const override { return list_.bytes() + projection_.bytes(); }

 private:
  static constexpr int32_t kBits = 128;
  using Sketches = SketchList<kBits / 64>;

  Sketches::Sketch sketch(const float* word) const {
    float projections[kBits];
    projection_.project(word, projections, kBits);
    for (int32_t j = 0; j < kBits; ++j) projections[j] -= shift_[static_cast<size_t>(j)];
    Sketches::Sketch signs{};
    for (int32_t j = 0; j < kBits; j += 32)
      signs[static_cast<size_t>(j / 64)] |= uint64_t{Projection::signs(projections + j, 32)} << (j % 64);
    return signs;
  }

  void sketch_all(int threads) {
    projection_.project(centre_.centre(), shift_.data(), kBits);
    fetch_all(list_.rows().data(), size(), threads,
              [&] { return [&](int32_t place, const float* word) { list_.set_at(place, sketch(word)); }; });
  }

  int32_t checks_;
  Projection projection_;
  Sketches list_;
  SampleCentre centre_;
  std::vector<float> shift_;  // projections of the centre
};

}  // namespace sparsam::SPARSAM_ISA
