// How used the words of one batch element are (Graves 2016), with the least used ones at hand: the scalable allocation
// that section D calls possible 'by using a heap'. Nothing takes time in proportion to N.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "memory/row_set.h"
#include "memory/saved.h"
#include "memory/shape.h"
#include "memory/step_records.h"
#include "support/lazy_array.h"

namespace sparsam {

template <class T>
class UsageJournal;

// Rows of usage above 0 are in a binary heap ordered by (usage, row), each with its place in a lazily zeroed array. All
// other rows have usage 0 and cost nothing; the first of them by number are found through the set of those in the heap.
template <class T>
class UsageHeap {
 public:
  using Journal = UsageJournal<T>;

  struct Entry {
    T usage;
    int32_t row;
    bool operator<(const Entry& other) const {
      return usage < other.usage || (usage == other.usage && row < other.row);
    }
  };
  static constexpr T kNoUsage = 16 * std::numeric_limits<T>::min();  // what is no more than this is 0

  explicit UsageHeap(int32_t rows) : rows_(rows), places_(size_t(rows)), used_(rows) {}
  UsageHeap(const UsageHeap&) = delete;
  UsageHeap& operator=(const UsageHeap&) = delete;
  ~UsageHeap() {  // an episode that used little leaves its arrays to the next, blank again
    const size_t touched = heap_.capacity() * sizeof(Entry);
    if (touched > ZeroedPool::kMostTouched) return;
    for (const Entry& entry : heap_) {
      places_[entry.row] = 0;
      used_.erase(entry.row);
    }
    places_.recycle(touched);
    used_.recycle(touched);
  }

  int32_t rows() const { return rows_; }
  T usage(int32_t row) const { return places_[row] == 0 ? T(0) : heap_[places_[row] - 1].usage; }
  const std::vector<Entry>& entries() const { return heap_; }  // of the rows of usage above 0, in no particular order

  // The usage that is kept of a number.
  static T kept(T usage) { return usage > kNoUsage ? std::min(usage, T(1)) : T(0); }

  // Takes O(log n) for n rows in the heap.
  void set(int32_t row, T usage) {
    const int32_t place = places_[row] - 1;
    if (usage == 0) {
      if (place >= 0) remove(place);
    } else if (place < 0) {
      heap_.push_back({usage, row});
      used_.insert(row);
      rise(int32_t(heap_.size()) - 1, {usage, row});
    } else {
      settle(place, {usage, row});
    }
  }

  void copy_from(const UsageHeap& other) {
    for (const Entry& entry : other.heap_) set(entry.row, entry.usage);
  }
  void save_to(SavedMemory<T>& saved) const {  // rows ascending
    for (const Entry& entry : heap_) saved.usage_rows.push_back(entry.row);
    std::sort(saved.usage_rows.begin(), saved.usage_rows.end());
    for (const int64_t row : saved.usage_rows) saved.usage.push_back(usage(int32_t(row)));
  }
  void restore(const SavedMemory<T>& saved, const WordNorm<T>&) {
    require_count("usage", saved.usage.size(), saved.usage_rows.size());
    for (size_t i = 0; i < saved.usage_rows.size(); ++i) {
      const int32_t row = saved_row("usage_rows", saved.usage_rows[i], rows_);
      if (places_[row] != 0) repeated_row("usage_rows", row);
      if (!(saved.usage[i] >= 0 && saved.usage[i] <= 1))
        throw std::invalid_argument("usage: expected numbers in [0, 1], got " + std::to_string(saved.usage[i]));
      set(row, kept(saved.usage[i]));
    }
  }

  // The `count` rows of least usage, at most all there are, least first and ties to the lowest row.
  void least(int32_t count, int32_t* out) {
    int32_t found = 0;
    for (int32_t row = used_.first_absent(0); found < count && row < rows_; row = used_.first_absent(row + 1))
      out[found++] = row;
    // Then from the heap, whose next least entry is always below one that was taken.
    auto later = [this](int32_t a, int32_t b) { return heap_[b] < heap_[a]; };
    next_.clear();
    if (found < count) next_.push_back(0);
    while (found < count) {
      std::pop_heap(next_.begin(), next_.end(), later);
      const int32_t place = next_.back();
      next_.pop_back();
      out[found++] = heap_[place].row;
      for (int32_t child = 2 * place + 1; child <= 2 * place + 2 && child < int32_t(heap_.size()); ++child) {
        next_.push_back(child);
        std::push_heap(next_.begin(), next_.end(), later);
      }
    }
  }

 private:
  void put(int32_t place, const Entry& entry) {
    heap_[place] = entry;
    places_[entry.row] = place + 1;
  }
  void rise(int32_t place, const Entry& entry) {
    for (; place > 0 && entry < heap_[(place - 1) / 2]; place = (place - 1) / 2) put(place, heap_[(place - 1) / 2]);
    put(place, entry);
  }
  void sink(int32_t place, const Entry& entry) {
    const int32_t size = int32_t(heap_.size());
    for (int32_t child = 2 * place + 1; child < size; child = 2 * place + 1) {
      if (child + 1 < size && heap_[child + 1] < heap_[child]) ++child;
      if (!(heap_[child] < entry)) break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, entry);
  }
  void settle(int32_t place, const Entry& entry) {
    if (place > 0 && entry < heap_[(place - 1) / 2])
      rise(place, entry);
    else
      sink(place, entry);
  }
  void remove(int32_t place) {
    const int32_t row = heap_[place].row;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (place < int32_t(heap_.size())) settle(place, last);
    places_[row] = 0;
    used_.erase(row);
  }

  int32_t rows_;
  std::vector<Entry> heap_;
  LazyArray<int32_t> places_;  // in the heap, plus 1; 0 for none
  RowSet used_;                // the rows in the heap
  std::vector<int32_t> next_;  // places that may hold the next least entry
};

// Usages as they were before each change of a step. Undoing a step swaps them with those in the heap, so that the same
// journal then holds what redoing needs. A step changes at most the R K rows that it frees and the R(K+1) it writes.
template <class T>
class UsageJournal {
 public:
  UsageJournal(int64_t steps, const MemoryShape& shape) : changes_(steps, shape.max_changes()) {}

  size_t bytes() const { return changes_.bytes(); }
  void begin_step(const UsageHeap<T>&) { changes_.begin_step(); }
  void save(int32_t row, T usage) { changes_.add({usage, row}); }
  void undo(UsageHeap<T>& usage, int64_t step) {
    for (Change* change = changes_.end(step); change-- != changes_.begin(step);) swap(usage, *change);
  }
  void redo(UsageHeap<T>& usage, int64_t step) {
    for (Change* change = changes_.begin(step); change != changes_.end(step); ++change) swap(usage, *change);
  }

 private:
  struct Change {
    T usage;
    int32_t row;
  };
  static void swap(UsageHeap<T>& usage, Change& change) {
    const T now = usage.usage(change.row);
    usage.set(change.row, std::exchange(change.usage, now));
  }

  StepRecords<Change> changes_;
};

}  // namespace sparsam
