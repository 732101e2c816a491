// Where rows lie in a list: a hash table, so that rows scattered over a large memory touch few pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sparsam {

// Open addressing with linear probing; a removal moves later entries back, so that no tombstones are left.
class RowMap {
 public:
  static constexpr int32_t kNone = -1;

  int32_t find(int32_t row) const {
    if (slots_.empty()) return kNone;
    for (size_t at = home(row);; at = (at + 1) & mask_) {
      if (slots_[at].row == row) return slots_[at].place;
      if (slots_[at].row == kNone) return kNone;
    }
  }

  // The row is not in the map.
  void insert(int32_t row, int32_t place) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    put({row, place});
    ++size_;
  }

  // The row is in the map.
  void move(int32_t row, int32_t place) { slots_[at(row)].place = place; }

  void erase(int32_t row) {
    size_t hole = at(row);
    for (size_t next = hole;;) {
      next = (next + 1) & mask_;
      if (slots_[next].row == kNone) break;
      // An entry may move back to the hole unless its home lies after the hole.
      if (((next - home(slots_[next].row)) & mask_) < ((next - hole) & mask_)) continue;
      slots_[hole] = slots_[next];
      hole = next;
    }
    slots_[hole].row = kNone;
    --size_;
  }

  void clear() {
    if (size_ > 0) slots_.assign(slots_.size(), {kNone, 0});
    size_ = 0;
  }

  size_t bytes() const { return slots_.size() * sizeof(Slot); }

 private:
  struct Slot {
    int32_t row, place;
  };
  size_t home(int32_t row) const { return (static_cast<uint32_t>(row) * 2654435769u >> 4) & mask_; }
  size_t at(int32_t row) const {
    size_t at = home(row);
    while (slots_[at].row != row) at = (at + 1) & mask_;
    return at;
  }
  void put(Slot slot) {
    size_t at = home(slot.row);
    while (slots_[at].row != kNone) at = (at + 1) & mask_;
    slots_[at] = slot;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size(), {kNone, 0});
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old)
      if (slot.row != kNone) put(slot);
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t size_ = 0;
};

}  // namespace sparsam
