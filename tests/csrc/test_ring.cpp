// The ring against a plain list, with undo, against the order by last access, and the claim that an untouched ring is zero bytes.
#include "memory/ring.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"

using sparsam::Ring;

namespace {

std::vector<int32_t> order(const Ring& ring) {
  std::vector<int32_t> rows(ring.rows());
  ring.first(ring.rows(), rows.data());
  return rows;
}

void move_in_list(std::vector<int32_t>& list, int32_t row) {
  list.erase(std::find(list.begin(), list.end(), row));
  list.push_back(row);
}

void random_moves(int32_t rows, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<int32_t>> history;
  std::vector<std::pair<int32_t, int32_t>> done;
  {
    Ring ring(rows);
    std::vector<int32_t> list(rows);
    for (int32_t i = 0; i < rows; ++i) list[i] = i;
    for (int i = 0; i < 60; ++i) {
      history.push_back(list);
      const int32_t row = int32_t(random() % rows);
      done.emplace_back(row, ring.move_to_back(row));
      move_in_list(list, row);
      CHECK(order(ring) == list);
    }
    // the moved rows in order say everything about the ring
    Ring again(rows);
    for (const int32_t row : ring.recency()) again.move_to_back(row);
    CHECK(order(again) == list);
    while (!done.empty()) {  // newest first
      ring.undo(done.back().first, done.back().second);
      CHECK(order(ring) == history.back());
      done.pop_back();
      history.pop_back();
    }
    CHECK(ring.recency().empty());
    for (int i = 0; i < 20; ++i) ring.move_to_back(int32_t(random() % rows));
  }
  // A destroyed ring hands its links on; they must be blank again.
  Ring next(rows);
  for (int32_t i = 0; i < rows; ++i) CHECK(order(next)[i] == i);
}

// Rows accessed together move in ascending order; then the ring is all rows by the time of their last access, those of
// one time and those never accessed by number.
void is_the_order_by_last_access(int32_t rows, uint32_t seed) {
  std::mt19937 random(seed);
  Ring ring(rows);
  std::vector<int32_t> last_access(rows, 0), expected(rows);
  for (int32_t time = 1; time <= 12; ++time) {
    for (int32_t row = 0; row < rows; ++row) {
      if (random() % 4 != 0) continue;
      ring.move_to_back(row);
      last_access[row] = time;
    }
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(),
                     [&](int32_t a, int32_t b) { return last_access[a] < last_access[b]; });
    CHECK(order(ring) == expected);
  }
}

}  // namespace

int main() {
  for (const int32_t rows : {1, 2, 3, 4, 7, 40})
    for (uint32_t seed = 0; seed < 20; ++seed) {
      random_moves(rows, seed);
      is_the_order_by_last_access(rows, seed);
    }
  Ring large(1 << 30);  // costs nothing until touched
  CHECK(large.move_to_back(0) == Ring::kWasHead);
  CHECK(large.head() == 1);
  CHECK(large.previous(1) == 0);
  std::puts("ring: all tests passed");
  return 0;
}
