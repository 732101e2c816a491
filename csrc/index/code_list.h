// Words in four bits a component, one after the other in whole blocks, with what a sum makes a score of.
//
// A place is a word's number in the list. Removing one moves the last word to its place, so places say nothing about rows.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "index/candidate_index.h"
#include "index/cells.h"
#include "index/word_codes.h"
#include "support/recycled.h"
#include "support/row_map.h"

namespace sparsam::SPARSAM_ISA {

class CodeList {
 public:
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

  CodeList(int32_t word_size, uint64_t seed) : codes_(word_size, seed) {}
  explicit CodeList(const WordCodes& codes) : codes_(codes) {}  // an empty one

  const WordCodes& codes() const { return codes_; }
  void set_centre(const float* centre) { codes_.set_centre(centre); }  // of what is coded from now on

  int32_t size() const { return static_cast<int32_t>(rows_.size()); }
  int32_t blocks() const { return static_cast<int32_t>(bounds_.size()); }
  const std::vector<int32_t>& rows() const { return rows_; }  // by place
  int32_t find(int32_t row) const { return places_.find(row); }
  const Bounds& bounds(int32_t block) const { return bounds_[at(block)]; }
  CodedQuarters quarters(int32_t first, int32_t count) const {
    const int32_t place = first * kQuarterWords;
    return {codes_at(first), codes_.planes(), factors_.data() + place, biases_.data() + place, place, count};
  }
  // Words that are going to be read, the first of them at least.
  void prefetch(int32_t begin, int32_t end) const {
    constexpr int32_t kMost = 4;  // quarters
    const int32_t first = begin / kQuarterWords, last = std::min((end - 1) / kQuarterWords, first + kMost - 1);
    const size_t bytes = at(last - first + 1) * quarter_bytes();
    for (size_t line = 0; line < bytes; line += 64) __builtin_prefetch(codes_at(first) + line);
    __builtin_prefetch(bounds_.data() + begin / kBlockWords);
  }

  // The row's place, after the last one; it has no code yet.
  int32_t push(int32_t row) {
    const int32_t place = size();
    if (place % kBlockWords == 0) {
      reserve(bounds_.size() + 1);
      bounds_.push_back({});
      resize_factors();
    }
    places_.insert(row, place);
    rows_.push_back(row);
    return place;
  }

  void remove(int32_t place) {
    const int32_t last = size() - 1;
    places_.erase(rows_[at(place)]);
    if (place != last) {
      copy_code(blocks_.get(), last, place);
      rows_[at(place)] = rows_[at(last)];
      factors_[at(place)] = factors_[at(last)];
      biases_[at(place)] = biases_[at(last)];
      places_.move(rows_[at(place)], place);
    }
    rows_.pop_back();
    note_bounds(place / kBlockWords);
    if (last % kBlockWords != 0) return;
    bounds_.pop_back();
    resize_factors();
  }

  void clear() {
    places_.clear();
    rows_.clear();
    factors_.clear();
    biases_.clear();
    bounds_.clear();
  }

  // `work` and `code` have room for what coding needs. Bounds have to be noted afterwards.
  void encode(int32_t place, const float* word, bool by_distance, float* work, uint8_t* code) {
    const WordCodes::Coded made = codes_.encode(word, code, work);
    uint8_t* target = code_at(blocks_.get(), place);
    for (int32_t p = 0; p < codes_.planes(); ++p, code += kPlaneComponents, target += kPlaneBytes)
      for (int32_t j = 0; j < 4; ++j) target[j] = static_cast<uint8_t>(code[j] | code[4 + j] << 4);
    factors_[at(place)] = made.factor;
    biases_[at(place)] = by_distance ? -0.5f * made.square : made.shift;
  }

  void note_bounds(int32_t block) {
    const int32_t begin = block * kBlockWords, end = std::min(begin + kBlockWords, size());
    if (begin >= end) return;
    float most = factors_[at(begin)], least = most, bias = biases_[at(begin)];
    for (int32_t i = begin + 1; i < end; ++i) {
      most = std::max(most, factors_[at(i)]);
      least = std::min(least, factors_[at(i)]);
      bias = std::max(bias, biases_[at(i)]);
    }
    bounds_[at(block)] = {most > 0.0f ? 1.0f / most : 0.0f, least > 0.0f ? 1.0f / least : 0.0f, bias};
  }
  void note_all_bounds() {
    for (int32_t block = 0; block < blocks(); ++block) note_bounds(block);
  }

  // Puts at place i the word that is at place order[i], here or, when that is not less than size(), in another list.
  void join(const CodeList& other, const std::vector<int32_t>& order) {
    CodeList all(codes_);
    all.reserve((order.size() + kBlockWords - 1) / kBlockWords);
    for (size_t i = 0; i < order.size(); ++i) {
      const CodeList& source = order[i] < size() ? *this : other;
      const int32_t from = order[i] < size() ? order[i] : order[i] - size();
      const int32_t to = all.push(source.rows_[at(from)]);
      all.copy_code(source.blocks_.get(), from, to);
      all.factors_[at(to)] = source.factors_[at(from)];
      all.biases_[at(to)] = source.biases_[at(from)];
    }
    all.note_all_bounds();
    std::swap(places_, all.places_);
    rows_.swap(all.rows_);
    factors_.swap(all.factors_);
    biases_.swap(all.biases_);
    bounds_.swap(all.bounds_);
    std::swap(blocks_, all.blocks_);
    std::swap(reserved_, all.reserved_);
  }

  size_t bytes() const {
    return bounds_.size() * (block_bytes() + sizeof(Bounds)) + rows_.size() * sizeof(int32_t) +
           (factors_.size() + biases_.size()) * sizeof(float) + places_.bytes() + codes_.bytes();
  }

 private:
  static size_t at(int32_t i) { return static_cast<size_t>(i); }
  size_t quarter_bytes() const { return at(codes_.planes()) * kPlaneBytes; }
  size_t block_bytes() const { return 4 * quarter_bytes(); }
  const uint8_t* codes_at(int32_t quarter) const { return blocks_.get() + at(quarter) * quarter_bytes(); }
  // Where the four bytes of a word in its first plane lie; those in the next are kPlaneBytes further on.
  template <class Byte>
  Byte* code_at(Byte* blocks, int32_t place) const {
    return blocks + at(place / kQuarterWords) * quarter_bytes() + at(4 * (place % kQuarterWords));
  }
  void copy_code(const uint8_t* blocks, int32_t from, int32_t to) {
    const uint8_t* source = code_at(blocks, from);
    uint8_t* target = code_at(blocks_.get(), to);
    for (int32_t p = 0; p < codes_.planes(); ++p) std::memcpy(target + p * kPlaneBytes, source + p * kPlaneBytes, 4);
  }
  void resize_factors() {
    factors_.resize(bounds_.size() * kBlockWords);
    biases_.resize(bounds_.size() * kBlockWords);
  }

  void reserve(size_t blocks) {
    if (blocks <= reserved_) return;
    const size_t wanted = std::max(blocks, 2 * reserved_);
    auto larger = dense_array<uint8_t>(wanted * block_bytes());
    // What lies beyond the last word is summed too, and not used.
    std::fill_n(larger.get(), wanted * block_bytes(), uint8_t{0});
    if (reserved_ > 0) std::copy_n(blocks_.get(), reserved_ * block_bytes(), larger.get());
    blocks_ = std::move(larger);
    reserved_ = wanted;
  }

  WordCodes codes_;
  RowMap places_;
  std::vector<int32_t> rows_;   // by place
  std::vector<float> factors_;  // by place, with room for whole blocks, as the next
  std::vector<float> biases_;
  std::vector<Bounds> bounds_;  // of each block
  Recycled<uint8_t> blocks_;
  size_t reserved_ = 0;  // blocks there is room for
};

// Reads a list of codes for queries: all of it, or some parts, offering every word to the best so far.
class CodeReader {
 public:
  // Words whose bit is set in `hidden_rows` (by row) or `hidden_places` (by place) are passed over; either may be null.
  CodeReader(const CodeList& list, const uint64_t* hidden_rows, const uint64_t* hidden_places)
      : list_(list), hidden_rows_(hidden_rows), hidden_places_(hidden_places) {}

  static bool is_set(const uint64_t* bits, int32_t i) {
    return bits != nullptr && (bits[static_cast<size_t>(i) / 64] >> (i % 64) & 1) != 0;
  }

  // Offers the words of one in `every` stretches of blocks to the heads; shorter stretches where not all are asked for.
  // `queries` are the heads' in 8 bits, one after the other.
  void scan(BestCodes* best, int heads, const int8_t* queries, int32_t every) const {
    const NoteScores note = note_scores();
    const int32_t blocks = list_.blocks(), stretch = every == 1 ? kAtOnce : 1;
    std::vector<int32_t> least(static_cast<size_t>(heads));
    for (int32_t from = 0; from < blocks; from += stretch * every) {
      const int32_t to = std::min(blocks, from + stretch);
      CodeList::Bounds b = list_.bounds(from);
      for (int32_t block = from + 1; block < to; ++block) b.include(list_.bounds(block));
      for (int h = 0; h < heads; ++h) least[h] = least_sum(best[h], b);
      note(list_.quarters(4 * from, 4 * (to - from)), heads, queries, least.data(), best);
      for (int h = 0; h < heads; ++h)
        if (best[h].noted_count > BestCodes::kNoted - kAtOnce * kBlockWords || !best[h].has_bound()) take_noted(best[h]);
    }
    for (int h = 0; h < heads; ++h) take_noted(best[h]);
  }

  // Offers the words of some parts to one head, whose query in 8 bits is `bytes`.
  void read(BestCodes& head, const Cells::Part* parts, int32_t count, const int8_t* bytes) const {
    constexpr int32_t kAhead = 6;  // parts on their way from memory
    const NoteScores note = note_scores();
    for (int32_t i = 0; i < count; ++i) {
      if (i + kAhead < count) list_.prefetch(parts[i + kAhead].begin, parts[i + kAhead].end);
      const int32_t last = (parts[i].end + kQuarterWords - 1) / kQuarterWords;
      for (int32_t quarter = parts[i].begin / kQuarterWords; quarter < last; quarter += 4 * kAtOnce) {
        const int32_t before = head.noted_count, quarters = std::min(4 * kAtOnce, last - quarter);
        CodeList::Bounds b = list_.bounds(quarter / 4);
        for (int32_t block = quarter / 4 + 1; block <= (quarter + quarters - 1) / 4; ++block) b.include(list_.bounds(block));
        const int32_t least = least_sum(head, b);
        note(list_.quarters(quarter, quarters), 1, bytes, &least, &head);
        drop_others(head, before, parts[i]);
        if (head.noted_count > BestCodes::kNoted - kAtOnce * kBlockWords) take_noted(head);
      }
    }
    take_noted(head);
  }

 private:
  static constexpr int32_t kAtOnce = 16;  // blocks that share a bound

  // The first and the last quarter of a part have words of others, which were noted since there were `before`.
  static void drop_others(BestCodes& head, int32_t before, const Cells::Part& part) {
    int32_t end = head.noted_count, begin = before;
    while (end > before && head.noted_places[end - 1] >= part.end) --end;
    while (begin < end && head.noted_places[begin] < part.begin) ++begin;
    if (begin > before) {
      std::copy(head.noted_places + begin, head.noted_places + end, head.noted_places + before);
      std::copy(head.noted_scores + begin, head.noted_scores + end, head.noted_scores + before);
    }
    head.noted_count = before + end - begin;
  }

  // The least sum with which a word of a block could be taken.
  static int32_t least_sum(const BestCodes& head, const CodeList::Bounds& b) {
    const float wanted = head.worst() - b.most_bias;
    const float over = wanted > 0.0f ? b.over_most : b.over_least;
    if (over == 0.0f) return std::numeric_limits<int32_t>::min() + 1;
    // Rounding must not lose a word: 2 is more than it can amount to in sums of 16 bits.
    const float sum = (wanted * over - head.base) * head.over_unit - 2.0f;
    return static_cast<int32_t>(std::min(std::max(sum, -1e5f), 1e5f));
  }

  void take_noted(BestCodes& head) const {
    const int32_t* rows = list_.rows().data();
    for (int32_t i = 0; i < head.noted_count; ++i) __builtin_prefetch(rows + head.noted_places[i]);
    for (int32_t i = 0; i < head.noted_count; ++i) {
      const int32_t place = head.noted_places[i];
      if (place >= list_.size()) break;  // what lies beyond the last word
      const float score = head.noted_scores[i];
      if (head.would_take(score, rows[place]) && !is_set(hidden_rows_, rows[place]) && !is_set(hidden_places_, place))
        head.take(score, rows[place]);
    }
    head.noted_count = 0;
  }

  const CodeList& list_;
  const uint64_t* hidden_rows_;
  const uint64_t* hidden_places_;
};

}  // namespace sparsam::SPARSAM_ISA
