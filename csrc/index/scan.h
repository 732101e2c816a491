// A scan of all words in four bits a component: every query reads every code, and proposes the best by estimated score.
//
// Counting first: a code of a word of width 32 is 16 bytes, against 128 of the word, and one instruction multiplies two
// components of 16 words or more. So a scan of 600,000 words streams 9.6 MB for any number of heads where exact search
// reads eight times as much (docs/notebook/search.md has the times); and it finds what cells, hashes and trees miss, which is all that
// lies far from the query and is nevertheless among the nearest.
//
// The rows proposed depend on rows, words, seed and query alone: codes do (word_codes.h), the centre does
// (sample_centre.h), and ties go to the lowest row. Whatever was inserted and removed before makes no difference.
//
// Memory per word of width 32: 16 bytes of code, 8 of factor and bias, 4 of row, 16 to 32 of the map from rows.
#pragma once

#include <memory>

#include "index/candidate_index.h"
#include "index/cells.h"
#include "index/code_list.h"
#include "index/growing_cells.h"
#include "index/sample_centre.h"
#include "support/interrupt.h"

namespace sparsam::SPARSAM_ISA {

struct ScanSettings {
  int32_t checks = 96;  // words proposed per query
  int32_t reach = 58;   // hundredths, in cells (cells.h) of words of width 32; with 0 all of them are read
  int32_t cells_from = 200'000;  // words that change from which on a long call puts them into cells (growing_cells.h)
  uint64_t seed = 0;
  bool by_distance = false;  // the nearest words, not those of largest inner product
};

class Scan final : public CandidateIndex {
 public:
  Scan(int32_t capacity, int32_t word_size, const ScanSettings& settings, const WordSource* source = nullptr)
      : CandidateIndex(capacity, word_size), settings_(settings), list_(word_size, settings.seed),
        centre_(word_size, settings.seed), work_(at(list_.codes().work_size())), code_(at(list_.codes().components())) {
    source_ = source;
  }

  bool is_value() const override { return true; }

  void put(int32_t row, const float* word) override {
    CodeList& to = changing();
    encode(to, to.push(row), word);
    centre_.inserted(row);
  }

  void take(int32_t row) override {
    CodeList& from = changing();
    const int32_t place = from.find(row);
    if (place >= 0)
      from.remove(place);
    else
      growing_->hide(list_.find(row));
    centre_.removed(row);
  }

  void replace(int32_t row, const float* word) override {
    CodeList& to = changing();
    int32_t place = to.find(row);
    if (place < 0) {
      growing_->hide(list_.find(row));
      place = to.push(row);
    }
    encode(to, place, word);
    centre_.updated(row);
  }

  bool contains(int32_t row) const override {
    if (row < 0) return false;
    const int32_t place = list_.find(row);
    if (!growing_) return place >= 0;
    return (place >= 0 && !growing_->is_hidden(place)) || growing_->late().find(row) >= 0;
  }
  int32_t size() const override {
    return list_.size() + (growing_ ? growing_->late().size() - growing_->hidden_count() : 0);
  }

  void clear() override {
    cells_.reset();
    growing_.reset();
    long_call_ = false;
    list_.clear();
    centre_.clear();
    list_.set_centre(centre_.centre());
  }

  // All words about the present centre; while every word is proposed anyway, codes need not be right.
  void settle(int threads) override {
    if (centre_.is_stale() && size() > settings_.checks) {
      check_source();
      std::vector<int32_t> all;
      if (centre_.is_incomplete()) rows(all);
      if (centre_.refresh(all, *source_)) {
        dissolve();
        list_.set_centre(centre_.centre());
        encode_all(threads);
      }
    }
    if (growing_ && growing_->is_outgrown(size())) dissolve();
    if (growing_ && growing_->is_behind(list_.size())) growing_->catch_up(list_, *source_, threads);
    if (growing_ || !long_call_ || size() < settings_.cells_from) return;
    growing_ = std::make_unique<GrowingCells>(list_, *source_, word_size_, reach(), threads);
    changed_ = false;
  }

  void start(int64_t steps, int threads) override {
    if (cells_ != nullptr) return;
    long_call_ = steps >= kStepsOfALongCall && settings_.reach > 0 && !settings_.by_distance;
    if (!long_call_ || changed_) dissolve();  // centroids are those of this call
    settle(threads);
  }

  int32_t max_candidates() const override { return std::min(settings_.checks, capacity_); }

  void query_all(const float* queries, int heads, int32_t* out, int32_t stride, int32_t* counts,
                 const uint64_t* hidden) const override {
    if (size() <= settings_.checks) {
      for (int h = 0; h < heads; ++h) {
        counts[h] = 0;
        each_row([&](int32_t row) {
          if (!CodeReader::is_set(hidden, row)) out[h * stride + counts[h]++] = row;
        });
      }
      return;
    }
    const WordCodes& codes = list_.codes();
    Scratch& scratch = own_scratch<Scratch>();
    std::vector<BestCodes>& best = scratch.best;
    if (best.size() < at(heads)) best.resize(at(heads));
    scratch.bytes.resize(at(heads) * at(codes.components()));
    scratch.work.resize(at(codes.work_size()));
    for (int h = 0; h < heads; ++h) {
      const WordCodes::Query made =
          codes.prepare(queries + h * word_size_, scratch.bytes.data() + at(h) * at(codes.components()),
                         scratch.work.data());
      best[at(h)].set_query(made.unit, made.base, made.constant);
    }
    const CodeReader list(list_, hidden, growing_ ? growing_->hidden() : nullptr);
    if (const Cells* cells = growing_ ? &growing_->cells() : cells_.get()) {
      scratch.products.resize(at(Cells::kQueries) * at(cells->count()));
      for (int h = 0; h < heads; ++h) {
        const int of_some = h % Cells::kQueries;
        if (of_some == 0)
          cells->multiply(queries + h * word_size_, std::min(heads - h, Cells::kQueries), scratch.products.data());
        read_cells(*cells, list, best[at(h)], queries + h * word_size_,
                   scratch.products.data() + at(of_some) * at(cells->count()),
                   scratch.bytes.data() + at(h) * at(codes.components()), scratch);
      }
      if (growing_) CodeReader(growing_->late(), hidden, nullptr).scan(best.data(), heads, scratch.bytes.data(), 1);
      for (int h = 0; h < heads; ++h) counts[h] = best[at(h)].finish(out + h * stride);
      return;
    }
    // Most of the work of choosing is done while the bound is still low. So a sample sets it first, at a score that
    // about four times as many words reach as are wanted; should they be too few, the scan is done again without it.
    const int32_t guess = std::max(1, settings_.checks * kMargin / kSampled);
    for (int h = 0; h < heads; ++h) best[at(h)].begin(guess);
    list.scan(best.data(), heads, scratch.bytes.data(), kSampled);
    for (int h = 0; h < heads; ++h) best[at(h)].begin(settings_.checks, best[at(h)].lowest());
    list.scan(best.data(), heads, scratch.bytes.data(), 1);
    bool full = true;
    for (int h = 0; h < heads; ++h) full &= best[at(h)].is_full();
    if (!full) {
      for (int h = 0; h < heads; ++h) best[at(h)].begin(settings_.checks);
      list.scan(best.data(), heads, scratch.bytes.data(), 1);
    }
    for (int h = 0; h < heads; ++h) counts[h] = best[at(h)].finish(out + h * stride);
  }

  void rows(std::vector<int32_t>& out) const override {
    each_row([&](int32_t row) { out.push_back(row); });
  }

  void fill(const int32_t* rows, int32_t n, int threads) override {
    for (int32_t i = 0; i < n; ++i) {
      if (i % 4096 == 0) check_interrupt();
      list_.push(rows[i]);
      centre_.inserted(rows[i]);
    }
    if (n > 0) centre_.refresh({}, *source_);
    list_.set_centre(centre_.centre());
    encode_all(threads);
  }

  // Words are put in the order of cells, and queries read some of them instead of all.
  void freeze(int threads) override {
    if (settings_.reach == 0 || settings_.by_distance || size() < Cells::kFewest) return;
    check_source();
    std::vector<float> words(at(size()) * at(word_size_));
    for (int32_t i = 0; i < size(); ++i) source_->fetch(list_.rows()[at(i)], words.data() + at(i) * at(word_size_));
    std::vector<int32_t> order;
    auto cells = std::make_shared<const Cells>(words.data(), size(), word_size_, reach(), threads, order);
    list_.join(list_, order);
    cells_ = std::move(cells);
  }

  size_t bytes() const override {
    return list_.bytes() + (cells_ ? cells_->bytes() : 0) + (growing_ ? growing_->bytes() : 0);
  }

 private:
  static constexpr int32_t kSampled = 16, kMargin = 4;  // blocks of which one is sampled; see query_all

  struct Scratch {
    std::vector<BestCodes> best;  // of each head
    std::vector<int8_t> bytes;    // the heads' queries
    std::vector<float> work, products;
    std::vector<int32_t> cells;
    std::vector<Cells::Part> parts;
  };

  // Before a change: an index that was frozen is one no more. Returns the list that words are written to.
  CodeList& changing() {
    cells_.reset();
    changed_ = true;
    return growing_ ? growing_->late() : list_;
  }
  void dissolve() {
    if (growing_) growing_->dissolve(list_);
    growing_.reset();
  }
  template <class Call>
  void each_row(const Call& call) const {
    for (int32_t place = 0; place < list_.size(); ++place)
      if (!growing_ || !growing_->is_hidden(place)) call(list_.rows()[at(place)]);
    if (!growing_) return;
    for (const int32_t row : growing_->late().rows()) call(row);
  }

  void encode(CodeList& list, int32_t place, const float* word) {
    list.encode(place, word, settings_.by_distance, work_.data(), code_.data());
    list.note_bounds(place / kBlockWords);
  }

  void encode_all(int threads) {
    fetch_all(list_.rows().data(), size(), threads, [&] {
      return [&, work = std::vector<float>(work_.size()), code = std::vector<uint8_t>(code_.size())](
                 int32_t place, const float* word) mutable {
        list_.encode(place, word, settings_.by_distance, work.data(), code.data());
      };
    });
    list_.note_all_bounds();
  }

  // For a query of length 1. The part of a word's distance that lies along a query goes with one over the root of the width.
  float reach() const {
    const float share = 0.01f * static_cast<float>(settings_.reach) * std::sqrt(32.0f / static_cast<float>(word_size_));
    return std::min(share, 1.0f);
  }

  // The best words of the cells nearest to a query, and of those that may hold as good ones.
  void read_cells(const Cells& cells, const CodeReader& list, BestCodes& head, const float* query, const float* products,
                  const int8_t* bytes, Scratch& scratch) const {
    scratch.cells.resize(at(cells.count()));
    scratch.parts.resize(at(cells.count()));
    Cells::Part* parts = scratch.parts.data();
    int32_t near[Cells::kNear];
    cells.nearest(products, near);
    for (int32_t i = 0; i < Cells::kNear; ++i) parts[i] = cells.whole(near[i]);
    head.begin(settings_.checks);
    list.read(head, parts, Cells::kNear, bytes);
    // From the estimate to (word, query), as centroids are compared.
    const float wanted = head.ranked(Cells::kRank) + head.constant;
    float square = 0.0f;
    for (int32_t j = 0; j < word_size_; ++j) square += query[j] * query[j];
    const int32_t found = cells.far(products, near, wanted, reach() * std::sqrt(square), cells.most_read(size()),
                                    scratch.cells.data(), parts);
    list.read(head, parts, found, bytes);
  }

  ScanSettings settings_;
  CodeList list_;
  SampleCentre centre_;
  std::shared_ptr<const Cells> cells_;  // of a frozen index
  std::unique_ptr<GrowingCells> growing_;  // of one that changes, in a long call
  bool long_call_ = false;
  bool changed_ = false;  // since the growing cells were made
  std::vector<float> work_;
  std::vector<uint8_t> code_;
};

}  // namespace sparsam::SPARSAM_ISA
