// The usage heap against a plain vector that is sorted anew each time, and its journal.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"
#include "memory/usage_heap.h"

using sparsam::UsageHeap;
using sparsam::UsageJournal;

template <class T>
void same(UsageHeap<T>& heap, const std::vector<T>& plain) {
  const int32_t rows = heap.rows();
  std::vector<int32_t> order(rows), found(rows);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return plain[a] < plain[b]; });
  for (int32_t row = 0; row < rows; ++row) CHECK(heap.usage(row) == plain[row]);
  for (const int32_t count : {1, 2, 3, 7, rows}) {
    if (count > rows) continue;
    heap.least(count, found.data());
    CHECK(std::equal(found.begin(), found.begin() + count, order.begin()));
  }
  CHECK(heap.entries().size() == size_t(std::count_if(plain.begin(), plain.end(), [](T u) { return u > 0; })));
}

// Changes drawn from a few values, so that ties, rows that come and go, and full memories are common.
template <class T>
void walk(int32_t rows, int steps, uint32_t seed) {
  std::mt19937 random(seed);
  const int32_t most = 9;
  std::vector<T> plain(rows);
  std::vector<std::vector<T>> versions{plain};
  UsageHeap<T> heap(rows);
  sparsam::MemoryShape shape;  // with room for `most` changes a step
  shape.heads = most, shape.free_usage = true;
  UsageJournal<T> journal(steps, shape);
  for (int step = 0; step < steps; ++step) {
    journal.begin_step(heap);
    for (int change = int(random() % (most + 1)); change-- > 0;) {
      const int32_t row = int32_t(random() % rows);
      const T usage = random() % 3 == 0 ? T(random() % 4) / 4 : T(random() % 1000) / 999;
      journal.save(row, heap.usage(row));
      heap.set(row, usage);
      plain[row] = usage;
    }
    same(heap, plain);
    versions.push_back(plain);
  }
  for (int round = 0; round < 2; ++round) {
    for (int step = steps; step-- > 0;) {
      journal.undo(heap, step);
      same(heap, versions[step]);
    }
    CHECK(heap.entries().empty());
    for (int step = 0; step < steps; ++step) {
      journal.redo(heap, step);
      same(heap, versions[step + 1]);
    }
  }
}

// A memory that comes back from the pool is blank, and a large one costs what is used of it.
void comes_back_blank() {
  for (int round = 0; round < 3; ++round) {
    UsageHeap<float> heap(5'000'000);
    int32_t rows[3];
    heap.least(3, rows);
    CHECK(rows[0] == 0 && rows[1] == 1 && rows[2] == 2);
    for (int32_t row = 0; row < 1000; ++row) heap.set(row * 4999, 0.5f);
    for (int32_t row = 1; row < 1000; row += 2) heap.set(row * 4999, 0.0f);
    heap.least(3, rows);
    CHECK(rows[0] == 1 && rows[1] == 2 && rows[2] == 3);
    CHECK(heap.entries().size() == 500);
  }
}

void keeps_what_counts() {
  using Heap = UsageHeap<float>;
  CHECK(Heap::kept(-0.25f) == 0 && Heap::kept(Heap::kNoUsage) == 0 && Heap::kept(1.5f) == 1);
  CHECK(Heap::kept(0.25f) == 0.25f && Heap::kept(2 * Heap::kNoUsage) > 0);
}

int main() {
  for (uint32_t seed = 0; seed < 20; ++seed)
    for (const int32_t rows : {1, 2, 3, 10, 64, 65, 200}) walk<double>(rows, 60, seed);
  walk<float>(5000, 40, 1);
  comes_back_blank();
  keeps_what_counts();
}
