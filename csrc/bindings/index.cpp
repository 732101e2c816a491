#include "bindings/bindings.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "bindings/arguments.h"
#include "index/index_settings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsam {
namespace {

// An index by itself, over an (N, W) array that the caller keeps in step with it.
class ArrayIndex final : WordSource {
 public:
  ArrayIndex(nb::handle words, nb::handle settings)
      : words_(words, "words", {kAny, kAny}),
        rows_(int32_t(require_within("words: rows", words_.length(0), 1, INT32_MAX))),
        width_(int32_t(require_within("words: width", words_.length(1), 1, 1 << 20))),
        index_(make_index(taken_object<IndexSettings>(settings, "settings", "an IndexSettings"), rows_, width_, this)),
        candidates_(size_t(index_->max_candidates())) {}
  ArrayIndex(const ArrayIndex&) = delete;

  void fetch(int32_t row, float* out) const override { std::copy_n(word(row), width_, out); }
  const float* word(int32_t row) const { return words_.data() + size_t(row) * size_t(width_); }

  CandidateIndex& index() { return *index_; }
  void insert(nb::handle row_) {
    const int32_t row = row_from(row_);
    index_->insert(row, word(row));
  }
  void update(nb::handle row_) {
    const int32_t row = row_from(row_);
    index_->update(row, word(row));
  }
  void remove(nb::handle row) { index_->remove(row_from(row)); }
  bool contains(nb::handle row) { return index_->contains(row_from(row)); }
  void build(nb::handle rows_, nb::handle threads_) {
    const std::vector<int32_t> rows = rows_from(rows_);
    std::vector<bool> seen(size_t(this->rows_));
    for (const int32_t row : rows) {
      if (seen[size_t(row)]) refuse("rows", "distinct rows", std::to_string(row) + " twice");
      seen[size_t(row)] = true;
    }
    const int threads = require_threads(threads_);
    nb::gil_scoped_release unlocked;
    index_->build(rows.data(), int32_t(rows.size()), threads);
  }
  void freeze(nb::handle threads_) {
    const int threads = require_threads(threads_);
    nb::gil_scoped_release unlocked;
    index_->freeze(threads);
  }
  void start(nb::handle steps_, nb::handle threads_) {
    const int64_t steps = require_within("steps", taken<int64_t>(steps_, "steps"), 0, INT64_MAX);
    const int threads = require_threads(threads_);
    nb::gil_scoped_release unlocked;
    index_->start(steps, threads);
  }
  std::vector<int32_t> query(nb::handle query_) {
    const In<float> query(query_, "query", {width_});
    index_->settle(1);
    const int32_t n = index_->query(query.data(), candidates_.data());
    return {candidates_.begin(), candidates_.begin() + n};
  }
  // Each row out and in again.
  void churn(nb::handle rows) {
    each_changed(rows, [&](int32_t row) {
      index_->remove(row);
      index_->insert(row, word(row));
    });
  }
  void update_all(nb::handle rows) {
    each_changed(rows, [&](int32_t row) { index_->update(row, word(row)); });
  }
  // The row most similar to each query among those proposed, by inner product, `at_once` queries at a time.
  std::vector<int32_t> nearest(nb::handle queries_, nb::handle at_once_) {
    const In<float> queries(queries_, "queries", {kAny, width_});
    const int at_once = int(require_within("at_once", taken<int64_t>(at_once_, "at_once"), 1, 1 << 16));
    const auto width = size_t(width_);
    nb::gil_scoped_release unlocked;
    index_->settle(1);
    std::vector<int32_t> best(size_t(queries.length(0)), -1), found(candidates_.size() * size_t(at_once)), counts(at_once);
    for (size_t q = 0; q < best.size(); q += size_t(at_once)) {
      const int some = int(std::min<size_t>(size_t(at_once), best.size() - q));
      index_->query_all(queries.data() + q * width, some, found.data(), int32_t(candidates_.size()), counts.data(),
                        nullptr);
      for (int i = 0; i < some; ++i)
        best[q + size_t(i)] = nearest_of(found.data() + size_t(i) * candidates_.size(), counts[size_t(i)],
                                         queries.data() + (q + size_t(i)) * width);
    }
    return best;
  }

 private:
  // Changes rows as steps of the engine do, without a call from Python for each.
  template <class Change>
  void each_changed(nb::handle rows_, const Change& change) {
    const std::vector<int32_t> rows = rows_from(rows_);
    nb::gil_scoped_release unlocked;
    for (size_t i = 0; i < rows.size(); ++i) {
      change(rows[i]);
      if (i % kStep == kStep - 1) index_->settle(1);
    }
  }
  int32_t nearest_of(const int32_t* rows, int32_t count, const float* query) const {
    for (int32_t i = 0; i < count; ++i) __builtin_prefetch(word(rows[i]));
    int32_t best = -1;
    float top = -INFINITY;
    for (int32_t i = 0; i < count; ++i) {
      const float* at = word(rows[i]);
      float score = 0;
      for (int32_t j = 0; j < width_; ++j) score += at[j] * query[j];
      if (score > top) top = score, best = rows[i];
    }
    return best;
  }
  int32_t row_from(nb::handle row) const {
    return int32_t(require_within("row", taken<int64_t>(row, "row"), 0, rows_ - 1));
  }
  std::vector<int32_t> rows_from(nb::handle value) const {
    const In<int32_t> rows(value, "rows", {kAny});
    for (size_t i = 0; i < rows.size(); ++i) require_within("rows", rows.data()[i], 0, rows_ - 1);
    return {rows.data(), rows.data() + rows.size()};
  }

  static constexpr size_t kStep = 20;  // words that a step of SAM writes, R = K = 4

  In<float> words_;
  int32_t rows_, width_;
  std::unique_ptr<CandidateIndex> index_;
  std::vector<int32_t> candidates_;
};

}  // namespace

void bind_indexes(nb::module_& m) {
  nb::class_<IndexSettings>(m, "IndexSettings")
      .def(
          "__init__",
          [](IndexSettings* self, nb::handle kind, nb::handle numbers, nb::handle exact_until, nb::handle exact_until_coded,
             nb::handle exact_until_short) {
            IndexSettings settings;
            settings.kind = taken<std::string>(kind, "kind");
            settings.numbers = taken<std::map<std::string, int64_t>>(numbers, "numbers", "a dict of names and ints");
            auto words = [](const char* name, nb::handle given) {
              return int32_t(require_within(name, taken<int64_t>(given, name), 0, INT32_MAX));
            };
            settings.exact_until = words("exact_until", exact_until);
            settings.exact_until_coded = words("exact_until_coded", exact_until_coded);
            settings.exact_until_short = words("exact_until_short", exact_until_short);
            make_index(settings, 1, 1, nullptr);  // complains about what does not exist
            new (self) IndexSettings(std::move(settings));
          },
          "kind"_a.none(), "numbers"_a.none(), "exact_until"_a.none() = 0, "exact_until_coded"_a.none() = 0,
          "exact_until_short"_a.none() = 0);
  nb::class_<ArrayIndex>(m, "ArrayIndex")
      .def(nb::init<nb::handle, nb::handle>(), "words"_a.none(), "settings"_a.none())
      .def("insert", &ArrayIndex::insert, "row"_a.none())
      .def("update", &ArrayIndex::update, "row"_a.none())
      .def("remove", &ArrayIndex::remove, "row"_a.none())
      .def("clear", [](ArrayIndex& self) { self.index().clear(); })
      .def("build", &ArrayIndex::build, "rows"_a.none(), "threads"_a.none() = 1)
      .def("freeze", &ArrayIndex::freeze, "threads"_a.none() = 1)
      .def("start", &ArrayIndex::start, "steps"_a.none(), "threads"_a.none() = 1)
      .def("query", &ArrayIndex::query, "query"_a.none())
      .def("nearest", &ArrayIndex::nearest, "queries"_a.none(), "at_once"_a.none() = 1)
      .def("churn", &ArrayIndex::churn, "rows"_a.none())
      .def("update_all", &ArrayIndex::update_all, "rows"_a.none())
      .def("contains", &ArrayIndex::contains, "row"_a.none())
      .def("__len__", [](ArrayIndex& self) { return self.index().size(); })
      .def_prop_ro("rebuilds", [](ArrayIndex& self) { return self.index().rebuilds(); })
      .def_prop_ro("bytes", [](ArrayIndex& self) { return self.index().bytes(); });
}

}  // namespace sparsam
