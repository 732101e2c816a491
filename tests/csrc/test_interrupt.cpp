// Long work looks at the clock often enough, ends where it is told to, and leaves nothing behind that is half done.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <stdexcept>

#include "ann_cases.h"
#include "step/record.h"
#include "support/interrupt.h"
#include "support/parallel.h"

constexpr std::chrono::milliseconds kAlways{0};

struct Enough : std::runtime_error {
  Enough() : std::runtime_error("enough") {}
};

// How often `work` looks; it is ended at look number `last`, if it comes to that.
template <class Work>
int64_t looks(const Work& work, int64_t last = INT64_MAX) {
  int64_t seen = 0;
  Watch watch(
      [&] {
        if (++seen == last) throw Enough();
      },
      kAlways);
  try {
    work();
    CHECK(seen < last);
  } catch (const Interrupted&) {
    CHECK(seen == last);
    try {
      watch.rethrow();
    } catch (const Enough&) {
    }
  }
  return seen;
}

void builds_look_and_can_be_done_again() {
  const int32_t n = 70'000, width = 8;
  std::mt19937 random(3);
  Words words(n, width);
  std::vector<int32_t> rows(n);
  for (int32_t row = 0; row < n; ++row) draw_unit(random, words.at(row), width), rows[static_cast<size_t>(row)] = row;
  for (const Make& make : {Make(make_forest), lsh_of(4096), lsh_of(1 << 20), Make(make_lsh_list), Make(make_scan)}) {
    auto index = make(n, width, &words, 64, 0);
    const auto build = [&] {
      index->clear();
      index->build(rows.data(), n, 1);
      index->freeze(1);
    };
    const int64_t all = looks(build);
    CHECK(all >= n / 4096);
    const auto expected = ask(*index, words.at(5));
    for (const int64_t last : {int64_t(1), all / 2, all}) {
      looks(build, last);
      build();
      CHECK(ask(*index, words.at(5)) == expected);
    }
  }
}

void a_search_looks_between_stretches() {
  const int32_t rows = 200'000, width = 8, heads = 2, k = 2;
  std::vector<float> words(size_t(rows) * width);
  std::mt19937 random(3);
  for (int32_t row = 0; row < rows; ++row) draw_unit(random, words.data() + size_t(row) * width, width);
  std::shared_ptr<InitialWords<float>> initial;
  CHECK(looks([&] { initial = std::make_shared<InitialWords<float>>(words.data(), rows, width); }) >= rows / 4096);
  MemoryShape memory;
  memory.rows = rows, memory.width = width, memory.heads = heads, memory.k = k;
  const SequenceShape shape(memory, MemoryKind::sam, ControllerKind::none, 3, 1, InterfaceLayout(memory).size, 0);
  const std::vector<float> x(size_t(3) * shape.interface, 0.3f), zeros(size_t(shape.reads()), 0.0f);
  const auto version = Version<float>::fresh(memory, initial);
  std::shared_ptr<Record<float>> record;
  const auto run = [&] {
    record = run_forward(ForwardCall<float>{shape, x.data(), {}, nullptr, nullptr, nullptr,
                                            std::vector<int32_t>(size_t(shape.reads()), -1), zeros.data(), {3},
                                            {version}, true, false, 1});
  };
  const int64_t all = looks(run);
  CHECK(all >= 3 * rows / 16'384);
  const std::vector<float> expected(record->out.get(), record->out.get() + record->out.size);
  for (const int64_t last : {int64_t(1), all / 2, all}) {
    looks(run, last);
    run();
    CHECK(std::equal(expected.begin(), expected.end(), record->out.get()));
  }
}

// The thread of the call waits for the others, and can still be told to end.
void helpers_end_as_well() {
  for (const int busy : {0, 1}) {
    std::atomic<int> ended{0};
    looks(
        [&] {
          run_parallel(2, [&](int task) {
            if (task != busy) return;
            try {
              for (;;) check_interrupt();
            } catch (const Interrupted&) {
              ++ended;
              throw;
            }
          });
        },
        3);
    CHECK(ended == 1);
  }
}

void nothing_is_looked_at_without_a_watch() {
  check_interrupt();
  CHECK(looks([] { check_interrupt(); }) == 1);
  int64_t outer = 0;
  Watch watch([&] { ++outer; }, kAlways);
  CHECK(looks([] { check_interrupt(); }) == 1 && outer == 0);
  check_interrupt();
  CHECK(outer == 1);
}

int main() {
  builds_look_and_can_be_done_again();
  a_search_looks_between_stretches();
  helpers_end_as_well();
  nothing_is_looked_at_without_a_watch();
  std::puts("interrupt: all tests passed");
  return 0;
}
