// What threads share: one search, a pool of recycled arrays, the index of a memory that several sequences begin from,
// and a state that only one may have. Meant for the thread sanitizer (`make sanitize`), and quick without it.
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "memory/timeline.h"
#include "step/record.h"
#include "support/lazy_array.h"
#include "support/recycled.h"

using namespace sparsam;

namespace {

constexpr int32_t kBatch = 3;

std::vector<double> drawn(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> out(count);
  for (double& x : out) x = normal(random);
  return out;
}

// SAM's memory without a controller, over words that are there from the beginning.
struct Problem {
  Problem(int32_t rows, int64_t steps, std::shared_ptr<const IndexSettings> index)
      : memory(shape_of(rows, std::move(index))),
        shape(memory, MemoryKind::sam, ControllerKind::none, steps, kBatch, InterfaceLayout(memory).size, 0),
        x(drawn(size_t(steps * kBatch * shape.inputs), 1)),
        zeros(size_t(kBatch) * (shape.read_width() + shape.reads())),
        words(drawn(size_t(rows) * memory.width, 2)),
        initial(std::make_shared<InitialWords<double>>(words.data(), rows, memory.width)) {}

  static SearchedShape shape_of(int32_t rows, std::shared_ptr<const IndexSettings> index) {
    SearchedShape s;
    s.rows = rows, s.width = 6, s.heads = 2, s.k = 3, s.delta = 0.005;
    s.index = std::move(index);
    return s;
  }
  Versions<double> fresh() const {
    Versions<double> out;
    for (int b = 0; b < kBatch; ++b) out.push_back(Version<double>::fresh(memory, initial));
    return out;
  }
  std::vector<double> run(const Versions<double>& versions, int threads, bool backward) const {
    ForwardCall<double> call{shape, x.data(), {}, nullptr, nullptr, zeros.data(),
                             std::vector<int32_t>(size_t(kBatch) * shape.reads(), -1), zeros.data(),
                             std::vector<int64_t>(kBatch, shape.steps), versions, backward, false, threads};
    auto record = run_forward(call);
    std::vector<double> out(record->out.get(), record->out.get() + record->out.size);
    if (!backward) return out;
    const std::vector<double> d_joint(record->out.size, 0.5);
    BackwardCall<double> back{x.data(), {}, d_joint.data(), nullptr, nullptr, nullptr, nullptr,
                              std::vector<RowGradients<double>>(kBatch), std::vector<LinkEntries<double>>(kBatch), true,
                              true, threads};
    auto gradients = run_backward(*record, std::move(back));
    out.insert(out.end(), gradients->x.get(), gradients->x.get() + gradients->x.size);
    return out;
  }

  SearchedShape memory;
  SequenceShape shape;
  std::vector<double> x, zeros, words;
  std::shared_ptr<const InitialWords<double>> initial;
};

std::shared_ptr<const IndexSettings> settings(const std::string& kind) {
  if (kind == "linear") return nullptr;
  return std::make_shared<IndexSettings>(IndexSettings{kind, {{"checks", 64}}, 0});
}

template <class Work>
void in_threads(int count, const Work& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

// More threads than batch elements, and enough words: the threads share each search, and an index's making.
void a_shared_search(const std::string& kind) {
  const Problem problem(kind == "linear" ? 40'000 : 6'000, 4, settings(kind));
  const std::vector<double> expected = problem.run(problem.fresh(), 1, true);
  for (const double value : expected) CHECK(std::isfinite(value));
  for (const int threads : {2, 4, 7}) CHECK(problem.run(problem.fresh(), threads, true) == expected);
}

// Sequences of several threads begin from one initial memory: its index is made once, by whoever comes first.
void sequences_that_share_an_initial_memory(const std::string& kind) {
  const Problem problem(1'000, 12, settings(kind));
  const std::vector<double> expected = problem.run(problem.fresh(), 1, true);
  const Problem again(1'000, 12, settings(kind));  // no index made yet
  std::atomic<int> wrong{0};
  in_threads(4, [&](int i) {
    for (int round = 0; round < 4; ++round) wrong += again.run(again.fresh(), 1 + (i + round) % 2, true) != expected;
  });
  CHECK(wrong == 0);
}

// Many threads with the same state: one gets it, the others are told; nobody gets another's words.
void one_state_for_many_threads() {
  const Problem problem(200, 10, nullptr);
  const Versions<double> versions = problem.fresh();
  const std::vector<double> expected = problem.run(versions, 1, false);
  std::atomic<int> wrong{0}, ran{0}, told{0};
  in_threads(4, [&](int i) {
    for (int round = 0; round < 25; ++round) {
      try {
        if ((i + round) % 3 == 0) {
          const Claim<double> claim(*versions[size_t(round % kBatch)]);
          copied(*versions[size_t(round % kBatch)]);
        } else {
          const std::vector<double> got = problem.run(versions, 1, (i + round) % 2 == 0);
          wrong += !std::equal(got.begin(), got.begin() + long(expected.size()), expected.begin());
        }
        ++ran;
      } catch (const std::runtime_error&) {
        ++told;
      }
    }
  });
  CHECK(wrong == 0 && ran > 0 && ran + told == 100);
}

// Arrays go round between threads, and the pools are emptied in between, as when the system has no more.
void pools() {
  std::atomic<int> wrong{0};
  in_threads(4, [&](int i) {
    std::mt19937 random(static_cast<unsigned>(i));
    for (int round = 0; round < 200; ++round) {
      const size_t n = 100 + random() % 400;
      Recycled<int32_t> block = recycled_array<int32_t>(n);
      LazyArray<int32_t> zeroed(1024 * (1 + random() % 3));
      std::fill_n(block.get(), n, i);
      wrong += zeroed[5] != 0;
      zeroed[5] = i + 1;
      for (size_t j = 0; j < n; ++j) wrong += block[j] != i;
      wrong += zeroed[5] != i + 1;
      zeroed[5] = 0;  // every byte zero again
      zeroed.recycle(64);
      if (round % 50 == 49) ZeroedPool::release(), BlockPool::only().release();
    }
  });
  CHECK(wrong == 0);
}

void no_room_is_told() {
  bool told = false;
  try {
    LazyArray<double> all(size_t(1) << 57);
  } catch (const std::bad_alloc& error) {
    told = std::strstr(error.what(), "bytes") != nullptr;
  }
  CHECK(told);
}

}  // namespace

int main() {
  for (const char* kind : {"linear", "scan", "lsh", "kdtree"}) {
    a_shared_search(kind);
    sequences_that_share_an_initial_memory(kind);
  }
  one_state_for_many_threads();
  pools();
  no_room_is_told();
  std::puts("threads: all tests passed");
  return 0;
}
