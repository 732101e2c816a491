// An index of pre-loaded words that several share, and what each of them changed.
#include <cstdio>
#include <set>

#include "ann_cases.h"

void test_overlay_shares_its_base() {
  const int32_t n = 5000, width = 16;
  std::mt19937 random(6);
  Words words(n, width);
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < n; ++row) draw_unit(random, words.at(row), width);
  for (int32_t row = 0; row < n - 500; ++row) rows.push_back(row);
  auto built = make_forest(n, width, &words, 32, 0);
  built->build(rows.data(), n - 500, 2);
  const std::shared_ptr<const CandidateIndex> base = std::move(built);
  Words mine = words;
  OverlayIndex one(base, &mine), untouched(base, &words);
  for (int32_t row = 0; row < 300; ++row) {
    draw_unit(random, mine.at(row), width);
    if (row % 3 == 0) one.remove(row);
    else one.update(row, mine.at(row));
  }
  for (int32_t row = n - 500; row < n; ++row) one.insert(row, mine.at(row));
  CHECK(one.size() == n - 100 && untouched.size() == n - 500 && base->size() == n - 500);
  CHECK(!one.contains(3) && one.contains(4) && one.contains(n - 1));
  CHECK(untouched.contains(3) && !untouched.contains(n - 1));
  for (int32_t row : {1, 4, 1000, n - 1}) {
    const auto proposed = ask(one, mine.at(row));
    CHECK(std::count(proposed.begin(), proposed.end(), row) == 1);
    CHECK(std::set<int32_t>(proposed.begin(), proposed.end()).size() == proposed.size());
    for (int32_t r : proposed) CHECK(one.contains(r));
  }
  CHECK(one.restore(3) && one.restore(4) && !one.restore(n - 1));
  CHECK(one.contains(3) && one.contains(4) && one.size() == n - 99);
  const auto proposed = ask(one, words.at(4));
  CHECK(std::count(proposed.begin(), proposed.end(), 4) == 1);
  for (int i = 0; i < n; ++i) one.update(4, mine.at(4));
  CHECK(one.size() == n - 99);
}

// An overlay of values answers the same however it came to hold its words, and several queries at a time as one by one.
void test_overlay_of_values_is_a_value(const Make& make) {
  const int32_t n = 3000, width = 32;
  std::mt19937 random(8);
  Words words(n, width);
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < n; ++row) {
    draw_unit(random, words.at(row), width);
    rows.push_back(row);
  }
  auto built = make(n, width, &words, 20, 0);
  built->build(rows.data(), n, 2);
  const std::shared_ptr<const CandidateIndex> base = std::move(built);
  Words mine = words;
  OverlayIndex one(base, &mine), other(base, &mine);
  CHECK(one.is_value());
  std::vector<int32_t> changed;
  for (int32_t i = 0; i < 400; ++i) changed.push_back(static_cast<int32_t>(random() % n));
  for (int32_t row : changed) {  // with a detour
    draw_unit(random, mine.at(row), width);
    one.update(row, mine.at(row));
    if (row % 3 == 0) one.remove(row), one.insert(row, mine.at(row));
    if (row % 5 != 0) continue;
    one.remove(row);
    CHECK(one.restore(row));
    one.update(row, mine.at(row));
  }
  std::sort(changed.begin(), changed.end(), std::greater<int32_t>());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  for (int32_t row : changed) other.update(row, mine.at(row));
  std::vector<float> queries(8 * 32);
  for (int i = 0; i < 8; ++i) draw_unit(random, queries.data() + i * width, width);
  CandidateIndex::Scratch scratch;
  const int32_t most = one.max_candidates();
  std::vector<int32_t> out(static_cast<size_t>(8 * most)), counts(8);
  one.settle(1);
  one.query_all(queries.data(), 8, scratch, out.data(), most, counts.data(), nullptr);
  for (int i = 0; i < 8; ++i) {
    const auto answer = ask(one, queries.data() + i * width);
    CHECK(answer == ask(other, queries.data() + i * width));
    const auto end = out.begin() + i * most + counts[static_cast<size_t>(i)];
    std::sort(out.begin() + i * most, end);
    CHECK(std::equal(answer.begin(), answer.end(), out.begin() + i * most, end));
  }
}

int main() {
  test_overlay_shares_its_base();
  test_overlay_of_values_is_a_value(make_scan);
  test_overlay_of_values_is_a_value(make_lsh_list);
  std::printf("all tests passed\n");
}
