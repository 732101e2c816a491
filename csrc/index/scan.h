// A scan of all words in four bits a component: every query reads every code, and proposes the best by estimated score.
//
// Counting first: a code of a word of width 32 is 16 bytes, against 128 of the word, and one instruction multiplies two
// components of 16 words or more. So a scan of 600,000 words streams 9.6 MB for any number of heads where exact search
// reads eight times as much (docs/ann.md has the times); and it finds what cells, hashes and trees miss, which is all that
// lies far from the query and is nevertheless among the nearest.
//
// The rows proposed depend on rows, words, seed and query alone: codes do (word_codes.h), the centre does
// (sample_centre.h), and ties go to the lowest row. Whatever was inserted and removed before makes no difference.
//
// Memory per word of width 32: 16 bytes of code, 8 of factor and bias, 4 of row, 16 to 32 of the map from rows.
#pragma once

#include <limits>

#include "index/candidate_index.h"
#include "index/cells.h"
#include "index/code_list.h"
#include "index/sample_centre.h"
#include "support/parallel.h"

namespace sparsam::SPARSAM_ISA {

struct ScanSettings {
  int32_t checks = 96;  // words proposed per query
  int32_t reach = 58;   // hundredths, of a memory that does not change (cells.h); with 0 all of it is read
  uint64_t seed = 0;
  bool by_distance = false;  // the nearest words, not those of largest inner product
};

class Scan final : public CandidateIndex {
 public:
  Scan(int32_t capacity, int32_t word_size, const ScanSettings& settings, const WordSource* source = nullptr)
      : CandidateIndex(capacity, word_size), settings_(checked(settings)), list_(word_size, settings.seed),
        centre_(word_size, settings.seed), work_(at(list_.codes().work_size())), code_(at(list_.codes().components())) {
    source_ = source;
  }

  bool is_value() const override { return true; }

  void insert(int32_t row, const float* word) override {
    check_row(row);
    check_absent(row, contains(row));
    check_word(row, word);
    check_source();
    cells_.reset();
    encode(list_.push(row), word);
    centre_.inserted(row);
  }

  void remove(int32_t row) override {
    check_row(row);
    const int32_t place = list_.find(row);
    check_present(row, place >= 0);
    cells_.reset();
    list_.remove(place);
    centre_.removed(row);
  }

  void update(int32_t row, const float* word) override {
    check_row(row);
    const int32_t place = list_.find(row);
    check_present(row, place >= 0);
    check_word(row, word);
    cells_.reset();
    encode(place, word);
    centre_.updated(row);
  }

  bool contains(int32_t row) const override { return row >= 0 && list_.find(row) >= 0; }
  int32_t size() const override { return list_.size(); }

  void clear() override {
    cells_.reset();
    list_.clear();
    centre_.clear();
    list_.set_centre(centre_.centre());
  }

  // All words about the present centre; while every word is proposed anyway, codes need not be right.
  void settle(int threads) override {
    if (!centre_.is_stale() || size() <= settings_.checks) return;
    check_source();
    if (!centre_.refresh(list_.rows(), *source_)) return;
    list_.set_centre(centre_.centre());
    encode_all(threads);
  }

  int32_t max_candidates() const override { return std::min(settings_.checks, capacity_); }

  int32_t query(const float* query, Scratch& scratch, int32_t* out) const override {
    int32_t count = 0;
    query_all(query, 1, scratch, out, max_candidates(), &count, nullptr);
    std::sort(out, out + count);
    return count;
  }

  void query_all(const float* queries, int heads, Scratch& scratch, int32_t* out, int32_t stride, int32_t* counts,
                 const uint64_t* hidden) const override {
    if (size() <= settings_.checks) {
      for (int h = 0; h < heads; ++h) {
        counts[h] = 0;
        for (const int32_t row : list_.rows())
          if (!is_hidden(hidden, row)) out[h * stride + counts[h]++] = row;
      }
      return;
    }
    const WordCodes& codes = list_.codes();
    std::vector<Head>& best = scratch_heads(scratch, heads);
    scratch.bytes.resize(at(heads) * at(codes.components()));
    scratch.least.resize(at(heads));
    scratch.numbers.resize(at(codes.work_size()));
    for (int h = 0; h < heads; ++h) {
      const WordCodes::Query made =
          codes.prepare(queries + h * word_size_, scratch.bytes.data() + at(h) * at(codes.components()),
                         scratch.numbers.data());
      best[at(h)].set_query(made.unit, made.base, made.constant);
    }
    if (cells_ != nullptr) {
      const int32_t cells = cells_->count();
      scratch.products.resize(at(Cells::kQueries) * at(cells));
      for (int h = 0; h < heads; ++h) {
        const int of_some = h % Cells::kQueries;
        if (of_some == 0)
          cells_->multiply(queries + h * word_size_, std::min(heads - h, Cells::kQueries), scratch.products.data());
        read_cells(best[at(h)], queries + h * word_size_, scratch.products.data() + at(of_some) * at(cells),
                   scratch.bytes.data() + at(h) * at(codes.components()), scratch, hidden);
        counts[h] = best[at(h)].finish(out + h * stride);
      }
      return;
    }
    // Most of the work of choosing is done while the bound is still low. So a sample sets it first, at a score that
    // about four times as many words reach as are wanted; should they be too few, the scan is done again without it.
    const int32_t guess = std::max(1, settings_.checks * kMargin / kSampled);
    for (int h = 0; h < heads; ++h) best[at(h)].begin(guess);
    scan(best.data(), heads, scratch, kSampled, hidden);
    for (int h = 0; h < heads; ++h) best[at(h)].begin(settings_.checks, best[at(h)].lowest());
    scan(best.data(), heads, scratch, 1, hidden);
    bool full = true;
    for (int h = 0; h < heads; ++h) full &= best[at(h)].is_full();
    if (!full) {
      for (int h = 0; h < heads; ++h) best[at(h)].begin(settings_.checks);
      scan(best.data(), heads, scratch, 1, hidden);
    }
    for (int h = 0; h < heads; ++h) counts[h] = best[at(h)].finish(out + h * stride);
  }

  void rows(std::vector<int32_t>& out) const override {
    out.insert(out.end(), list_.rows().begin(), list_.rows().end());
  }

  void build(const int32_t* rows, int32_t n, int threads) override {
    check_source();
    clear();
    try {
      for (int32_t i = 0; i < n; ++i) {
        check_row(rows[i]);
        check_absent(rows[i], contains(rows[i]));
        list_.push(rows[i]);
        centre_.inserted(rows[i]);
      }
      if (n > 0) centre_.refresh({}, *source_);
      list_.set_centre(centre_.centre());
      encode_all(threads);
    } catch (...) {
      clear();
      throw;
    }
  }

  // Words are put in the order of cells, and queries read some of them instead of all.
  void freeze(int threads) override {
    if (settings_.reach == 0 || settings_.by_distance || size() < Cells::kFewest) return;
    check_source();
    std::vector<float> words(at(size()) * at(word_size_));
    for (int32_t i = 0; i < size(); ++i) source_->fetch(list_.rows()[at(i)], words.data() + at(i) * at(word_size_));
    std::vector<int32_t> order;
    auto cells = std::make_shared<const Cells>(words.data(), size(), word_size_, threads, order);
    list_.reorder(order);
    cells_ = std::move(cells);
  }

  std::unique_ptr<CandidateIndex> clone() const override {
    auto copy = std::make_unique<Scan>(capacity_, word_size_, settings_, source_);
    copy->list_.copy_from(list_);
    copy->centre_ = centre_;
    copy->cells_ = cells_;
    return copy;
  }

  std::unique_ptr<CandidateIndex> fresh() const override {
    return std::make_unique<Scan>(capacity_, word_size_, settings_, source_);
  }

  size_t bytes() const override { return list_.bytes() + (cells_ ? cells_->bytes() : 0); }

  const ScanSettings& settings() const { return settings_; }

 private:
  using Head = Scratch::Head;
  static constexpr int32_t kSampled = 16, kMargin = 4;  // blocks of which one is sampled; see query_all
  static constexpr int32_t kAtOnce = 16;                // blocks that share a bound
  static size_t at(int32_t i) { return static_cast<size_t>(i); }
  static ScanSettings checked(const ScanSettings& s) {
    if (s.checks < 1) throw std::invalid_argument("checks: expected at least 1, got " + std::to_string(s.checks));
    if (s.reach < 0 || s.reach > 100)
      throw std::invalid_argument("reach: expected 0 to 100, got " + std::to_string(s.reach));
    return s;
  }
  static bool is_hidden(const uint64_t* hidden, int32_t row) {
    return hidden != nullptr && (hidden[at(row) / 64] >> (row % 64) & 1) != 0;
  }
  static std::vector<Head>& scratch_heads(Scratch& scratch, int heads) {
    if (scratch.heads.size() < at(heads)) scratch.heads.resize(at(heads));
    return scratch.heads;
  }

  void encode(int32_t place, const float* word) {
    list_.encode(place, word, settings_.by_distance, work_.data(), code_.data());
    list_.note_bounds(place / kBlockWords);
  }

  void encode_all(int threads) {
    parallel_parts(size(), threads, [&](int32_t begin, int32_t end) {
      std::vector<float> word(at(word_size_)), work(work_.size());
      std::vector<uint8_t> code(code_.size());
      for (int32_t place = begin; place < end; ++place) {
        const int32_t row = list_.rows()[at(place)];
        source_->fetch(row, word.data());
        check_word(row, word.data());
        list_.encode(place, word.data(), settings_.by_distance, work.data(), code.data());
      }
    });
    list_.note_all_bounds();
  }

  // Offers the words of one in `every` stretches of blocks to the heads; shorter stretches where not all are best for.
  void scan(Head* best, int heads, Scratch& scratch, int32_t every, const uint64_t* hidden) const {
    const NoteScores note = note_scores();
    const int32_t blocks = list_.blocks(), stretch = every == 1 ? kAtOnce : 1;
    int32_t* least = scratch.least.data();
    for (int32_t from = 0; from < blocks; from += stretch * every) {
      const int32_t to = std::min(blocks, from + stretch);
      CodeList::Bounds b = list_.bounds(from);
      for (int32_t block = from + 1; block < to; ++block) b.include(list_.bounds(block));
      for (int h = 0; h < heads; ++h) least[h] = least_sum(best[h], b);
      note(list_.quarters(4 * from, 4 * (to - from)), heads, scratch.bytes.data(), least, best);
      for (int h = 0; h < heads; ++h)
        if (best[h].noted_count > Head::kNoted - kAtOnce * kBlockWords || !best[h].has_bound())
          take_noted(best[h], hidden);
    }
    for (int h = 0; h < heads; ++h) take_noted(best[h], hidden);
  }

  // The best words of the cells nearest to a query, and of those that may hold as good ones.
  void read_cells(Head& head, const float* query, const float* products, const int8_t* bytes, Scratch& scratch,
                  const uint64_t* hidden) const {
    const int32_t cells = cells_->count();
    scratch.cells.resize(at(cells));
    scratch.parts.resize(2 * at(cells));
    auto* parts = reinterpret_cast<Cells::Part*>(scratch.parts.data());
    int32_t near[Cells::kNear];
    cells_->nearest(products, near);
    for (int32_t i = 0; i < Cells::kNear; ++i) parts[i] = cells_->whole(near[i]);
    head.begin(Cells::kRank);
    read(head, parts, Cells::kNear, bytes, hidden);
    // From the estimate to (word, query), as centroids are compared.
    const float wanted = head.lowest() + head.constant;
    head.begin(settings_.checks);
    read(head, parts, Cells::kNear, bytes, hidden);
    float square = 0.0f;
    for (int32_t j = 0; j < word_size_; ++j) square += query[j] * query[j];
    const float reach = 0.01f * static_cast<float>(settings_.reach) * std::sqrt(square);
    const int32_t found = cells_->far(products, near, wanted, reach, scratch.cells.data(), parts);
    read(head, parts, found, bytes, hidden);
  }

  // The first and the last quarter of a part have words of others, which were noted since there were `before`.
  static void drop_others(Head& head, int32_t before, const Cells::Part& part) {
    int32_t end = head.noted_count, begin = before;
    while (end > before && head.noted_places[end - 1] >= part.end) --end;
    while (begin < end && head.noted_places[begin] < part.begin) ++begin;
    if (begin > before) {
      std::copy(head.noted_places + begin, head.noted_places + end, head.noted_places + before);
      std::copy(head.noted_scores + begin, head.noted_scores + end, head.noted_scores + before);
    }
    head.noted_count = before + end - begin;
  }

  void read(Head& head, const Cells::Part* parts, int32_t count, const int8_t* bytes, const uint64_t* hidden) const {
    constexpr int32_t kAhead = 4;  // parts on their way from memory
    const NoteScores note = note_scores();
    const int32_t least = std::numeric_limits<int32_t>::min() + 1;
    for (int32_t i = 0; i < count; ++i) {
      if (i + kAhead < count) list_.prefetch(parts[i + kAhead].begin);
      const int32_t last = (parts[i].end + kQuarterWords - 1) / kQuarterWords;
      for (int32_t quarter = parts[i].begin / kQuarterWords; quarter < last; quarter += 4 * kAtOnce) {
        const int32_t before = head.noted_count;
        note(list_.quarters(quarter, std::min(4 * kAtOnce, last - quarter)), 1, bytes, &least, &head);
        drop_others(head, before, parts[i]);
        if (head.noted_count > Head::kNoted - kAtOnce * kBlockWords) take_noted(head, hidden);
      }
    }
    take_noted(head, hidden);
  }

  // The least sum with which a word of a block could be taken.
  static int32_t least_sum(const Head& head, const CodeList::Bounds& b) {
    const float wanted = head.worst() - b.most_bias;
    const float over = wanted > 0.0f ? b.over_most : b.over_least;
    if (over == 0.0f) return std::numeric_limits<int32_t>::min() + 1;
    // Rounding must not lose a word: 2 is more than it can amount to in sums of 16 bits.
    const float sum = (wanted * over - head.base) * head.over_unit - 2.0f;
    return static_cast<int32_t>(std::min(std::max(sum, -1e5f), 1e5f));
  }

  void take_noted(Head& head, const uint64_t* hidden) const {
    for (int32_t i = 0; i < head.noted_count; ++i) __builtin_prefetch(list_.rows().data() + head.noted_places[i]);
    for (int32_t i = 0; i < head.noted_count; ++i) {
      if (head.noted_places[i] >= size()) break;  // what lies beyond the last word
      const int32_t row = list_.rows()[at(head.noted_places[i])];
      const float score = head.noted_scores[i];
      if (head.would_take(score, row) && !is_hidden(hidden, row)) head.take(score, row);
    }
    head.noted_count = 0;
  }

  ScanSettings settings_;
  CodeList list_;
  SampleCentre centre_;
  std::shared_ptr<const Cells> cells_;  // of a frozen index
  std::vector<float> work_;
  std::vector<uint8_t> code_;
};

}  // namespace sparsam::SPARSAM_ISA
