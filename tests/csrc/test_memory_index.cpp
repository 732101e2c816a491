// Memories that start from the same words: one index of those, and what each of them changed.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "check.h"
#include "index/memory_index.h"

using namespace sparsam;

namespace {

constexpr int32_t kRows = 3000, kWidth = 16;

struct Problem {
  explicit Problem(const char* kind, uint32_t seed) : random(seed) {
    settings.kind = kind;
    settings.numbers["checks"] = 20;
    words.resize(size_t(kRows) * kWidth);
    for (int32_t row = 0; row < kRows - 300; ++row) draw(words.data() + size_t(row) * kWidth);  // the rest is blank
    initial = std::make_shared<InitialWords<float>>(words.data(), kRows, kWidth);
  }
  void draw(float* out) {
    std::normal_distribution<float> normal;
    for (int32_t j = 0; j < kWidth; ++j) out[j] = normal(random);
  }
  std::mt19937 random;
  IndexSettings settings;
  std::vector<float> words;
  std::shared_ptr<InitialWords<float>> initial;
};

// One memory over the words, with its index.
struct Element {
  explicit Element(const Problem& problem)
      : memory(kRows, kWidth, problem.initial), index(memory, problem.settings, true) {
    index.prepare(2, 100);
  }
  void write(int32_t row, const float* word) {
    memory.mark_written(row);
    std::copy_n(word, kWidth, memory.word(row));
    memory.norm(row) = word_norm(word, kWidth);
    index.wrote(&row, 1);
  }
  // As a journal that takes the latest first writes back.
  void take_back(size_t left) {
    for (size_t i = left; i < memory.written().size(); ++i) memory.note_swapped(memory.written()[i]);
    memory.unmark_to(left);
    index.prepare(1, 100);
  }
  std::set<int32_t> ask(const float* query) {
    std::vector<int32_t> found(size_t(index.max_candidates()));
    const float norm = word_norm(query, kWidth);
    int32_t count = 0;
    index.propose(query, kWidth, &norm, 1, found.data(), index.max_candidates(), &count);
    found.resize(size_t(count));
    const std::set<int32_t> out(found.begin(), found.end());
    CHECK(out.size() == found.size());
    return out;
  }
  Memory<float> memory;
  MemoryIndex<float> index;
};

void test_shares_its_base(const char* kind) {
  Problem problem(kind, 6);
  Element one(problem), untouched(problem);
  CHECK(problem.initial->indexes.size() == 1);
  const std::vector<float> none(kWidth, 0.0f);
  std::vector<float> word(kWidth);
  const int32_t rows[] = {1, 3, 4, 1000, kRows - 1};
  std::vector<std::vector<float>> written;
  for (const int32_t row : rows) {
    problem.draw(word.data());
    one.write(row, word.data());
    written.push_back(word);
  }
  one.write(5, none.data());
  CHECK(one.index.size() == kRows - 300 && untouched.index.size() == kRows - 300);  // one came, one went
  for (size_t i = 0; i < written.size(); ++i) {
    CHECK(one.ask(written[i].data()).count(rows[i]) == 1);
    const float* before = problem.initial->word(rows[i]);
    if (rows[i] < kRows - 300) CHECK(untouched.ask(before).count(rows[i]) == 1);
  }
  CHECK(one.index.first_blank(0) == 5 && untouched.index.first_blank(0) == kRows - 300);
  CHECK(one.ask(problem.initial->word(5)).count(5) == 0 && one.ask(problem.initial->word(6)).count(6) == 1);
  one.take_back(2);  // rows 1 and 3 stay written
  CHECK(one.index.size() == kRows - 300 && one.index.first_blank(0) == kRows - 300);
  CHECK(one.ask(problem.initial->word(4)).count(4) == 1 && one.ask(problem.initial->word(5)).count(5) == 1);
  CHECK(one.ask(written[1].data()).count(3) == 1 && one.ask(written.back().data()).count(kRows - 1) == 0);
  one.write(4, written[2].data());
  CHECK(one.ask(written[2].data()).count(4) == 1);
}

// What is proposed does not show how the words came there, and is the same for several queries at a time as one by one.
void test_is_a_value(const char* kind) {
  Problem problem(kind, 8);
  Element one(problem), other(problem);
  std::vector<int32_t> changed;
  for (int i = 0; i < 400; ++i) changed.push_back(int32_t(problem.random() % kRows));
  std::vector<float> mine = problem.words;
  const std::vector<float> none(kWidth, 0.0f);
  for (const int32_t row : changed) {  // with a detour
    float* const word = mine.data() + size_t(row) * kWidth;
    problem.draw(word);
    one.write(row, word);
    if (row % 3 == 0) one.write(row, none.data()), one.write(row, word);
  }
  std::sort(changed.begin(), changed.end(), std::greater<int32_t>());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  for (const int32_t row : changed) other.write(row, mine.data() + size_t(row) * kWidth);
  CHECK(one.index.size() == other.index.size());
  constexpr int kQueries = 8;
  std::vector<float> queries(kQueries * kWidth), norms(kQueries);
  for (int i = 0; i < kQueries; ++i) {
    problem.draw(queries.data() + i * kWidth);
    norms[size_t(i)] = word_norm(queries.data() + i * kWidth, kWidth);
  }
  const int32_t most = one.index.max_candidates();
  std::vector<int32_t> out(size_t(kQueries * most)), counts(kQueries);
  one.index.propose(queries.data(), kWidth, norms.data(), kQueries, out.data(), most, counts.data());
  for (int i = 0; i < kQueries; ++i) {
    const std::set<int32_t> answer = one.ask(queries.data() + i * kWidth);
    CHECK(answer == other.ask(queries.data() + i * kWidth));
    CHECK(answer == std::set<int32_t>(out.begin() + i * most, out.begin() + i * most + counts[size_t(i)]));
  }
}

}  // namespace

int main() {
  for (const char* kind : {"scan", "lsh", "kdtree"}) {
    test_shares_its_base(kind);
    test_is_a_value(kind);
  }
  std::printf("all tests passed\n");
}
