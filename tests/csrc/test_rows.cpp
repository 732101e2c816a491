// The sets and tables of rows against plain containers, and a memory that starts from given words.
#include <random>
#include <set>
#include <vector>

#include "check.h"
#include "memory/words.h"
#include "memory/row_set.h"
#include "support/row_map.h"

using namespace sparsam;

namespace {

void check_row_set(int32_t rows) {
  std::mt19937 random(static_cast<uint32_t>(rows));
  RowSet set(rows);
  std::set<int32_t> plain;
  auto first_absent = [&](int32_t from) {
    while (from < rows && plain.count(from) != 0) ++from;
    return from;
  };
  for (int i = 0; i < 4000; ++i) {
    const int32_t row = static_cast<int32_t>(random() % static_cast<uint32_t>(rows));
    if (random() % 4 == 0) {
      set.erase(row);
      plain.erase(row);
    } else {
      set.insert(row);
      plain.insert(row);
    }
    CHECK(set.contains(row) == (plain.count(row) != 0));
    CHECK(set.first_absent(0) == first_absent(0));
    CHECK(set.first_absent(row) == first_absent(row));
  }
  for (int32_t row = 0; row < rows; ++row) set.insert(row);
  CHECK(set.first_absent(0) == rows);
  const RowSet copy(set);
  set.erase(rows - 1);
  CHECK(set.first_absent(0) == rows - 1);
  CHECK(copy.first_absent(0) == rows);
}

void check_row_map() {
  std::mt19937 random(1);
  RowMap places;
  std::vector<int32_t> order;
  CHECK(places.find(3) == RowMap::kNone);
  for (int i = 0; i < 5000; ++i) {
    const int32_t row = static_cast<int32_t>(random() % 3000);
    if (!order.empty() && random() % 3 == 0) {
      places.erase(order.back());
      CHECK(places.find(order.back()) == RowMap::kNone);
      order.pop_back();
    } else if (places.find(row) == RowMap::kNone) {
      places.insert(row, static_cast<int32_t>(order.size()));
      order.push_back(row);
    }
    if (i % 100 == 0)
      for (size_t at = 0; at < order.size(); ++at) CHECK(places.find(order[at]) == static_cast<int32_t>(at));
  }
}

void check_started_memory() {
  constexpr int32_t kRows = 50, kWidth = 5;
  std::vector<double> words(kRows * kWidth);
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<double>(i);
  const auto initial = std::make_shared<InitialWords<double>>(words.data(), kRows, kWidth);
  CHECK(initial->equals(words.data()));
  Memory<double> one(kRows, kWidth, initial), other(kRows, kWidth, initial);
  one.mark_written(7);
  one.mark_written(3);
  CHECK(one.word(7)[1] == words[7 * kWidth + 1] && one.norm(3) == initial->norm(3));
  one.word(7)[1] = -1;
  one.word(3)[0] = -2;
  CHECK(other.word(7)[1] == words[7 * kWidth + 1]);
  CHECK(one.word(7)[1] == -1 && one.word(3)[0] == -2);
  one.unmark_to(1);
  CHECK(one.word(3)[0] == words[3 * kWidth] && one.word(7)[1] == -1);
  one.unmark_to(0);
  CHECK(one.word(7)[1] == words[7 * kWidth + 1] && initial->equals(words.data()));
}

}  // namespace

int main() {
  for (const int32_t rows : {1, 63, 64, 65, 500, 4096, 5000}) check_row_set(rows);
  check_row_map();
  check_started_memory();
  return 0;
}
