// The words of one batch element: N rows of W numbers in one buffer that is written in place.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "memory/saved.h"
#include "memory/shape.h"
#include "support/interrupt.h"
#include "support/lazy_array.h"
#include "support/recycled.h"
#include "support/row_map.h"

namespace sparsam {

// Rows are padded to whole cache lines, with zeros, so that kernels need no tails.
template <class T>
constexpr int32_t padded_width(int32_t width) {
  constexpr int32_t line = 64 / sizeof(T);
  return (width + line - 1) / line * line;
}

template <class T>
T word_norm(const T* word, int32_t width) {
  T sum = 0;
  for (int32_t j = 0; j < width; ++j) sum += word[j] * word[j];
  return std::sqrt(sum);
}

// A coarse copy of the words that an episode has written: 8 bits a number, in column order. Exact search looks there
// first and leaves alone what cannot be among the best (index/coarse_scan.h).
//
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

// An index over words, which lives and dies with them. The layer above makes it and knows what it is.
struct WordIndex {
  virtual ~WordIndex() = default;
};

// A starting memory given by the user, shared by every episode and batch element that begins from it.
template <class T>
struct InitialWords {
  InitialWords(const T* words, int32_t rows, int32_t width)
      : rows(rows), width(width), words(size_t(rows) * padded_width<T>(width)), norms(size_t(rows)) {
    this->words.expect_dense();
    norms.expect_dense();
    const int32_t stride = padded_width<T>(width);
    for (int32_t row = 0; row < rows; ++row) {
      if (row % 4096 == 0) check_interrupt();
      std::memcpy(&this->words[size_t(row) * stride], words + size_t(row) * width, sizeof(T) * width);
      norms[row] = word_norm(words + size_t(row) * width, width);
    }
  }
  const T* word(int32_t row) const { return words.data() + size_t(row) * padded_width<T>(width); }
  const T& norm(int32_t row) const { return norms[row]; }
  bool equals(const T* others) const {
    for (int32_t row = 0; row < rows; ++row)
      if (std::memcmp(word(row), others + size_t(row) * width, sizeof(T) * width) != 0) return false;
    return true;
  }
  int32_t rows, width;
  LazyArray<T> words, norms;
  mutable std::mutex lock;
  mutable std::vector<std::shared_ptr<const WordIndex>> indexes;  // over these words, each made when first asked for
};

template <class T>
class WordJournal;

// Without a starting memory a row's word lies at its row number. With one, the words that were written lie apart, in
// the order of their first write, and all others are read where every element of the batch reads them.
template <class T>
class Memory {
 public:
  using Journal = WordJournal<T>;

  Memory(int32_t rows, int32_t width, std::shared_ptr<const InitialWords<T>> initial = nullptr)
      : rows_(rows),
        width_(width),
        stride_(padded_width<T>(width)),
        initial_(std::move(initial)),
        words_(size_t(rows) * stride_),
        norms_(size_t(rows)),
        marks_(static_cast<size_t>(rows)),
        coarse_(padded_width<float>(width)) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {  // an episode that wrote little leaves its arrays to the next, blank again
    const size_t touched = written_.size() * stride_ * sizeof(T);
    if (touched > ZeroedPool::kMostTouched) return;
    take_stale();
    for (size_t i = 0; i < written_.size(); ++i) {
      const size_t at = initial_ ? i : size_t(written_[i]);
      std::memset(words_.data() + at * stride_, 0, sizeof(T) * stride_);
      norms_[at] = 0;
      marks_[written_[i]] = {};
    }
    words_.recycle(touched);
    norms_.recycle(touched);
    marks_.recycle(touched);
  }

  int32_t rows() const { return rows_; }
  int32_t width() const { return width_; }
  int32_t stride() const { return stride_; }
  const T* word(int32_t row) const {
    if (initial_ == nullptr) return words_.data() + size_t(row) * stride_;
    const int32_t place = places_.find(row);
    return place >= 0 ? words_.data() + size_t(place) * stride_ : initial_->word(row);
  }
  const T& norm(int32_t row) const {
    if (initial_ == nullptr) return norms_[row];
    const int32_t place = places_.find(row);
    return place >= 0 ? norms_[place] : initial_->norm(row);
  }
  // To be written to: the row is marked as written.
  T* word(int32_t row) { return const_cast<T*>(std::as_const(*this).word(row)); }
  T& norm(int32_t row) { return const_cast<T&>(std::as_const(*this).norm(row)); }

  // Whatever was added to a word, the numbers beyond its width are zero again: 0 times NaN is not.
  void clear_padding(int32_t row) {
    if (stride_ != width_) std::memset(word(row) + width_, 0, sizeof(T) * (stride_ - width_));
  }

  // Prefetch a word that is likely to be read soon and was probably not written lately.
  void prefetch(int32_t row) const {
    const T* at = initial_ ? initial_->word(row) : words_.data() + size_t(row) * stride_;
    for (int32_t j = 0; j < stride_; j += 64 / sizeof(T)) __builtin_prefetch(at + j);
    __builtin_prefetch(initial_ ? &initial_->norm(row) : &norms_[row]);
  }

  // Rows that an episode has written, in the order of their first write.
  const std::vector<int32_t>& written() const { return written_; }
  bool is_written(int32_t row) const { return (marks_[row].flags & kWritten) != 0; }
  void mark_written(int32_t row) {
    if (is_written(row)) return;
    marks_[row].place = int32_t(written_.size());
    written_.push_back(row);
    marks_[row].flags |= kWritten;
    if (initial_) {
      const size_t place = written_.size() - 1;
      std::memcpy(words_.data() + place * stride_, initial_->word(row), sizeof(T) * stride_);
      norms_[place] = initial_->norm(row);
      places_.insert(row, int32_t(place));
    }
    while (first_blank_ < rows_ && is_written(first_blank_)) ++first_blank_;
  }
  // Remove the latest marks until `count` are left.
  void unmark_to(size_t count) {
    while (written_.size() > count) {
      const int32_t row = written_.back();
      if (initial_) {
        places_.erase(row);
        std::memset(words_.data() + (written_.size() - 1) * stride_, 0, sizeof(T) * stride_);
        norms_[written_.size() - 1] = 0;
      }
      written_.pop_back();
      marks_[row].flags &= ~(kWritten | kChanged);
      marks_[row].place = 0;  // the array is handed on as zero bytes
      if (row < first_blank_) first_blank_ = row;
    }
    coarse_.truncate(int64_t(count));
  }

  void copy_from(const Memory& other) {
    for (const int32_t row : other.written()) {
      mark_written(row);
      std::memcpy(word(row), other.word(row), sizeof(T) * stride_);
      norm(row) = other.norm(row);
    }
  }
  void save_to(SavedMemory<T>& saved) const {
    saved.rows.assign(written_.begin(), written_.end());
    saved.words.clear();
    for (const int32_t row : written_) saved.words.insert(saved.words.end(), word(row), word(row) + width_);
  }
  void restore(const SavedMemory<T>& saved, const WordNorm<T>& norm_of) {
    require_count("words", saved.words.size(), saved.rows.size() * width_);
    for (size_t i = 0; i < saved.rows.size(); ++i) {
      const int32_t row = saved_row("rows", saved.rows[i], rows_);
      if (is_written(row)) repeated_row("rows", row);
      mark_written(row);
      std::memcpy(word(row), saved.words.data() + i * width_, sizeof(T) * width_);
      norm(row) = norm_of(word(row), stride_);
    }
  }

  // For an index that follows the memory: the rows that a journal took back or applied again since they were taken.
  void follow(bool on) {
    take_stale();
    followed_ = on;
  }
  void note_swapped(int32_t row) {
    if (!followed_ || (marks_[row].flags & kStale) != 0) return;
    marks_[row].flags |= kStale;
    stale_.push_back(row);
  }
  std::vector<int32_t> take_stale() {
    for (const int32_t row : stale_) marks_[row].flags &= ~kStale;
    return std::exchange(stale_, {});
  }

  // The coarse copy of the written words for exact search, which brings it up to date itself: `each_changed` calls
  // f(place) for every word that was written since it was copied.
  CoarseWords& coarse() const { return coarse_; }
  void note_changed(int32_t row) {
    if (coarse_.size() == 0) return;
    Mark& mark = marks_[row];
    if (mark.place >= coarse_.size() || (mark.flags & (kWritten | kChanged)) != kWritten) return;
    mark.flags |= kChanged;
    changed_.push_back(row);
  }
  template <class F>
  void each_changed(const F& f) const {
    for (const int32_t row : changed_) {
      Mark& mark = marks_[row];
      if ((mark.flags & kChanged) != 0 && mark.place < coarse_.size()) f(mark.place);
      mark.flags &= ~kChanged;
    }
    changed_.clear();
  }
  // A journal goes over the words: following it row by row would cost every backward pass, where nothing is searched.
  void drop_coarse_words() {
    if (coarse_.size() == 0) return;
    each_changed([](int32_t) {});
    coarse_.truncate(0);
  }

  // With a starting memory every row may hold a word; without one, rows never written are all zero and alike.
  bool has_initial() const { return initial_ != nullptr; }
  const std::shared_ptr<const InitialWords<T>>& initial() const { return initial_; }
  int32_t first_blank() const { return first_blank_; }

 private:
  static constexpr uint32_t kWritten = 1, kStale = 2, kChanged = 4;
  struct Mark {
    uint32_t flags;
    int32_t place;  // of a written row in `written_`
  };

  int32_t rows_, width_, stride_;
  std::shared_ptr<const InitialWords<T>> initial_;
  LazyArray<T> words_;
  LazyArray<T> norms_;
  mutable LazyArray<Mark> marks_;
  RowMap places_;  // of written rows, with a starting memory
  std::vector<int32_t> written_;
  int32_t first_blank_ = 0;
  bool followed_ = false;
  std::vector<int32_t> stale_;
  mutable CoarseWords coarse_;
  mutable std::vector<int32_t> changed_;  // rows whose words differ from the coarse copy
};

// The words that a sequence overwrote, at most R(K+1) a step. Undoing a step swaps them with those in the memory, so
// that the same journal then holds what redoing needs.
template <class T>
class WordJournal {
 public:
  WordJournal(int64_t steps, const MemoryShape& shape)
      : steps_(steps),
        max_writes_(shape.max_writes()),
        width_(shape.width),
        block_(recycled_array<std::byte>(bytes())) {
    const int64_t writes = steps * max_writes_;
    words_ = reinterpret_cast<T*>(block_.get());
    norms_ = words_ + writes * width_;
    rows_ = reinterpret_cast<int32_t*>(norms_ + writes);
    heads_ = reinterpret_cast<Head*>(rows_ + writes);
  }

  size_t bytes() const { return steps_ * (sizeof(Head) + max_writes_ * (sizeof(int32_t) + sizeof(T) * (width_ + 1))); }

  void begin_step(const Memory<T>& memory) { heads_[size_++] = {0, int32_t(memory.written().size())}; }
  // Before a row is written for the first time in this step.
  void save(const Memory<T>& memory, int32_t row) {
    const int64_t at = (size_ - 1) * max_writes_ + heads_[size_ - 1].writes++;
    rows_[at] = row;
    const T* word = memory.word(row);
    T* to = words_ + at * width_;
    int32_t j = 0;  // a line at a time, whose size the compiler knows
    for (; j + kLine <= width_; j += kLine) std::memcpy(to + j, word + j, sizeof(T) * kLine);
    if (j < width_) std::memcpy(to + j, word + j, sizeof(T) * (width_ - j));
    norms_[at] = memory.norm(row);
  }

  // Ask for the words of a step that will be undone soon: they were put down long ago.
  void prefetch(int64_t step) const {
    if (step < 0) return;
    const T* from = words_ + step * max_writes_ * width_;
    for (int32_t j = 0; j < heads_[step].writes * width_; j += kLine) __builtin_prefetch(from + j, 1, 2);
  }
  void undo(Memory<T>& memory, int64_t step) {
    memory.drop_coarse_words();
    for (int32_t i = heads_[step].writes; i-- > 0;) swap_word(memory, step * max_writes_ + i);
    memory.unmark_to(heads_[step].written_before);
  }
  void redo(Memory<T>& memory, int64_t step) {
    memory.drop_coarse_words();
    for (int32_t i = 0; i < heads_[step].writes; ++i) {
      memory.mark_written(rows_[step * max_writes_ + i]);
      swap_word(memory, step * max_writes_ + i);
    }
  }

 private:
  static constexpr int32_t kLine = 64 / sizeof(T);
  struct Head {
    int32_t writes, written_before;
  };
  void swap_word(Memory<T>& memory, int64_t at) {
    T* word = memory.word(rows_[at]);
    T* old = words_ + at * width_;
    int32_t j = 0;
    for (; j + kLine <= width_; j += kLine) {
      T line[kLine];
      std::memcpy(line, word + j, sizeof(line));
      std::memcpy(word + j, old + j, sizeof(line));
      std::memcpy(old + j, line, sizeof(line));
    }
    for (; j < width_; ++j) std::swap(word[j], old[j]);
    std::swap(memory.norm(rows_[at]), norms_[at]);
    memory.note_swapped(rows_[at]);
  }

  int64_t steps_, size_ = 0;
  int32_t max_writes_, width_;
  Recycled<std::byte> block_;  // of all that follow: a journal of one step costs one allocation
  T *words_, *norms_;
  int32_t* rows_;
  Head* heads_;
};

}  // namespace sparsam
