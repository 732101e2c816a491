// A scan of all words in four bits a component: every query reads every code, and proposes the best by estimated score.
//
// Counting first: a code of a word of width 32 is 16 bytes, against 128 of the word, and one instruction multiplies two
// components of 16 words or more. So a scan of 600,000 words for four heads streams 9.6 MB and takes some 0.5 ms where exact
// search takes 9 ms; and it finds what cells, hashes and trees miss, which is all that lies far from the query and is
// nevertheless among the nearest.
//
// The rows proposed depend on rows, words, seed and query alone: codes do (word_codes.h), the centre does
// (sample_centre.h), and ties go to the lowest row. Whatever was inserted and removed before makes no difference.
//
// Memory per word of width 32: 16 bytes of code, 8 of factor and bias, 4 of row, 16 to 32 of the map from rows.
#pragma once

#include <bit>
#include <limits>

#include "index/candidate_index.h"
#include "index/row_map.h"
#include "index/sample_centre.h"
#include "index/word_codes.h"
#include "support/aligned.h"
#include "support/parallel.h"

namespace sparsam::SPARSAM_ISA {

struct ScanSettings {
  int32_t checks = 96;   // words proposed per query
  uint64_t seed = 0;
  bool by_distance = false;  // the nearest words, not those of largest inner product
};

class Scan final : public CandidateIndex {
 public:
  Scan(int32_t capacity, int32_t word_size, const ScanSettings& settings, const WordSource* source = nullptr)
      : CandidateIndex(capacity, word_size), settings_(checked(settings)), codes_(word_size, settings.seed),
        centre_(word_size, settings.seed), work_(at(codes_.room())), code_(at(codes_.components())) {
    source_ = source;
  }

  bool is_value() const override { return true; }

  void insert(int32_t row, const float* word) override {
    check_row(row);
    check_absent(row, contains(row));
    check_word(row, word);
    check_source();
    const int32_t place = push(row);
    encode(place, word, work_.data(), code_.data());
    note_bounds(place / kBlockWords);
    centre_.inserted(row);
  }

  void remove(int32_t row) override {
    check_row(row);
    const int32_t place = places_.find(row);
    check_present(row, place >= 0);
    const int32_t last = size() - 1;
    if (place != last) {
      move_code(last, place);
      entries_[at(place)] = entries_[at(last)];
      biases_[at(place)] = biases_[at(last)];
      places_.move(entries_[at(place)].row, place);
    }
    places_.erase(row);
    entries_.pop_back();
    biases_.pop_back();
    note_bounds(place / kBlockWords);
    if (last % kBlockWords == 0) bounds_.pop_back();
    centre_.removed(row);
  }

  void update(int32_t row, const float* word) override {
    check_row(row);
    const int32_t place = places_.find(row);
    check_present(row, place >= 0);
    check_word(row, word);
    encode(place, word, work_.data(), code_.data());
    note_bounds(place / kBlockWords);
    centre_.updated(row);
  }

  bool contains(int32_t row) const override { return row >= 0 && places_.find(row) >= 0; }
  int32_t size() const override { return static_cast<int32_t>(entries_.size()); }

  void clear() override {
    places_.clear();
    entries_.clear();
    biases_.clear();
    bounds_.clear();
    centre_.clear();
    codes_.set_centre(centre_.centre());
  }

  // All words about the present centre; while every word is proposed anyway, codes need not be right.
  void settle(int threads) override {
    if (!centre_.is_stale() || size() <= settings_.checks) return;
    check_source();
    std::vector<int32_t> present;
    rows(present);
    if (!centre_.refresh(present, *source_)) return;
    codes_.set_centre(centre_.centre());
    encode_all(threads);
  }

  int32_t max_candidates() const override { return std::min(settings_.checks, capacity_); }

  int32_t query(const float* query, Scratch& scratch, int32_t* out) const override {
    int32_t count = 0;
    query_all(query, 1, scratch, out, max_candidates(), &count, nullptr);
    return count;
  }

  void query_all(const float* queries, int heads, Scratch& scratch, int32_t* out, int32_t stride, int32_t* counts,
                 const uint64_t* hidden) const override {
    if (size() <= settings_.checks) {
      for (int h = 0; h < heads; ++h) {
        counts[h] = 0;
        for (const Entry& entry : entries_)
          if (!is_hidden(hidden, entry.row)) out[h * stride + counts[h]++] = entry.row;
        std::sort(out + h * stride, out + h * stride + counts[h]);
      }
      return;
    }
    std::vector<Head>& asked = scratch_heads(scratch, heads);
    scratch.bytes.resize(at(heads) * at(codes_.components()));
    scratch.sums.resize(at(heads) * kBlockWords);
    scratch.lanes.resize(at(heads));
    scratch.least.resize(at(heads));
    scratch.numbers.resize(at(codes_.room()));
    for (int h = 0; h < heads; ++h) {
      const WordCodes::Query made =
          codes_.prepare(queries + h * word_size_, scratch.bytes.data() + at(h) * at(codes_.components()),
                         scratch.numbers.data());
      asked[at(h)].ask(made.unit, made.base);
    }
    // Most of the work of choosing is done while the bound is still low. So a sample sets it first, at a score that
    // about four times as many words reach as are wanted; should they be too few, the scan is done again without it.
    const int32_t guess = std::max(1, settings_.checks * kMargin / kSampled);
    for (int h = 0; h < heads; ++h) asked[at(h)].begin(guess);
    scan(asked.data(), heads, scratch, kSampled, hidden);
    for (int h = 0; h < heads; ++h) asked[at(h)].begin(settings_.checks, asked[at(h)].lowest());
    scan(asked.data(), heads, scratch, 1, hidden);
    bool full = true;
    for (int h = 0; h < heads; ++h) full &= asked[at(h)].is_full();
    if (!full) {
      for (int h = 0; h < heads; ++h) asked[at(h)].begin(settings_.checks);
      scan(asked.data(), heads, scratch, 1, hidden);
    }
    for (int h = 0; h < heads; ++h) counts[h] = asked[at(h)].finish(out + h * stride);
  }

  void rows(std::vector<int32_t>& out) const override {
    for (const Entry& entry : entries_) out.push_back(entry.row);
  }

  void build(const int32_t* rows, int32_t n, int threads) override {
    check_source();
    clear();
    try {
      for (int32_t i = 0; i < n; ++i) {
        check_row(rows[i]);
        check_absent(rows[i], contains(rows[i]));
        push(rows[i]);
        centre_.inserted(rows[i]);
      }
      if (n > 0) centre_.refresh({}, *source_);
      codes_.set_centre(centre_.centre());
      encode_all(threads);
    } catch (...) {
      clear();
      throw;
    }
  }

  std::unique_ptr<CandidateIndex> clone() const override {
    auto copy = std::make_unique<Scan>(capacity_, word_size_, settings_, source_);
    copy->codes_ = codes_;
    copy->centre_ = centre_;
    copy->places_ = places_;
    copy->entries_ = entries_;
    copy->biases_ = biases_;
    copy->bounds_ = bounds_;
    copy->reserve(bounds_.size());
    std::copy_n(blocks_.get(), bounds_.size() * block_bytes(), copy->blocks_.get());
    return copy;
  }

  std::unique_ptr<CandidateIndex> fresh() const override {
    return std::make_unique<Scan>(capacity_, word_size_, settings_, source_);
  }

  size_t bytes() const override {
    return bounds_.size() * (block_bytes() + sizeof(Bounds)) + entries_.size() * (sizeof(Entry) + sizeof(float)) +
           places_.bytes() + codes_.bytes();
  }

  const ScanSettings& settings() const { return settings_; }

 private:
  using Head = Scratch::Head;
  static constexpr int32_t kSampled = 16, kMargin = 4;  // blocks of which one is sampled; see query_all
  static constexpr int32_t kAtOnce = 4;                 // blocks that share a bound
  struct Entry {
    int32_t row;
    float factor;
  };
  // Over the words of a block: the most that a factor and a bias can do for a score.
  struct Bounds {
    float over_most, over_least;  // one over the largest factor, and over the least; 0 where there is no saying
    float most_bias;
    void include(const Bounds& other) {
      over_most = std::min(over_most, other.over_most);
      over_least = over_least == 0.0f || other.over_least == 0.0f ? 0.0f : std::max(over_least, other.over_least);
      most_bias = std::max(most_bias, other.most_bias);
    }
  };

  static size_t at(int32_t i) { return static_cast<size_t>(i); }
  static ScanSettings checked(const ScanSettings& s) {
    if (s.checks < 1) throw std::invalid_argument("checks: expected at least 1, got " + std::to_string(s.checks));
    return s;
  }
  static bool is_hidden(const uint64_t* hidden, int32_t row) {
    return hidden != nullptr && (hidden[at(row) / 64] >> (row % 64) & 1) != 0;
  }
  static std::vector<Head>& scratch_heads(Scratch& scratch, int heads) {
    if (scratch.heads.size() < at(heads)) scratch.heads.resize(at(heads));
    return scratch.heads;
  }

  size_t block_bytes() const { return 4 * quarter_bytes(); }
  size_t quarter_bytes() const { return at(codes_.planes()) * kPlaneBytes; }
  // Where the four bytes of a word in its first plane lie; those in the next are kPlaneBytes further on.
  uint8_t* code_at(int32_t place) {
    return blocks_.get() + at(place / kQuarterWords) * quarter_bytes() + at(4 * (place % kQuarterWords));
  }
  void move_code(int32_t from, int32_t to) {
    const uint8_t* source = code_at(from);
    uint8_t* target = code_at(to);
    for (int32_t p = 0; p < codes_.planes(); ++p) std::memcpy(target + p * kPlaneBytes, source + p * kPlaneBytes, 4);
  }

  // The number of the row's place, after the last one.
  int32_t push(int32_t row) {
    const int32_t place = size();
    if (place % kBlockWords == 0) {
      reserve(bounds_.size() + 1);
      bounds_.push_back({});
    }
    places_.insert(row, place);
    entries_.push_back({row, 0.0f});
    biases_.push_back(0.0f);
    return place;
  }

  void reserve(size_t blocks) {
    if (blocks <= reserved_) return;
    const size_t wanted = std::max(blocks, 2 * reserved_);
    auto larger = aligned_array<uint8_t>(wanted * block_bytes());
    // What lies beyond the last word is summed too, and not used.
    std::fill_n(larger.get(), wanted * block_bytes(), uint8_t{0});
    if (reserved_ > 0) std::copy_n(blocks_.get(), reserved_ * block_bytes(), larger.get());
    blocks_ = std::move(larger);
    reserved_ = wanted;
  }

  void encode(int32_t place, const float* word, float* work, uint8_t* code) {
    const WordCodes::Coded made = codes_.encode(word, code, work);
    uint8_t* target = code_at(place);
    for (int32_t p = 0; p < codes_.planes(); ++p, code += kPlaneComponents, target += kPlaneBytes)
      for (int32_t j = 0; j < 4; ++j) target[j] = static_cast<uint8_t>(code[j] | code[4 + j] << 4);
    entries_[at(place)].factor = made.factor;
    biases_[at(place)] = settings_.by_distance ? -0.5f * made.square : made.shift;
  }

  void encode_all(int threads) {
    parallel_parts(size(), threads, [&](int32_t begin, int32_t end) {
      std::vector<float> word(at(word_size_)), work(at(codes_.room()));
      std::vector<uint8_t> code(at(codes_.components()));
      for (int32_t place = begin; place < end; ++place) {
        source_->fetch(entries_[at(place)].row, word.data());
        check_word(entries_[at(place)].row, word.data());
        encode(place, word.data(), work.data(), code.data());
      }
    });
    for (size_t block = 0; block < bounds_.size(); ++block) note_bounds(static_cast<int32_t>(block));
  }

  void note_bounds(int32_t block) {
    const int32_t begin = block * kBlockWords, end = std::min(begin + kBlockWords, size());
    if (begin >= end) return;
    float most = entries_[at(begin)].factor, least = most, bias = biases_[at(begin)];
    for (int32_t i = begin + 1; i < end; ++i) {
      most = std::max(most, entries_[at(i)].factor);
      least = std::min(least, entries_[at(i)].factor);
      bias = std::max(bias, biases_[at(i)]);
    }
    bounds_[at(block)] = {most > 0.0f ? 1.0f / most : 0.0f, least > 0.0f ? 1.0f / least : 0.0f, bias};
  }

  // Offers the words of every so many blocks to the heads.
  void scan(Head* asked, int heads, Scratch& scratch, int32_t every, const uint64_t* hidden) const {
    const SumBlock sum = sum_block();
    const int32_t blocks = static_cast<int32_t>(bounds_.size());
    int32_t* least = scratch.least.data();
    for (int32_t from = 0; from < blocks; from += kAtOnce * every) {
      const int32_t to = std::min(blocks, from + kAtOnce * every);
      Bounds b = bounds_[at(from)];
      for (int32_t block = from + every; block < to; block += every) b.include(bounds_[at(block)]);
      for (int h = 0; h < heads; ++h) least[h] = least_sum(asked[h], b);
      for (int32_t block = from; block < to; block += every) {
        sum(blocks_.get() + at(block) * block_bytes(), codes_.planes(), heads, scratch.bytes.data(), least,
            scratch.sums.data(), scratch.lanes.data());
        for (int h = 0; h < heads; ++h) {
          const uint64_t lanes = scratch.lanes[at(h)] & filled(block);
          if (lanes != 0) note(asked[h], block, lanes, scratch.sums.data() + h * kBlockWords, hidden);
        }
      }
    }
    for (int h = 0; h < heads; ++h) take_noted(asked[h], hidden);
  }

  // The least sum with which a word of a block could be taken.
  static int32_t least_sum(const Head& head, const Bounds& b) {
    const float wanted = head.worst() - b.most_bias;
    const float over = wanted > 0.0f ? b.over_most : b.over_least;
    if (over == 0.0f) return std::numeric_limits<int32_t>::min() + 1;
    // Rounding must not lose a word: 2 is more than it can amount to in sums of 16 bits.
    const float sum = (wanted * over - head.base) * head.over_unit - 2.0f;
    return static_cast<int32_t>(std::min(std::max(sum, -1e5f), 1e5f));
  }

  void note(Head& head, int32_t block, uint64_t lanes, const int32_t* sums, const uint64_t* hidden) const {
    if (head.noted_count > Head::kNoted - kBlockWords) take_noted(head, hidden);
    for (; lanes != 0; lanes &= lanes - 1) {
      const int32_t lane = std::countr_zero(lanes), place = block * kBlockWords + lane;
      head.noted[head.noted_count++] = {place, sums[lane]};
      __builtin_prefetch(&entries_[at(place)]);
    }
    if (head.worst() == -std::numeric_limits<float>::infinity()) take_noted(head, hidden);
  }

  void take_noted(Head& head, const uint64_t* hidden) const {
    const bool biased = settings_.by_distance || codes_.is_centred();
    for (int32_t i = 0; i < head.noted_count; ++i) {
      const auto [place, sum] = head.noted[i];
      const auto [row, factor] = entries_[at(place)];
      float score = factor * (head.unit * static_cast<float>(sum) + head.base);
      if (biased) score += biases_[at(place)];
      if (head.would_take(score, row) && !is_hidden(hidden, row)) head.take(score, row);
    }
    head.noted_count = 0;
  }

  uint64_t filled(int32_t block) const {
    const int32_t here = size() - block * kBlockWords;
    return here >= kBlockWords ? ~uint64_t{0} : (uint64_t{1} << here) - 1;
  }

  ScanSettings settings_;
  WordCodes codes_;
  SampleCentre centre_;
  RowMap places_;
  std::vector<Entry> entries_;  // by place
  std::vector<float> biases_;   // by place
  std::vector<Bounds> bounds_;  // of each block
  Aligned<uint8_t> blocks_;
  size_t reserved_ = 0;         // blocks there is room for
  std::vector<float> work_;
  std::vector<uint8_t> code_;
};

}  // namespace sparsam::SPARSAM_ISA
