// Where the rows that were written last lie: a hash table that shrinks the way it grew, last in, first out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sparsam {

// Open addressing with linear probing. Taking out the latest row leaves the table as it was before that row came, so
// that no tombstones are needed.
class RowPlaces {
 public:
  static constexpr int32_t kNone = -1;

  int32_t find(int32_t row) const {
    if (slots_.empty()) return kNone;
    for (size_t at = home(row);; at = (at + 1) & mask_) {
      if (slots_[at].row == row) return slots_[at].place;
      if (slots_[at].row == kNone) return kNone;
    }
  }

  // `order` lists all rows by place, this one last.
  void push(const std::vector<int32_t>& order) {
    if (2 * order.size() > slots_.size()) {
      mask_ = slots_.empty() ? 63 : 2 * slots_.size() - 1;
      slots_.assign(mask_ + 1, {kNone, 0});
      for (size_t place = 0; place + 1 < order.size(); ++place) put(order[place], int32_t(place));
    }
    put(order.back(), int32_t(order.size()) - 1);
  }
  void pop(int32_t row) {
    size_t at = home(row);
    while (slots_[at].row != row) at = (at + 1) & mask_;
    slots_[at].row = kNone;
  }

 private:
  struct Slot {
    int32_t row, place;
  };
  size_t home(int32_t row) const { return (uint32_t(row) * 2654435769u >> 8) & mask_; }
  void put(int32_t row, int32_t place) {
    size_t at = home(row);
    while (slots_[at].row != kNone) at = (at + 1) & mask_;
    slots_[at] = {row, place};
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace sparsam
