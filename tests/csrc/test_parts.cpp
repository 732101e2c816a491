// The parts of a memory together: saved and restored, refused when damaged, copied, and blank again for the next one.
#include "memory/parts.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "check.h"
#include "memory/timeline.h"

using namespace sparsam;

namespace {

constexpr int32_t kRows = 10, kWidth = 3;

StoredShape shape() { return {kRows, kWidth, 2, true}; }

double norm(const double* word, int32_t stride) { return word_norm(word, stride); }

SavedMemory<double> good() {
  SavedMemory<double> saved;
  saved.rows = {7, 2};
  saved.words = {1, 2, 2, 0, 3, 4};
  saved.recency = {2, 7};
  saved.link_ids = {4, 15, 20};
  saved.link_columns = {7, -1, 2, -1, 7, 2};
  saved.link_weights = {0.5, 0, 0.25, 0, 1, 0.5};
  saved.usage_rows = {2, 7};
  saved.usage = {0.5, 1};
  return saved;
}

// `damage` makes it one that is refused, by a message that names `argument`.
template <class Damage>
void refuses(const char* argument, const Damage& damage) {
  SavedMemory<double> saved = good();
  damage(saved);
  try {
    restored<double>(shape(), nullptr, saved, norm);
  } catch (const std::invalid_argument& error) {
    CHECK(std::string(error.what()).find(argument) == 0);
    return;
  }
  CHECK(false);
}

void saves_and_restores() {
  auto version = restored<double>(shape(), nullptr, good(), norm);
  auto copy = copied(*version);
  for (const auto& one : {version, copy}) {
    SavedMemory<double> again;
    one->timeline().parts.each([&](auto& part) { part.save_to(again); });
    const SavedMemory<double> expected = good();
    CHECK(again.rows == expected.rows && again.words == expected.words && again.recency == expected.recency);
    CHECK(again.link_ids.size() == expected.link_ids.size() && again.usage_rows == expected.usage_rows);
    CHECK(again.usage == expected.usage);
    CHECK(one->timeline().memory.norm(7) == 3 && one->timeline().memory.norm(2) == 5);
  }
}

void refuses_damage() {
  refuses("rows", [](auto& s) { s.rows[0] = kRows; });
  refuses("rows", [](auto& s) { s.rows[0] = 2; });
  refuses("words", [](auto& s) { s.words.pop_back(); });
  refuses("recency", [](auto& s) { s.recency[0] = -1; });
  refuses("recency", [](auto& s) { s.recency[0] = 7; });
  refuses("link_ids", [](auto& s) { s.link_ids[0] = 21; });
  refuses("link_ids", [](auto& s) { s.link_ids[0] = 0; });   // of a row that was not written
  refuses("link_ids", [](auto& s) { s.link_ids[0] = 20; });  // twice
  refuses("link_columns", [](auto& s) { s.link_columns[0] = 2; });  // to itself
  refuses("link_columns", [](auto& s) { s.link_columns[4] = 2; });  // twice
  refuses("link_columns", [](auto& s) { s.link_columns[4] = 3; });  // to a row that was not written
  refuses("link_columns", [](auto& s) { s.link_columns[4] = -1; });  // a hole
  refuses("link_columns", [](auto& s) { s.link_columns.pop_back(); });
  refuses("link_weights", [](auto& s) { s.link_weights.pop_back(); });
  refuses("usage_rows", [](auto& s) { s.usage_rows[0] = 7; });
  refuses("usage", [](auto& s) { s.usage[0] = 1.5; });
  refuses("usage", [](auto& s) { s.usage[0] = std::nan(""); });
  refuses("usage", [](auto& s) { s.usage.pop_back(); });
}

// Every array that a memory used is zero bytes when the next memory gets it.
void leaves_nothing_behind() {
  for (int round = 0; round < 3; ++round) {
    auto version = restored<double>(shape(), nullptr, good(), norm);
    Timeline<double>& timeline = version->timeline();
    timeline.memory.word(7)[kWidth] = std::numeric_limits<double>::quiet_NaN();  // padding
    timeline.memory.clear_padding(7);
    CHECK(timeline.memory.word(7)[kWidth] == 0);
    timeline.memory.word(2)[0] = std::numeric_limits<double>::quiet_NaN();
    timeline.memory.norm(2) = std::numeric_limits<double>::quiet_NaN();
    version = nullptr;
    auto blank = Version<double>::fresh(shape(), nullptr);
    Timeline<double>& next = blank->timeline();
    for (int32_t row = 0; row < kRows; ++row) {
      for (int32_t j = 0; j < next.memory.stride(); ++j) CHECK(next.memory.word(row)[j] == 0);
      CHECK(next.memory.norm(row) == 0 && !next.memory.is_written(row) && next.usage->usage(row) == 0);
    }
    for (int64_t id = 0; id <= next.links->precedence(); ++id) CHECK(next.links->count(next.links->row(id)) == 0);
    CHECK(next.ring.recency().empty());
  }
}

void is_made_anew_after_it_was_given_up() {
  auto version = Version<double>::fresh(shape(), nullptr);
  Version<double>::Pointer after;
  {
    const Claim<double> claim(*version);
    CHECK(version->is_disposable());
    version->timeline().memory.mark_written(1);
    after = version->advanced(nullptr);
    CHECK(after->timeline().memory.written().size() == 1);
  }
  const Claim<double> claim(*version);
  CHECK(version->timeline().memory.written().empty());
  CHECK(&version->timeline() != &after->timeline());
  CHECK(!after->is_disposable());
}

}  // namespace

int main() {
  saves_and_restores();
  refuses_damage();
  leaves_nothing_behind();
  is_made_anew_after_it_was_given_up();
  std::puts("parts: all tests passed");
  return 0;
}
