// Versions of memories in Python: made, copied, read out and restored.
#include "bindings/bindings.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "memory/timeline.h"

using namespace nanobind::literals;

namespace sparsam {
namespace {

// Rows written in an episode and their words, rows ascending.
template <class T>
std::pair<nb::ndarray<nb::numpy, int64_t>, nb::ndarray<nb::numpy, T>> written_rows(Version<T>& version) {
  const Versions<T> one{version.shared_from_this()};
  const Claim<T> claim(one);
  version.make_current();
  const Memory<T>& memory = version.timeline().memory;
  std::vector<int64_t> rows(memory.written().begin(), memory.written().end());
  std::sort(rows.begin(), rows.end());
  std::vector<T> words;
  for (const int64_t row : rows)
    words.insert(words.end(), memory.word(int32_t(row)), memory.word(int32_t(row)) + memory.width());
  const size_t count = rows.size();
  return {to_numpy(std::move(rows), {count}), to_numpy(std::move(words), {count, size_t(memory.width())})};
}

// Rows of links that are not empty, as `Links` names them, their columns (-1 for none) and weights, K_L to a row.
template <class T>
nb::tuple link_rows(Version<T>& version) {
  const Versions<T> one{version.shared_from_this()};
  const Claim<T> claim(one);
  version.make_current();
  const Timeline<T>& timeline = version.timeline();
  if (!timeline.links) throw std::invalid_argument("this memory has no links");
  const Links<T>& links = *timeline.links;
  std::vector<int64_t> ids;
  std::vector<int32_t> columns;
  std::vector<T> weights;
  auto append = [&](int64_t id) {
    const LinkRow<const T> row = links.row(id);
    if (links.count(row) == 0) return;
    ids.push_back(id);
    for (int e = 0; e < links.k(); ++e) columns.push_back(row.columns[e] - 1);
    weights.insert(weights.end(), row.weights, row.weights + links.k());
  };
  for (const int32_t row : timeline.memory.written()) append(links.predecessors(row)), append(links.successors(row));
  append(links.precedence());
  const size_t count = ids.size(), k = size_t(links.k());
  return nb::make_tuple(to_numpy(std::move(ids), {count}), to_numpy(std::move(columns), {count, k}),
                        to_numpy(std::move(weights), {count, k}));
}

template <class T>
void restore_links(Version<T>& version, Array<int64_t> ids, Array<int32_t> columns, Array<T> weights) {
  if (!version.timeline().links) throw std::invalid_argument("this memory has no links");
  Links<T>& links = *version.timeline().links;
  const int32_t* column = pointer(columns, ids.size() * links.k(), "columns");
  const T* weight = pointer(weights, ids.size() * links.k(), "weights");
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t id = ids.data()[i];
    if (id < 0 || id > links.precedence()) throw std::invalid_argument("ids: " + std::to_string(id) + " out of range");
    const LinkRow<T> row = links.row(id);
    for (int e = 0; e < links.k(); ++e, ++column, ++weight) {
      if (*column < -1 || *column >= links.rows())
        throw std::invalid_argument("columns: row " + std::to_string(*column) + " out of range");
      row.columns[e] = *column + 1;
      row.weights[e] = *weight;
    }
  }
}

// Rows of usage above 0, ascending, and their usage.
template <class T>
std::pair<nb::ndarray<nb::numpy, int64_t>, nb::ndarray<nb::numpy, T>> usage_rows(Version<T>& version) {
  const Versions<T> one{version.shared_from_this()};
  const Claim<T> claim(one);
  version.make_current();
  const auto& usage = version.timeline().usage;
  if (!usage) throw std::invalid_argument("this memory has a ring and no usage");
  std::vector<int64_t> rows;
  for (const auto& entry : usage->entries()) rows.push_back(entry.row);
  std::sort(rows.begin(), rows.end());
  std::vector<T> values;
  for (const int64_t row : rows) values.push_back(usage->usage(int32_t(row)));
  const size_t count = rows.size();
  return {to_numpy(std::move(rows), {count}), to_numpy(std::move(values), {count})};
}

template <class T>
void restore_usage(Version<T>& version, Array<int64_t> rows, Array<T> values) {
  const auto& usage = version.timeline().usage;
  if (!usage) throw std::invalid_argument("this memory has a ring and no usage");
  const T* value = pointer(values, rows.size(), "values");
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t row = rows.data()[i];
    if (row < 0 || row >= usage->rows()) throw std::invalid_argument("rows: row " + std::to_string(row) + " out of range");
    usage->set(int32_t(row), UsageHeap<T>::kept(value[i]));
  }
}

// What the memory's index proposes for a query; nothing when search is exact.
template <class T>
std::vector<int32_t> candidates(Version<T>& version, Array<T> query) {
  const Versions<T> one{version.shared_from_this()};
  const Claim<T> claim(one);
  version.make_current();
  const auto& index = version.timeline().index;
  const int32_t width = version.timeline().memory.width();
  const T* word = pointer(query, width, "query");
  if (index) index->prepare(1);
  if (!index || index->is_exact()) return {};
  CandidateIndex::Scratch scratch;
  std::vector<int32_t> rows(index->max_candidates());
  rows.resize(index->propose(word, word_norm(word, width), scratch, rows.data()));
  return rows;
}

template <class T>
typename Version<T>::Pointer restored(int32_t rows, int32_t width, std::shared_ptr<InitialWords<T>> initial,
                                      Array<int64_t> written, Array<T> words, const std::vector<int32_t>& recency,
                                      int32_t k_links, bool free_usage) {
  auto timeline = std::make_shared<Timeline<T>>(rows, width, std::move(initial), k_links, free_usage);
  const T* from = pointer(words, written.size() * width, "words");
  for (size_t i = 0; i < written.size(); ++i) {
    const int64_t row = written.data()[i];
    if (row < 0 || row >= rows) throw std::invalid_argument("written: row " + std::to_string(row) + " out of range");
    timeline->memory.mark_written(int32_t(row));
    std::memcpy(timeline->memory.word(int32_t(row)), from + i * width, sizeof(T) * width);
    timeline->memory.norm(int32_t(row)) = word_norm(from + i * width, width);
  }
  for (const int32_t row : recency) {
    if (row < 0 || row >= rows) throw std::invalid_argument("recency: row " + std::to_string(row) + " out of range");
    timeline->ring.move_to_back(row);
  }
  return std::make_shared<Version<T>>(std::move(timeline));
}

template <class T>
void bind_version(nb::module_& m, const std::string& suffix) {
  nb::class_<InitialWords<T>>(m, ("Initial" + suffix).c_str())
      .def("__init__", [](InitialWords<T>* self, nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu> words) {
        new (self) InitialWords<T>(words.data(), int32_t(words.shape(0)), int32_t(words.shape(1)));
      })
      .def_prop_ro("indexes", [](const InitialWords<T>& self) { return self.indexes.size(); })
      .def("equals", [](const InitialWords<T>& self,
                        nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu> words) {
        if (int32_t(words.shape(0)) != self.rows || int32_t(words.shape(1)) != self.width) return false;
        nb::gil_scoped_release unlocked;
        return self.equals(words.data());
      });
  nb::class_<Version<T>>(m, ("Version" + suffix).c_str())
      .def_static(
          "fresh",
          [](int32_t rows, int32_t width, std::shared_ptr<InitialWords<T>> initial, int32_t k_links, bool free_usage) {
            return std::make_shared<Version<T>>(
                std::make_shared<Timeline<T>>(rows, width, std::move(initial), k_links, free_usage));
          },
          "rows"_a, "width"_a, "initial"_a = nb::none(), "k_links"_a = 0, "free_usage"_a = false)
      .def_static("restored", &restored<T>, "rows"_a, "width"_a, "initial"_a.none(), "written"_a, "words"_a, "recency"_a,
                  "k_links"_a = 0, "free_usage"_a = false)
      .def("link_rows", &link_rows<T>)
      .def("restore_links", &restore_links<T>)
      .def("usage_rows", &usage_rows<T>)
      .def("restore_usage", &restore_usage<T>)
      .def("copied",
           [](Version<T>& version) {
             const Versions<T> one{version.shared_from_this()};
             const Claim<T> claim(one);
             return copied(version);
           })
      .def_prop_ro("is_current", &Version<T>::is_current)
      .def("candidates", &candidates<T>)
      .def_prop_ro("indexed",  // words in the memory's index, -1 when search is exact
                   [](const Version<T>& version) {
                     const auto& index = version.timeline().index;
                     return index && !index->is_exact() ? index->index()->size() : -1;
                   })
      .def_prop_ro("index_used",  // what answered last: "linear", "scan", "kdtree" or "lsh"
                   [](const Version<T>& version) {
                     const auto& index = version.timeline().index;
                     return index ? index->used() : std::string("linear");
                   })
      .def("written_rows", &written_rows<T>)
      .def("recency", [](Version<T>& version) {
        version.make_current();
        return version.timeline().ring.recency();
      });
}

}  // namespace

void bind_versions(nb::module_& m) {
  bind_version<float>(m, "32");
  bind_version<double>(m, "64");
}

}  // namespace sparsam
