// Words in four bits a component, one after the other in whole blocks, with what a sum makes a score of.
//
// A place is a word's number in the list. Removing one moves the last word to its place, so places say nothing about rows.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "index/word_codes.h"
#include "support/aligned.h"
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
  Aligned<uint8_t> blocks_;
  size_t reserved_ = 0;  // blocks there is room for
};

}  // namespace sparsam::SPARSAM_ISA
