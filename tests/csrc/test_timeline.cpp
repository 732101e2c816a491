// Versions of a memory: any version still referred to comes back bit for bit, in any order of asking.
#include "memory/timeline.h"

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "check.h"

using namespace sparsam;

namespace {

constexpr int32_t kRows = 12, kWidth = 3;

// Of one head that reads 2 words: at most 3 writes and 5 moves a step.
MemoryShape shape() {
  MemoryShape s;
  s.rows = kRows, s.width = kWidth, s.heads = 1, s.k = 2;
  return s;
}

struct Snapshot {
  std::vector<double> words, norms;
  std::vector<int32_t> order;
  bool operator==(const Snapshot&) const = default;
};

Snapshot snapshot(const Timeline<double>& timeline) {
  Snapshot s;
  for (int32_t row = 0; row < kRows; ++row) {
    s.words.insert(s.words.end(), timeline.memory.word(row), timeline.memory.word(row) + kWidth);
    s.norms.push_back(timeline.memory.norm(row));
  }
  s.order.resize(kRows);
  timeline.ring.first(kRows, s.order.data());
  return s;
}

// A few steps of random writes and moves, recorded.
std::shared_ptr<Journal<double>> scribble(Timeline<double>& timeline, std::mt19937& random) {
  std::uniform_real_distribution<double> number(-1, 1);
  auto journal = std::make_shared<Journal<double>>(4, shape(), timeline.parts);
  for (int step = 0; step < 4; ++step) {
    journal->begin_step(timeline.parts);
    const int32_t first = int32_t(random() % (kRows - 3));
    for (int32_t row = first; row < first + int32_t(random() % 4); ++row) {
      journal->words().save(timeline.memory, row);
      timeline.memory.mark_written(row);
      for (int32_t j = 0; j < kWidth; ++j) timeline.memory.word(row)[j] = number(random);
      timeline.memory.norm(row) = word_norm(timeline.memory.word(row), kWidth);
      journal->ring().moved(row, timeline.ring.move_to_back(row));
    }
  }
  return journal;
}

}  // namespace

int main() {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    auto timeline = std::make_shared<Timeline<double>>(shape(), nullptr);
    std::vector<Version<double>::Pointer> versions{std::make_shared<Version<double>>(timeline)};
    std::vector<Snapshot> expected{snapshot(*timeline)};
    for (int i = 0; i < 12; ++i) {  // a tree of versions: continue from any of them
      const size_t from = random() % versions.size();
      versions[from]->make_current();
      CHECK(snapshot(*timeline) == expected[from]);
      auto journal = scribble(*timeline, random);
      versions.push_back(versions[from]->advanced(journal));
      expected.push_back(snapshot(*timeline));
      if (random() % 3 == 0) {  // a backward pass undoes its edge step by step
        for (int64_t step = journal->size(); step-- > 0;) {
          journal->ring().undo(timeline->ring, step);
          journal->words().undo(timeline->memory, step);
          journal->note_undone(step);
        }
        versions.back()->note_undone(versions[from]);
        CHECK(snapshot(*timeline) == expected[from]);
      }
      if (random() % 4 == 0) {  // versions that nobody refers to must not be missed
        const size_t gone = random() % versions.size();
        versions.erase(versions.begin() + long(gone));
        expected.erase(expected.begin() + long(gone));
        if (versions.empty()) break;
      }
    }
    for (int i = 0; i < 20 && !versions.empty(); ++i) {
      const size_t at = random() % versions.size();
      auto copy = copied(*versions[at]);
      CHECK(snapshot(copy->timeline()) == expected[at]);
      versions[at]->make_current();
      CHECK(snapshot(*timeline) == expected[at]);
    }
  }
  {  // a chain of 200,000 versions is freed without recursion
    auto timeline = std::make_shared<Timeline<double>>(shape(), nullptr);
    auto first = std::make_shared<Version<double>>(timeline);
    auto last = first;
    for (int i = 0; i < 200000; ++i) last = last->advanced(std::make_shared<Journal<double>>(0, shape(), timeline->parts));
  }
  // Blank memories come round again clean.
  Memory<double> blank(kRows, kWidth);
  for (int32_t row = 0; row < kRows; ++row)
    for (int32_t j = 0; j < kWidth; ++j) CHECK(blank.word(row)[j] == 0);
  std::puts("timeline: all tests passed");
  return 0;
}
