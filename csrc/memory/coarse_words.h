// A coarse copy of the words that an episode has written: 8 bits a number, in column order. Exact search looks there
// first and leaves alone what cannot be among the best (index/coarse_scan.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "support/recycled.h"

namespace sparsam {

// Words by their place in the order of first writes, in blocks of 16. A block is a line for every four columns, which
// holds these of all 16 words, a line of scales (what one step of a word's codes stands for) and a line of errors (how
// far the coded word is from the word). It is a cache: a journal keeps nothing of it, and a memory that is never
// searched this way has none.
class CoarseWords {
 public:
  static constexpr int kWords = 16;
  static constexpr int32_t kMostColumns = 1024;  // products of codes stay exact in float32

  explicit CoarseWords(int32_t columns)
      : codes_bytes_(size_t(kWords) * columns), block_bytes_(codes_bytes_ + 2 * kWords * sizeof(float)) {}

  int64_t size() const { return size_; }
  void truncate(int64_t size) { size_ = std::min(size_, size); }
  // Room for so many words, to be filled in. Lanes past the end never come near any score.
  void grow(int64_t size) {
    const int64_t blocks = (size + kWords - 1) / kWords;
    if (blocks > capacity_) {
      const int64_t capacity = std::max<int64_t>(blocks, std::max<int64_t>(32, 2 * capacity_));
      Recycled<uint8_t> larger = recycled_array<uint8_t>(size_t(capacity) * block_bytes_);
      const size_t used = size_t((size_ + kWords - 1) / kWords) * block_bytes_;
      if (used > 0) std::memcpy(larger.get(), bytes_.get(), used);
      bytes_ = std::move(larger);
      capacity_ = capacity;
    }
    for (int64_t i = (size_ + kWords - 1) / kWords; i < blocks; ++i) {
      std::memset(block(i), 0, block_bytes_);
      std::fill_n(errors(i), kWords, -1e30f);
    }
    size_ = std::max(size_, size);
  }

  uint8_t* block(int64_t i) const { return bytes_.get() + size_t(i) * block_bytes_; }  // codes, a line per four columns
  float* scales(int64_t i) const { return reinterpret_cast<float*>(block(i) + codes_bytes_); }
  float* errors(int64_t i) const { return scales(i) + kWords; }

 private:
  size_t codes_bytes_, block_bytes_;
  int64_t size_ = 0, capacity_ = 0;  // of words, of blocks
  Recycled<uint8_t> bytes_;
};

}  // namespace sparsam
