// What every approximate index is to the engine: it proposes rows, the engine scores them exactly.
//
// An index holds row numbers and structure, never words. The engine keeps it in step with the memory: it writes the
// memory first, then tells the index (insert, update, remove). Between two such calls an index may read any indexed
// word through its WordSource; a word that changed and was not announced yet costs recall, never correctness.
//
// A further kind of index is one class: derive from CandidateIndex and implement the pure functions, whose arguments
// have been checked. If what it proposes depends on rows, words, settings and query alone, it says so in is_value(). If
// not, it is rebuilt after every `capacity` insertions, and the engine builds it anew wherever the past must not show
// (memory_index.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory/row_set.h"
#include "support/interrupt.h"
#include "support/parallel.h"

namespace sparsam {

// What takes as long as many steps is worth doing at the start of a call of so many, not of a shorter one.
constexpr int64_t kStepsOfALongCall = 2048;

// Where an index reads words from, as the similarity sees them: unit length for cosine, as stored otherwise.
struct WordSource {
  virtual ~WordSource() = default;
  virtual void fetch(int32_t row, float* out) const = 0;
};

class CandidateIndex {
 public:
  CandidateIndex(int32_t capacity, int32_t word_size) : capacity_(capacity), word_size_(word_size) {
    if (capacity < 1) throw std::invalid_argument("capacity: expected at least 1, got " + std::to_string(capacity));
    if (word_size < 1) throw std::invalid_argument("word_size: expected at least 1, got " + std::to_string(word_size));
  }
  virtual ~CandidateIndex() = default;
  CandidateIndex(const CandidateIndex&) = delete;
  CandidateIndex& operator=(const CandidateIndex&) = delete;

  void insert(int32_t row, const float* word) {  // std::logic_error when the row is present
    check_absent(row, contains(checked(row)));
    check_word(row, word);
    check_source();
    put(row, word);
    count_insertion();
  }
  void remove(int32_t row) {  // std::logic_error when it is not; needs no word
    check_present(row);
    take(row);
  }
  void update(int32_t row, const float* word) {  // the row is present and its word has changed
    check_present(row);
    check_word(row, word);
    check_source();
    replace(row, word);
    count_insertion();
  }
  virtual bool contains(int32_t row) const = 0;
  virtual int32_t size() const = 0;
  virtual void clear() = 0;

  // Distinct indexed rows, at most max_candidates() of them, in an order that equal calls on equal indexes share; all
  // rows when there are no more. There may be fewer although more are indexed, never none unless the index is empty.
  virtual int32_t max_candidates() const = 0;
  int32_t query(const float* query, int32_t* out) const {
    int32_t count = 0;
    query_all(query, 1, out, max_candidates(), &count, nullptr);
    if (is_value()) std::sort(out, out + count);
    return count;
  }
  // The same for several queries, one after the other in memory: those of head h to out + h * stride, in any order, their
  // number to counts[h]; without the rows of which the bit is set in `hidden`, where that is not null.
  virtual void query_all(const float* queries, int heads, int32_t* out, int32_t stride, int32_t* counts,
                         const uint64_t* hidden) const {
    for (int h = 0; h < heads; ++h) {
      int32_t* found = out + h * stride;
      const int32_t n = propose(queries + h * word_size_, found);
      counts[h] = hidden == nullptr ? n : drop_hidden(found, n, hidden);
    }
  }

  // Does what is proposed depend on rows, words, settings and query alone, and not on how the index came to hold them?
  virtual bool is_value() const { return false; }
  // After changes and before queries: what is cheaper to put right once than at each change.
  virtual void settle(int threads) { (void)threads; }
  // A call of the engine begins, of so many steps. From here on what is proposed may depend on the words of this moment,
  // on the number of steps and on all that comes after, but on nothing that was before.
  virtual void start(int64_t steps, int threads) {
    (void)steps;
    settle(threads);
  }

  // All indexed rows, in no particular order.
  virtual void rows(std::vector<int32_t>& out) const = 0;

  // Forgets everything and indexes these rows, words read from the source, with up to `threads` threads.
  // The result does not depend on the number of threads.
  void build(const int32_t* rows, int32_t n, int threads) {
    check_source();
    RowSet seen(capacity_);
    for (int32_t i = 0; i < n; ++i) {
      check_absent(rows[i], seen.contains(checked(rows[i])));
      seen.insert(rows[i]);
    }
    clear();
    try {
      fill(rows, n, threads);
    } catch (...) {
      clear();
      throw;
    }
  }

  // The index will be asked and not changed any more, until it is cleared: what makes queries faster at the price of
  // changes. Words are read from the source. The result does not depend on the number of threads.
  virtual void freeze(int threads) { (void)threads; }

  void bind(const WordSource* source) { source_ = source; }

  virtual size_t bytes() const = 0;  // in use, not address space

  int32_t capacity() const { return capacity_; }
  int32_t word_size() const { return word_size_; }
  int64_t rebuilds() const { return rebuilds_; }

 protected:
  static size_t at(int32_t i) { return static_cast<size_t>(i); }

  virtual void put(int32_t row, const float* word) = 0;
  virtual void take(int32_t row) = 0;
  virtual void replace(int32_t row, const float* word) = 0;
  // What `build` asks for, of an empty index and distinct rows.
  virtual void fill(const int32_t* rows, int32_t n, int threads) = 0;
  virtual int32_t propose(const float* query, int32_t* out) const {  // of one query, unless there is a query_all
    (void)query, (void)out;
    return 0;
  }

  // What a query needs besides the index, which may be asked by several threads at a time: one of a kind in each of them.
  template <class Scratch>
  static Scratch& own_scratch() {
    static thread_local Scratch scratch;
    return scratch;
  }

  // Calls use(i, word of rows[i]) with up to `threads` threads, each with the `use` that `make()` gives it.
  template <class Make>
  void fetch_all(const int32_t* rows, int32_t n, int threads, const Make& make) const {
    parallel_parts(n, threads, [&](int32_t begin, int32_t end) {
      std::vector<float> word(static_cast<size_t>(word_size_));
      auto use = make();
      for (int32_t i = begin; i < end; ++i) {
        if (i % 1024 == 0) check_interrupt();
        source_->fetch(rows[i], word.data());
        check_word(rows[i], word.data());
        use(i, word.data());
      }
    });
  }

  // Incremental changes wear a structure down; after `capacity` of them it is made anew.
  void count_insertion() {
    if (is_value() || ++insertions_ < capacity_) return;
    std::vector<int32_t> present;
    rows(present);
    build(present.data(), static_cast<int32_t>(present.size()), 1);
    insertions_ = 0;
    ++rebuilds_;
  }

  // Returns how many of these rows are left.
  static int32_t drop_hidden(int32_t* rows, int32_t n, const uint64_t* hidden) {
    const auto is_hidden = [&](int32_t row) { return (hidden[static_cast<size_t>(row) / 64] >> (row % 64) & 1) != 0; };
    return static_cast<int32_t>(std::remove_if(rows, rows + n, is_hidden) - rows);
  }

  int32_t checked(int32_t row) const {
    if (row < 0 || row >= capacity_)
      throw std::invalid_argument("row: expected one of 0.." + std::to_string(capacity_ - 1) + ", got " +
                                  std::to_string(row));
    return row;
  }

  static void check_absent(int32_t row, bool present) {
    if (present) throw std::logic_error("row: expected one that is not in the index, got " + std::to_string(row));
  }

  void check_present(int32_t row) const {
    if (!contains(checked(row)))
      throw std::logic_error("row: expected one that is in the index, got " + std::to_string(row));
  }

  // Neither a hash nor a split can place a word that is not finite. Integer compare: it vectorises without -ffast-math.
  void check_word(int32_t row, const float* word) const {
    uint32_t bad = 0;
    for (int32_t i = 0; i < word_size_; ++i) {
      uint32_t bits;
      std::memcpy(&bits, word + i, sizeof bits);
      bad |= static_cast<uint32_t>((bits & 0x7f800000u) == 0x7f800000u);
    }
    if (bad) throw std::invalid_argument("word: expected finite numbers, got NaN or infinity in row " + std::to_string(row));
  }

  void check_source() const {
    if (source_ == nullptr) throw std::logic_error("the index is not bound to a memory");
  }

  int32_t capacity_;
  int32_t word_size_;
  const WordSource* source_ = nullptr;
  int64_t insertions_ = 0;  // since the last build
  int64_t rebuilds_ = 0;
};

}  // namespace sparsam
