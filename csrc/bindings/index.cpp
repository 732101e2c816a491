#include "bindings/bindings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "index/index_settings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsam {
namespace {

using Words = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Word = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// An index by itself, over an (N, W) array that the caller keeps in step with it.
class ArrayIndex final : WordSource {
 public:
  ArrayIndex(Words words, const IndexSettings& settings)
      : words_(std::move(words)),
        index_(make_index(settings, int32_t(words_.shape(0)), int32_t(words_.shape(1)), this)),
        room_(size_t(index_->max_candidates())) {}
  ArrayIndex(const ArrayIndex&) = delete;

  void fetch(int32_t row, float* out) const override { std::copy_n(word(row), words_.shape(1), out); }
  const float* word(int32_t row) const { return words_.data() + size_t(checked(row)) * words_.shape(1); }

  CandidateIndex& index() { return *index_; }
  void insert(int32_t row) { index_->insert(row, word(row)); }
  void update(int32_t row) { index_->update(row, word(row)); }
  void build(const Rows& rows, int threads) {
    for (size_t i = 0; i < rows.size(); ++i) checked(rows.data()[i]);
    nb::gil_scoped_release unlocked;
    index_->build(rows.data(), int32_t(rows.size()), threads);
  }
  void freeze(int threads) {
    nb::gil_scoped_release unlocked;
    index_->freeze(threads);
  }
  std::vector<int32_t> query(const Word& query) {
    if (query.size() != words_.shape(1))
      throw std::invalid_argument("query: expected a word of " + std::to_string(words_.shape(1)) + " numbers, got " +
                                  std::to_string(query.size()));
    index_->settle(1);
    const int32_t n = index_->query(query.data(), scratch_, room_.data());
    return {room_.begin(), room_.begin() + n};
  }
  // Each row out and in again, without a call from Python for each.
  void churn(const Rows& rows) {
    nb::gil_scoped_release unlocked;
    for (size_t i = 0; i < rows.size(); ++i) {
      const int32_t row = rows.data()[i];
      index_->remove(row);
      index_->insert(row, word(row));
      if (i % kStep == kStep - 1) index_->settle(1);  // as a step of the engine does
    }
  }
  void update_all(const Rows& rows) {
    nb::gil_scoped_release unlocked;
    for (size_t i = 0; i < rows.size(); ++i) {
      update(rows.data()[i]);
      if (i % kStep == kStep - 1) index_->settle(1);
    }
  }
  // The row most similar to each query among those proposed, by inner product; so many queries are asked at a time.
  std::vector<int32_t> nearest(const Words& queries, int at_once) {
    if (queries.shape(1) != words_.shape(1))
      throw std::invalid_argument("queries: expected words of " + std::to_string(words_.shape(1)) + " numbers, got " +
                                  std::to_string(queries.shape(1)));
    if (at_once < 1) throw std::invalid_argument("at_once: expected at least 1, got " + std::to_string(at_once));
    nb::gil_scoped_release unlocked;
    index_->settle(1);
    std::vector<int32_t> best(queries.shape(0), -1), found(room_.size() * size_t(at_once)), counts(at_once);
    for (size_t q = 0; q < best.size(); q += size_t(at_once)) {
      const int asked = int(std::min<size_t>(size_t(at_once), best.size() - q));
      index_->query_all(queries.data() + q * words_.shape(1), asked, scratch_, found.data(), int32_t(room_.size()),
                        counts.data(), nullptr);
      for (int i = 0; i < asked; ++i)
        best[q + size_t(i)] = nearest_of(found.data() + size_t(i) * room_.size(), counts[size_t(i)],
                                         queries.data() + (q + size_t(i)) * words_.shape(1));
    }
    return best;
  }

 private:
  int32_t nearest_of(const int32_t* rows, int32_t count, const float* query) const {
    for (int32_t i = 0; i < count; ++i) __builtin_prefetch(word(rows[i]));
    int32_t best = -1;
    float top = -INFINITY;
    for (int32_t i = 0; i < count; ++i) {
      const float* at = word(rows[i]);
      float score = 0;
      for (size_t j = 0; j < words_.shape(1); ++j) score += at[j] * query[j];
      if (score > top) top = score, best = rows[i];
    }
    return best;
  }
  int32_t checked(int32_t row) const {
    if (row < 0 || size_t(row) >= words_.shape(0))
      throw std::invalid_argument("row: expected one of 0.." + std::to_string(words_.shape(0) - 1) + ", got " +
                                  std::to_string(row));
    return row;
  }

  static constexpr size_t kStep = 20;  // words that a step of SAM writes, R = K = 4

  Words words_;
  std::unique_ptr<CandidateIndex> index_;
  CandidateIndex::Scratch scratch_;
  std::vector<int32_t> room_;
};

}  // namespace

void bind_indexes(nb::module_& m) {
  nb::class_<IndexSettings>(m, "IndexSettings")
      .def(
          "__init__",
          [](IndexSettings* self, const std::string& kind, const std::map<std::string, int64_t>& numbers,
             int32_t exact_until) {
            new (self) IndexSettings{kind, numbers, exact_until};
            make_index(*self, 1, 1, nullptr);  // complains about what does not exist
          },
          "kind"_a, "numbers"_a, "exact_until"_a = 0);
  nb::class_<ArrayIndex>(m, "ArrayIndex")
      .def(nb::init<Words, const IndexSettings&>(), "words"_a, "settings"_a)
      .def("insert", &ArrayIndex::insert)
      .def("update", &ArrayIndex::update)
      .def("remove", [](ArrayIndex& self, int32_t row) { self.index().remove(row); })
      .def("clear", [](ArrayIndex& self) { self.index().clear(); })
      .def("build", &ArrayIndex::build, "rows"_a, "threads"_a = 1)
      .def("freeze", &ArrayIndex::freeze, "threads"_a = 1)
      .def("query", &ArrayIndex::query)
      .def("nearest", &ArrayIndex::nearest, "queries"_a, "at_once"_a = 1)
      .def("churn", &ArrayIndex::churn)
      .def("update_all", &ArrayIndex::update_all)
      .def("contains", [](ArrayIndex& self, int32_t row) { return self.index().contains(row); })
      .def("__len__", [](ArrayIndex& self) { return self.index().size(); })
      .def_prop_ro("rebuilds", [](ArrayIndex& self) { return self.index().rebuilds(); })
      .def_prop_ro("bytes", [](ArrayIndex& self) { return self.index().bytes(); });
}

}  // namespace sparsam
