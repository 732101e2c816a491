// Rows and sketches of their words, 64 signs each or several times that, in one list that a query reads from end to end.
//
// While there are few words this is faster than choosing buckets: eight distances take about as many instructions as
// one step of a heap, and nothing is a cache miss. Insert and remove are O(1): the last entry fills the gap.
//
// 64 signs or more because the words of a memory in training have few effective dimensions: of 167 words of a copy sequence
// after 500 minibatches, the most similar one is among the 32 nearest by sketch in 0.76 of the queries with 32 signs,
// 0.90 with 64 and 0.94 with 128.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "index/candidate_index.h"
#include "support/row_map.h"

#if defined(__AVX512BW__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace sparsam::SPARSAM_ISA {

struct SketchScratch {
  std::vector<uint8_t> distances;
  std::vector<int32_t> edge;  // rows at the distance that only some of can be taken from
};

// With so many numbers of 64 signs to a sketch.
template <int kLongs = 1>
class SketchList {
 public:
  using Sketch = std::array<uint64_t, kLongs>;
  static_assert(kLongs >= 1 && kLongs <= 3);  // distances are kept in bytes, of which 255 is none

  int32_t size() const { return static_cast<int32_t>(rows_.size()); }
  bool contains(int32_t row) const { return places_.find(row) >= 0; }
  const std::vector<int32_t>& rows() const { return rows_; }
  size_t bytes() const { return rows_.size() * (sizeof(int32_t) + sizeof(Sketch)) + places_.bytes(); }

  void insert(int32_t row, const Sketch& sketch) {
    const int32_t place = size();
    rows_.push_back(row);
    places_.insert(row, place);
    if (sketches_.size() < rows_.size() * kLongs) sketches_.resize(sketches_.size() + kBlock * kLongs);
    set_at(place, sketch);
  }
  void set(int32_t row, const Sketch& sketch) { set_at(places_.find(row), sketch); }
  void set_at(int32_t place, const Sketch& sketch) {
    for (size_t l = 0; l < kLongs; ++l) sketches_[at(place, l)] = sketch[l];
  }
  // The last entry moves to the row's place.
  void remove(int32_t row) {
    const int32_t place = places_.find(row), last = size() - 1;
    places_.move(rows_.back(), place);
    places_.erase(row);
    rows_[static_cast<size_t>(place)] = rows_.back();
    for (size_t l = 0; l < kLongs; ++l) sketches_[at(place, l)] = sketches_[at(last, l)];
    rows_.pop_back();
  }
  void clear() {
    rows_.clear();
    places_.clear();
    sketches_.clear();
  }

  // The `limit` rows of least distance, in no order; the lowest where distances are equal.
  int32_t nearest(const Sketch& sketch, int32_t limit, SketchScratch& scratch, int32_t* out) const {
    auto& [distances, edge] = scratch;
    const size_t n = rows_.size();
    if (size() <= limit) {
      std::copy(rows_.begin(), rows_.end(), out);
      return size();
    }
    const size_t blocks = (n + kBlock - 1) / kBlock;
    distances.resize(blocks * kBlock);
    uint8_t* distance = distances.data();
    for (size_t i = 0; i < blocks * kBlock; i += kBlock) measure(sketches_.data() + i * kLongs, sketch, distance + i);
    std::memset(distance + n, 0xff, blocks * kBlock - n);
    // `limit` entries or more are within `far`, fewer than that within far - 1.
    int32_t far = 0, near_enough = 0;
    for (int32_t high = 64 * kLongs; far < high;) {
      const int32_t middle = (far + high) / 2, count = count_within(distance, blocks, middle);
      if (count >= limit) {
        high = middle;
      } else {
        far = middle + 1;
        near_enough = count;
      }
    }
    edge.clear();
    int32_t found = 0;
    for (size_t i = 0; i < blocks * kBlock; i += kBlock) {
      for (uint64_t some = within(distance + i, far); some != 0; some &= some - 1) {
        const size_t place = i + static_cast<size_t>(std::countr_zero(some));
        if (distance[place] == far)
          edge.push_back(rows_[place]);
        else
          out[found++] = rows_[place];
      }
    }
    const int32_t wanted = limit - near_enough;
    std::nth_element(edge.begin(), edge.begin() + (wanted - 1), edge.end());
    std::copy_n(edge.begin(), wanted, out + found);
    found += wanted;
    return found;
  }

 private:
  static constexpr size_t kBlock = 64;

  static size_t at(int32_t place, size_t l) {
    const auto i = static_cast<size_t>(place);
    return i / kBlock * kBlock * kLongs + l * kBlock + i % kBlock;
  }

  // Bits in which each of a block's sketches differs from the query's, in steps that vectorise on any machine.
  static void measure(const uint64_t* __restrict sketches, const Sketch& query, uint8_t* __restrict out) {
    for (size_t l = 0; l < kLongs; ++l, sketches += kBlock) {
      const uint64_t asked = query[l];
      for (size_t i = 0; i < kBlock; ++i) {
        uint64_t x = sketches[i] ^ asked;
        x = x - ((x >> 1) & 0x5555555555555555u);
        x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
        x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
        x = x + (x >> 8);
        x = x + (x >> 16);
        const auto bits = static_cast<uint8_t>((x + (x >> 32)) & 0x7fu);
        out[i] = l == 0 ? bits : static_cast<uint8_t>(out[i] + bits);
      }
    }
  }

  // Bit i is set where distance i of a block is at most `far`.
  static uint64_t within(const uint8_t* distance, int32_t far) {
#if defined(__AVX512BW__)
    return _mm512_cmple_epu8_mask(_mm512_loadu_si512(distance), _mm512_set1_epi8(static_cast<char>(far)));
#elif defined(__AVX2__)
    uint64_t bits = 0;
    const __m256i bound = _mm256_set1_epi8(static_cast<char>(far));
    for (int half = 0; half < 2; ++half) {
      const __m256i d = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(distance + 32 * half));
      const auto mask = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(d, bound), d)));
      bits |= static_cast<uint64_t>(mask) << (32 * half);
    }
    return bits;
#else
    uint64_t bits = 0;
    for (size_t i = 0; i < kBlock; ++i) bits |= static_cast<uint64_t>(distance[i] <= far) << i;
    return bits;
#endif
  }

  static int32_t count_within(const uint8_t* distance, size_t blocks, int32_t far) {
    int32_t count = 0;
    for (size_t i = 0; i < blocks; ++i) count += std::popcount(within(distance + i * kBlock, far));
    return count;
  }

  std::vector<int32_t> rows_;
  RowMap places_;
  std::vector<uint64_t> sketches_;  // [block][number of a sketch][entry of the block]
};

}  // namespace sparsam::SPARSAM_ISA
