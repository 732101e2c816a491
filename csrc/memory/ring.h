// Least-recently-accessed ring (supplementary A.3): a circular list of all rows, the least recently accessed first.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/saved.h"
#include "memory/shape.h"
#include "memory/step_records.h"
#include "support/lazy_array.h"

namespace sparsam {

class RingJournal;

// Links are stored as offsets from row order, so that zero bytes mean 'untouched' and a fresh ring costs nothing.
class Ring {
 public:
  using Journal = RingJournal;

  explicit Ring(int32_t rows) : rows_(rows), links_(static_cast<size_t>(rows)) {}

  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {  // links differ from row order only at moved rows, beside them, and at the two ends
    const std::vector<int32_t> moved = recency();
    const size_t touched = moved.size() * sizeof(Links);
    if (touched > ZeroedPool::kMostTouched) return;
    for (const int32_t row : moved) links_[row] = links_[successor(row)] = links_[predecessor(row)] = {};
    links_[0] = links_[rows_ - 1] = {};
    links_.recycle(touched);
  }

  int32_t rows() const { return rows_; }
  int32_t head() const { return head_; }
  int32_t next(int32_t row) const { return successor(row) + links_[row].next; }
  int32_t previous(int32_t row) const { return predecessor(row) + links_[row].previous; }

  // The first `count` rows in ring order.
  void first(int32_t count, int32_t* out) const {
    int32_t row = head_;
    for (int32_t i = 0; i < count; ++i, row = next(row)) out[i] = row;
  }

  // Make `row` the most recently accessed one. Returns what `undo` needs.
  int32_t move_to_back(int32_t row) {
    ++links_[row].moves;
    if (row == head_) {  // the ring is circular: the head goes to the back when the next row becomes the head
      head_ = next(row);
      return kWasHead;
    }
    const int32_t before = previous(row);
    if (next(row) != head_) {
      unlink(row);
      insert_after(previous(head_), row);
    }
    return before;
  }

  // Undo the latest `move_to_back(row)`, which returned `before`.
  void undo(int32_t row, int32_t before) {
    --links_[row].moves;
    if (before == kWasHead) {
      head_ = row;
    } else if (previous(row) != before) {
      unlink(row);
      insert_after(before, row);
    }
  }

  // The rows moved so far, least recently accessed first. Untouched rows keep row order and come before all of these,
  // so the list says everything about the ring: moving them in this order on a fresh ring gives it again.
  std::vector<int32_t> recency() const {
    std::vector<int32_t> rows;
    for (int32_t row = previous(head_), i = 0; i < rows_ && links_[row].moves > 0; row = previous(row), ++i)
      rows.push_back(row);
    return {rows.rbegin(), rows.rend()};
  }

  void copy_from(const Ring& other) {
    for (const int32_t row : other.recency()) move_to_back(row);
  }
  template <class T>
  void save_to(SavedMemory<T>& saved) const {
    const std::vector<int32_t> rows = recency();
    saved.recency.assign(rows.begin(), rows.end());
  }
  template <class T>
  void restore(const SavedMemory<T>& saved, const WordNorm<T>&) {
    for (const int64_t at : saved.recency) {
      const int32_t row = saved_row("recency", at, rows_);
      if (links_[row].moves > 0) repeated_row("recency", row);
      move_to_back(row);
    }
  }

  static constexpr int32_t kWasHead = -1;

 private:
  struct Links {
    int32_t next;
    int32_t previous;
    int32_t moves;  // how often the row went to the back, less what was undone
  };
  int32_t successor(int32_t row) const { return row + 1 == rows_ ? 0 : row + 1; }
  int32_t predecessor(int32_t row) const { return row == 0 ? rows_ - 1 : row - 1; }
  void set_next(int32_t row, int32_t to) { links_[row].next = to - successor(row); }
  void set_previous(int32_t row, int32_t to) { links_[row].previous = to - predecessor(row); }
  void unlink(int32_t row) {
    const int32_t before = previous(row), after = next(row);
    set_next(before, after);
    set_previous(after, before);
  }
  void insert_after(int32_t before, int32_t row) {
    const int32_t after = next(before);
    set_next(before, row);
    set_previous(row, before);
    set_next(row, after);
    set_previous(after, row);
  }

  int32_t rows_;
  int32_t head_ = 0;
  LazyArray<Links> links_;
};

// The moves of a sequence, at most R(2K+1) a step.
class RingJournal {
 public:
  RingJournal(int64_t steps, const MemoryShape& shape) : moves_(steps, shape.max_moves()) {}

  size_t bytes() const { return moves_.bytes(); }
  void begin_step(const Ring&) { moves_.begin_step(); }
  // `row` went to the back, which returned `before`.
  void moved(int32_t row, int32_t before) { moves_.add({row, before}); }
  void undo(Ring& ring, int64_t step) const {
    for (const Move* move = moves_.end(step); move-- != moves_.begin(step);) ring.undo(move->row, move->before);
  }
  void redo(Ring& ring, int64_t step) const {
    for (const Move* move = moves_.begin(step); move != moves_.end(step); ++move) ring.move_to_back(move->row);
  }

 private:
  struct Move {
    int32_t row, before;
  };
  StepRecords<Move> moves_;
};

}  // namespace sparsam
