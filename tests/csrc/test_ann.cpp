// The candidate indexes against brute force: what they hold, what they propose, equal words and refused ones included.
#include <cstdio>
#include <limits>
#include <set>

#include "ann_cases.h"

template <class Error, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Draws changes at random; after each, the index must agree with a plain set.
void test_follows_a_plain_set(const Make& make, uint32_t seed, bool few_distinct, int32_t checks) {
  const int32_t capacity = 600, width = 8;
  std::mt19937 random(seed);
  Words words(capacity, width);
  auto index = make(capacity, width, &words, checks, seed);
  std::set<int32_t> present;
  std::vector<float> query(static_cast<size_t>(width));
  auto draw_word = [&](int32_t row) {
    draw_unit(random, words.at(row), width);
    if (few_distinct) std::fill_n(words.at(row), width, static_cast<float>(random() % 3));
  };
  for (int step = 0; step < 4000; ++step) {
    const int32_t row = static_cast<int32_t>(random() % static_cast<uint32_t>(capacity));
    const bool shrinking = step / 1000 % 2 == 1;
    if (!present.count(row) && !(shrinking && random() % 4 != 0)) {
      draw_word(row);
      index->insert(row, words.at(row));
      present.insert(row);
    } else if (present.count(row) && (shrinking || random() % 3 == 0)) {
      draw_word(row);  // removal must not need the word
      index->remove(row);
      present.erase(row);
    } else if (present.count(row)) {
      if (random() % 2) {
        draw_word(row);
      } else {
        words.at(row)[0] += 0.01f;
      }
      index->update(row, words.at(row));
    }
    CHECK(index->size() == static_cast<int32_t>(present.size()));
    CHECK(index->contains(row) == (present.count(row) == 1));
    if (step % 7 != 0) continue;
    draw_unit(random, query.data(), width);
    std::vector<int32_t> proposed = ask(*index, query.data());
    CHECK(static_cast<int32_t>(proposed.size()) <= index->max_candidates());
    std::sort(proposed.begin(), proposed.end());
    CHECK(std::adjacent_find(proposed.begin(), proposed.end()) == proposed.end());
    for (int32_t r : proposed) CHECK(present.count(r));
    if (checks >= capacity) CHECK(std::equal(present.begin(), present.end(), proposed.begin(), proposed.end()));
    if (!present.empty()) CHECK(!proposed.empty());
    if (step % 70 == 0) {
      const std::vector<int32_t> rows = sorted_rows(*index);
      CHECK(std::equal(present.begin(), present.end(), rows.begin(), rows.end()));
    }
  }
  for (int32_t row : std::vector<int32_t>(present.begin(), present.end())) index->remove(row);
  CHECK(index->size() == 0);
  CHECK(ask(*index, query.data()).empty());
  draw_word(5);
  index->insert(5, words.at(5));
  CHECK(ask(*index, query.data()) == std::vector<int32_t>{5});
}

// Share of queries, a stored word plus noise of 0.3 of its norm, whose word is among the candidates.
double recall(CandidateIndex& index, Words& words, const std::vector<int32_t>& rows, std::mt19937& random,
              float noise = 0.3f) {
  std::vector<float> query(static_cast<size_t>(words.width));
  const int queries = 1000;
  int hits = 0;
  for (int i = 0; i < queries; ++i) {
    const int32_t row = rows[random() % rows.size()];
    draw_unit(random, query.data(), words.width);
    for (int32_t d = 0; d < words.width; ++d) query.data()[d] = noise * query.data()[d] + words.at(row)[d];
    const std::vector<int32_t> proposed = ask(index, query.data());
    hits += std::count(proposed.begin(), proposed.end(), row) > 0;
  }
  return hits / static_cast<double>(queries);
}

// Built at once, inserted one by one, or much changed since: it finds the word all the same.
void test_recall(const char* name, const Make& make, double bound) {
  const int32_t n = 20000, width = 32;
  std::mt19937 random(3);
  Words words(n, width);
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < n; ++row) {
    draw_unit(random, words.at(row), width);
    rows.push_back(row);
  }
  auto built = make(n, width, &words, 32, 0), grown = make(2 * n, width, &words, 32, 0);
  built->build(rows.data(), n, 2);
  for (int32_t row : rows) grown->insert(row, words.at(row));
  CHECK(grown->rebuilds() == 0);
  const double at_once = recall(*built, words, rows, random), one_by_one = recall(*grown, words, rows, random);
  for (int32_t row = 0; row < n; row += 2) {
    draw_unit(random, words.at(row), width);
    built->update(row, words.at(row));
  }
  const double changed = recall(*built, words, rows, random);
  std::vector<int32_t> few;
  for (int32_t row : rows) (row % 40 == 0 ? few.push_back(row) : built->remove(row));
  const double shrunk = recall(*built, words, few, random);
  // measured: 0.998, 0.996, 0.997, 1.000 (kdtree) and 0.998, 0.997, 0.998, 0.999 (lsh)
  std::printf("%-8s recall: built %.3f, grown %.3f, half changed %.3f, cut down to 500 %.3f (bound %.2f)\n", name,
              at_once, one_by_one, changed, shrunk, bound);
  CHECK(std::min({at_once, one_by_one, changed, shrunk}) >= bound);
}

// Words that crowd around one direction, inserted one by one, after words that did not: the centre has to follow.
void test_crowded_words(const char* name, const Make& make, double bound) {
  const int32_t n = 10000, width = 32;
  std::mt19937 random(9);
  Words words(n, width);
  std::vector<float> middle(static_cast<size_t>(width));
  draw_unit(random, middle.data(), width);
  auto index = make(10 * n, width, &words, 32, 0);
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < n; ++row) {
    draw_unit(random, words.at(row), width);
    index->insert(row, words.at(row));
    rows.push_back(row);
  }
  for (int32_t i = 0; i < 2 * n; ++i) {
    const int32_t row = i % n;
    draw_unit(random, words.at(row), width);
    float square = 0.0f;
    for (int32_t d = 0; d < width; ++d) {
      words.at(row)[d] = middle.data()[d] + 0.1f * words.at(row)[d];
      square += words.at(row)[d] * words.at(row)[d];
    }
    for (int32_t d = 0; d < width; ++d) words.at(row)[d] /= std::sqrt(square);
    index->update(row, words.at(row));
  }
  const double reached = recall(*index, words, rows, random, 0.03f);
  std::printf("%-8s recall among crowded words: %.3f (bound %.2f)\n", name, reached, bound);  // measured 0.999 for both
  CHECK(reached >= bound);
}

void test_determinism(const Make& make) {
  const int32_t n = 3000, width = 16;
  std::mt19937 random(5);
  Words words(n, width);
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < n; ++row) {
    draw_unit(random, words.at(row), width);
    rows.push_back(row);
  }
  auto first = make(2 * n, width, &words, 16, 7), second = make(2 * n, width, &words, 16, 7);
  auto other = make(2 * n, width, &words, 16, 8);
  first->build(rows.data(), n, 1);
  second->build(rows.data(), n, 3);
  other->build(rows.data(), n, 1);
  bool differs = false;
  for (int32_t row = 0; row < n; row += 3) {
    draw_unit(random, words.at(row), width);
    for (CandidateIndex* index : {first.get(), second.get(), other.get()}) index->update(row, words.at(row));
  }
  std::vector<float> query(static_cast<size_t>(width));
  for (int i = 0; i < 200; ++i) {
    draw_unit(random, query.data(), width);
    const auto answer = ask(*first, query.data());
    CHECK(answer == ask(*second, query.data()));
    differs |= answer != ask(*other, query.data());
  }
  CHECK(differs);
}

void test_rebuild_count(const Make& make) {
  const int32_t n = 100, width = 4;
  std::mt19937 random(1);
  Words words(n, width);
  auto index = make(n, width, &words, 200, 0);
  for (int32_t i = 0; i < 350; ++i) {
    const int32_t row = i % 40;
    draw_unit(random, words.at(row), width);
    if (i < 40) {
      index->insert(row, words.at(row));
    } else if (i % 2) {
      index->update(row, words.at(row));
    } else {
      index->remove(row);
      index->insert(row, words.at(row));
    }
    CHECK(index->rebuilds() == (i + 1) / 100);
    CHECK(index->size() == std::min(i + 1, 40));
  }
  std::vector<int32_t> rows{3, 5};
  index->build(rows.data(), 2, 1);
  CHECK(index->rebuilds() == 3);
  CHECK(sorted_rows(*index) == rows);
  index->clear();
  CHECK(index->size() == 0 && !index->contains(3));
}

// Equal words: no endless splitting, nothing lost. (One O(N) operation per word would take longer than ctest waits.)
void test_equal_words(const Make& make) {
  const int32_t n = 60000, width = 16;
  Words words(n, width);
  std::mt19937 random(2);
  std::fill(words.values.begin(), words.values.end(), 0.25f);
  auto index = make(n, width, &words, 32, 0);
  for (int32_t row = 0; row < n - 100; ++row) index->insert(row, words.at(row));
  std::vector<int32_t> rows(static_cast<size_t>(n - 100));
  for (int32_t row = 0; row < n - 100; ++row) rows[static_cast<size_t>(row)] = row;
  CHECK(sorted_rows(*index) == rows);
  for (int i = 0; i < 500; ++i) CHECK(!ask(*index, words.at(0)).empty());
  for (int32_t row = n - 100; row < n; ++row) {  // a few others among them are found
    draw_unit(random, words.at(row), width);
    index->insert(row, words.at(row));
    const auto proposed = ask(*index, words.at(row));
    CHECK(std::count(proposed.begin(), proposed.end(), row) == 1);
  }
  index->build(rows.data(), n - 100, 1);
  CHECK(sorted_rows(*index) == rows);
  for (int32_t row = n - 101; row >= 0; --row) index->remove(row);
  CHECK(index->size() == 0);
}

void test_refusals(const Make& make) {
  const int32_t n = 50, width = 4;
  Words words(n, width);
  std::fill(words.values.begin(), words.values.end(), 1.0f);
  auto index = make(n, width, &words, 8, 0);
  index->insert(7, words.at(7));
  CHECK(!message_of<std::logic_error>([&] { index->insert(7, words.at(7)); }).empty());
  CHECK(!message_of<std::logic_error>([&] { index->remove(8); }).empty());
  CHECK(!message_of<std::logic_error>([&] { index->update(8, words.at(8)); }).empty());
  CHECK(!message_of<std::invalid_argument>([&] { index->insert(n, words.at(0)); }).empty());
  CHECK(!message_of<std::invalid_argument>([&] { index->insert(-1, words.at(0)); }).empty());
  words.at(9)[2] = std::numeric_limits<float>::quiet_NaN();
  CHECK(message_of<std::invalid_argument>([&] { index->insert(9, words.at(9)); }).find("row 9") != std::string::npos);
  CHECK(!index->contains(9) && index->size() == 1);
  const int32_t rows[] = {1, 9};
  CHECK(message_of<std::invalid_argument>([&] { index->build(rows, 2, 2); }).find("row 9") != std::string::npos);
}

int main() {
  const std::pair<const char*, Make> kinds[] = {
      {"scan", make_scan},  {"kdtree", make_forest},  {"list", make_lsh_list},
      {"lsh", lsh_of(8192)}, {"tables", lsh_of(16)}};
  for (const auto& [name, make] : kinds) {
    for (uint32_t seed = 0; seed < 4; ++seed)
      for (bool few_distinct : {false, true})
        for (int32_t checks : {12, 600}) test_follows_a_plain_set(make, seed, few_distinct, checks);
    test_recall(name, make, 0.97);
    test_crowded_words(name, make, 0.97);
    test_determinism(make);
    if (std::string(name) == "kdtree" || std::string(name) == "lsh" || std::string(name) == "tables")
      test_rebuild_count(make);
    test_equal_words(make);
    test_refusals(make);
    std::printf("%-8s ok\n", name);
  }
  std::printf("all tests passed\n");
}
