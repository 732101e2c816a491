// Words in four bits a component, and what a query makes of them.
//
// A word is turned by a random rotation, relative to a centre, and each component becomes one of 16 multiples of the
// word's own step: c = -7.5, -6.5, ... 7.5. With the code c of v = word - centre goes the factor |v|^2 / (c, v), so that
// factor * (c, query) estimates (v, query) without bias (Gao and Long 2024, 'RaBitQ').
//
// Why four bits: words of a memory form crowds, the members of a crowd share their error, and so a whole crowd is
// mistaken for another. With two bits and eight times the candidates the four nearest of 150,000 words that a trained
// model wrote are found in 0.84 to 1.0 of the reads, depending on the head, with four bits in practically all
// (docs/notebook/search.md).
//
// A code depends on its word and the centre alone, never on what else was coded or when.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "index/code_block.h"
#include "index/projection.h"

namespace sparsam::SPARSAM_ISA {

class WordCodes {
 public:
  struct Coded {
    float factor;
    float square;  // |word - centre|^2
    float shift;   // (centre, word)
  };
  // factor * (unit * sum + base) estimates (word - centre, query - centre). Both are seen from the centre, because the
  // error goes with the length of both; what is left of (word, query) is the word's shift, and a constant.
  struct Query {
    float unit;
    float base;
    float constant;  // the same for all words
  };

  WordCodes(int32_t word_size, uint64_t seed)
      : word_size_(word_size), rotation_(word_size, word_size, seed),
        centre_(static_cast<size_t>(rotation_.padded()), 0.0f) {}

  int32_t planes() const { return (word_size_ + kPlaneComponents - 1) / kPlaneComponents; }
  int32_t components() const { return kPlaneComponents * planes(); }  // of a code; those past the word make no difference
  int32_t work_size() const { return rotation_.padded(); }                 // floats that coding needs to work in
  size_t bytes() const { return rotation_.bytes() + centre_.size() * sizeof(float); }

  void set_centre(const float* centre) {
    rotation_.project(centre, centre_.data());
  }

  // code[0, components()), one number of 0..15 each; `work` has work_size() floats.
  Coded encode(const float* word, uint8_t* code, float* work) const {
    rotation_.project(word, work);
    float square = 0.0f, shift = 0.0f;
    for (int32_t j = 0; j < rotation_.padded(); ++j) {
      shift += work[j] * centre_[static_cast<size_t>(j)];
      work[j] -= centre_[static_cast<size_t>(j)];
      square += work[j] * work[j];
    }
    if (!(square > kLeast && square < kMost)) {
      std::fill(code, code + components(), uint8_t{0});
      return {0.0f, std::min(square, kMost), shift};
    }
    const float steps = std::sqrt(static_cast<float>(word_size_) / square) / kStep;
    float along = 0.0f;
    for (int32_t j = 0; j < components(); ++j) {  // what lies past the word is zero times whatever
      const float x = std::min(std::max(work[j] * steps + 8.0f, 0.0f), 15.0f);
      code[j] = static_cast<uint8_t>(x);
      along += (static_cast<float>(code[j]) - 7.5f) * work[j];
    }
    return {square / along, square, shift};
  }

  // The query in 8 bits, components() of them.
  Query prepare(const float* query, int8_t* out, float* work) const {
    rotation_.project(query, work);
    float largest = 0.0f, total = 0.0f, constant = 0.0f;
    for (int32_t j = 0; j < rotation_.padded(); ++j) {
      constant += centre_[static_cast<size_t>(j)] * (work[j] - centre_[static_cast<size_t>(j)]);
      work[j] -= centre_[static_cast<size_t>(j)];
      largest = std::max(largest, std::abs(work[j]));
      total += std::abs(work[j]);
    }
    std::fill(out, out + components(), int8_t{0});
    if (!(total > kLeast && total < kMost)) return {0.0f, 0.0f, constant};  // nothing to tell words apart by
    // The sum of 15 times each component, rounded up, fits into 16 bits.
    const float scale = std::min(127.0f / largest, (32767.0f / 15.0f - static_cast<float>(components())) / total);
    int32_t sum = 0;
    for (int32_t j = 0; j < word_size_; ++j) {
      out[j] = static_cast<int8_t>(std::lrint(work[j] * scale));
      sum += out[j];
    }
    return {1.0f / scale, -7.5f * static_cast<float>(sum) / scale, constant};
  }

 private:
  static constexpr float kStep = 0.36f;  // of a word's root mean square: few components lie beyond eight of them
  static constexpr float kLeast = 1e-30f, kMost = 1e30f;  // squares outside: words that a float cannot compare

  int32_t word_size_;
  Projection rotation_;
  std::vector<float> centre_;  // rotated
};

}  // namespace sparsam::SPARSAM_ISA
