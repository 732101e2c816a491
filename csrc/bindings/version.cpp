// Versions of memories in Python: made, copied, read out and restored. All that reads takes the claim.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "bindings/results.h"
#include "bindings/signals.h"
#include "bindings/versions.h"
#include "index/memory_index.h"
#include "memory/claim.h"
#include "step/sequence.h"

using namespace nanobind::literals;

namespace sparsam {
namespace {

// f(timeline) of a version that is claimed and current, without the GIL.
template <class T, class F>
auto reading(Version<T>& version, const F& f) {
  nb::gil_scoped_release unlocked;
  const Claim<T> claim(version);
  version.make_current();
  return f(version.timeline());
}
template <class T, class F>
SavedMemory<T> saved_part(Version<T>& version, const F& part) {
  return reading(version, [&](Timeline<T>& timeline) {
    SavedMemory<T> saved;
    part(timeline).save_to(saved);
    return saved;
  });
}

template <class T>
nb::dict exported(Version<T>& version) {
  SavedMemory<T> all = reading(version, [&](Timeline<T>&) { return saved(version); });
  const size_t rows = all.rows.size(), moved = all.recency.size(), links = all.link_ids.size(),
               used = all.usage_rows.size(), k = size_t(version.shape().k_links);
  nb::dict out;
  out["rows"] = to_numpy(std::move(all.rows), {rows});
  out["words"] = to_numpy(std::move(all.words), {rows, size_t(version.shape().width)});
  out["recency"] = to_numpy(std::move(all.recency), {moved});
  if (k > 0) {
    out["link_ids"] = to_numpy(std::move(all.link_ids), {links});
    out["link_columns"] = to_numpy(std::move(all.link_columns), {links, k});
    out["link_weights"] = to_numpy(std::move(all.link_weights), {links, k});
  }
  if (version.shape().free_usage) {
    out["usage_rows"] = to_numpy(std::move(all.usage_rows), {used});
    out["usage"] = to_numpy(std::move(all.usage), {used});
  }
  return out;
}

// An array of the dictionary, which it must have where a memory of this shape has the part.
template <class U>
void take(nb::handle parts, const char* name, const std::vector<int64_t>& shape, bool needed, std::vector<U>& out) {
  const nb::object value = nb::steal(PyObject_GetItem(parts.ptr(), nb::str(name).ptr()));
  if (!value.is_valid()) {
    PyErr_Clear();
    if (needed) refuse(name, "an array in parts", "none");
    return;
  }
  const In<U> array(value, name, shape);
  out.assign(array.data(), array.data() + array.size());
}

template <class T>
void require_initial(const std::shared_ptr<InitialWords<T>>& initial, const StoredShape& shape) {
  if (initial && (initial->rows != shape.rows || initial->width != shape.width))
    refuse("initial", std::to_string(shape.rows) + " words of width " + std::to_string(shape.width),
           std::to_string(initial->rows) + " of width " + std::to_string(initial->width));
}

template <class T>
std::shared_ptr<InitialWords<T>> initial_from(nb::handle value, const StoredShape& shape) {
  std::shared_ptr<InitialWords<T>> initial;
  if (!value.is_none())
    initial = taken<std::shared_ptr<InitialWords<T>>>(
        value, "initial", (std::string("None or an Initial of ") + ElementName<T>::kName).c_str());
  require_initial(initial, shape);
  return initial;
}

template <class T>
typename Version<T>::Pointer fresh(nb::handle sizes_, nb::handle initial_) {
  const auto& sizes = taken_object<SearchedShape>(sizes_, "sizes", "a Sizes");
  std::shared_ptr<InitialWords<T>> initial = initial_from<T>(initial_, sizes);
  return Version<T>::fresh(sizes, std::move(initial));
}

template <class T>
typename Version<T>::Pointer restored_from(nb::handle sizes_, nb::handle initial_, nb::handle parts) {
  const auto& sizes = taken_object<SearchedShape>(sizes_, "sizes", "a Sizes");
  std::shared_ptr<InitialWords<T>> initial = initial_from<T>(initial_, sizes);
  if (!nb::isinstance<nb::dict>(parts)) refuse("parts", "a dict of arrays", described(parts));
  const char* names[] = {"rows",         "words",        "recency",    "link_ids",
                         "link_columns", "link_weights", "usage_rows", "usage"};
  for (nb::handle key : nb::borrow<nb::dict>(parts).keys()) {
    const std::string name = text(key);
    if (std::find(std::begin(names), std::end(names), name) == std::end(names))
      refuse("parts", "the keys of `export`", "'" + name + "'");
  }
  const bool links = sizes.k_links > 0, usage = sizes.free_usage;
  SavedMemory<T> saved;
  take(parts, "rows", {kAny}, true, saved.rows);
  take(parts, "words", {int64_t(saved.rows.size()), sizes.width}, true, saved.words);
  take(parts, "recency", {kAny}, true, saved.recency);
  take(parts, "link_ids", {kAny}, links, saved.link_ids);
  take(parts, "link_columns", {int64_t(saved.link_ids.size()), links ? sizes.k_links : kAny}, links,
       saved.link_columns);
  take(parts, "link_weights", {int64_t(saved.link_ids.size()), links ? sizes.k_links : kAny}, links,
       saved.link_weights);
  take(parts, "usage_rows", {kAny}, usage, saved.usage_rows);
  take(parts, "usage", {int64_t(saved.usage_rows.size())}, usage, saved.usage);
  nb::gil_scoped_release unlocked;
  return restored<T>(sizes, std::move(initial), saved, sequence_kernels<T>().norm);
}

// Rows written in an episode and their words, rows ascending.
template <class T>
nb::tuple written_rows(Version<T>& version) {
  SavedMemory<T> saved = saved_part(version, [](Timeline<T>& timeline) -> Memory<T>& { return timeline.memory; });
  const size_t count = saved.rows.size(), width = size_t(version.shape().width);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return saved.rows[a] < saved.rows[b]; });
  std::vector<int64_t> rows;
  std::vector<T> words;
  rows.reserve(count);
  words.reserve(count * width);
  for (const size_t i : order) {
    rows.push_back(saved.rows[i]);
    words.insert(words.end(), saved.words.begin() + int64_t(i * width), saved.words.begin() + int64_t((i + 1) * width));
  }
  return nb::make_tuple(to_numpy(std::move(rows), {count}), to_numpy(std::move(words), {count, width}));
}

// Rows of links that are not empty, as `Links` names them, their columns (-1 for none) and weights, K_L to a row.
template <class T>
nb::tuple link_rows(Version<T>& version) {
  if (version.shape().k_links == 0) throw std::invalid_argument("this memory has no links");
  SavedMemory<T> saved = saved_part(version, [](Timeline<T>& timeline) -> Links<T>& { return *timeline.links; });
  const size_t count = saved.link_ids.size(), k = size_t(version.shape().k_links);
  return nb::make_tuple(to_numpy(std::move(saved.link_ids), {count}), to_numpy(std::move(saved.link_columns), {count, k}),
                        to_numpy(std::move(saved.link_weights), {count, k}));
}

// Rows of usage above 0, ascending, and their usage.
template <class T>
nb::tuple usage_rows(Version<T>& version) {
  if (!version.shape().free_usage) throw std::invalid_argument("this memory has a ring and no usage");
  SavedMemory<T> saved = saved_part(version, [](Timeline<T>& timeline) -> UsageHeap<T>& { return *timeline.usage; });
  const size_t count = saved.usage.size();
  return nb::make_tuple(to_numpy(std::move(saved.usage_rows), {count}), to_numpy(std::move(saved.usage), {count}));
}

// What the memory's index proposes for a query; nothing when search is exact.
template <class T>
std::vector<int32_t> candidates(Version<T>& version, nb::handle query_) {
  const int32_t width = version.shape().width;
  const In<T> query(query_, "query", {width});
  return reading(version, [&](Timeline<T>& timeline) -> std::vector<int32_t> {
    MemoryIndex<T>* const index = index_of(timeline);
    if (index) index->prepare(1, 1);
    if (!index || index->is_exact()) return {};
    CandidateIndex::Scratch scratch;
    std::vector<int32_t> rows(index->max_candidates());
    rows.resize(index->propose(query.data(), word_norm(query.data(), width), scratch, rows.data()));
    return rows;
  });
}

template <class T>
void bind_version(nb::module_& m, const std::string& suffix) {
  using V = Version<T>;
  nb::class_<InitialWords<T>>(m, ("Initial" + suffix).c_str())
      .def(
          "__init__",
          [](InitialWords<T>* self, nb::handle words_) {
            const In<T> words(words_, "words", {kAny, kAny});
            require_within("words: rows", words.length(0), 1, INT32_MAX);
            require_within("words: width", words.length(1), 1, 1 << 20);
            interruptible([&] {
              new (self) InitialWords<T>(words.data(), int32_t(words.length(0)), int32_t(words.length(1)));
            });
          },
          "words"_a.none())
      .def_prop_ro("indexes",
                   [](const InitialWords<T>& self) {
                     const nb::gil_scoped_release unlocked;  // who builds one holds the lock, and takes the GIL
                     const std::lock_guard<std::mutex> hold(self.lock);
                     return self.indexes.size();
                   })
      .def(
          "words",  // all words, or those of some rows
          [](const InitialWords<T>& self, nb::handle rows_) {
            std::vector<int64_t> rows;
            if (rows_.is_none()) {
              rows.resize(size_t(self.rows));
              std::iota(rows.begin(), rows.end(), 0);
            } else {
              const In<int64_t> given(rows_, "rows", {kAny});
              rows.assign(given.data(), given.data() + given.size());
            }
            std::vector<T> out;
            out.reserve(rows.size() * size_t(self.width));
            for (const int64_t row : rows) {
              require_within("rows", row, 0, self.rows - 1);
              out.insert(out.end(), self.word(int32_t(row)), self.word(int32_t(row)) + self.width);
            }
            return to_numpy(std::move(out), {rows.size(), size_t(self.width)});
          },
          "rows"_a.none() = nb::none())
      .def(
          "equals",
          [](const InitialWords<T>& self, nb::handle words_) {
            const In<T> words(words_, "words", {kAny, kAny});
            if (words.length(0) != self.rows || words.length(1) != self.width) return false;
            nb::gil_scoped_release unlocked;
            return self.equals(words.data());
          },
          "words"_a.none());
  using Batch = VersionBatch<T>;
  nb::class_<Batch>(m, ("Versions" + suffix).c_str())
      .def("__len__", [](const Batch& batch) { return batch.versions.size(); })
      .def("__getitem__", [](const Batch& batch, int64_t b) {
        if (b < 0 || b >= int64_t(batch.versions.size())) throw nb::index_error("b: expected a batch element");
        return batch.versions[size_t(b)];
      });
  nb::class_<V>(m, ("Version" + suffix).c_str())
      .def_static("fresh", &fresh<T>, "sizes"_a.none(), "initial"_a.none() = nb::none())
      .def_static("restored", &restored_from<T>, "sizes"_a.none(), "initial"_a.none(), "parts"_a.none())
      .def("export", &exported<T>)
      .def("copied",
           [](V& version) { return reading(version, [&](Timeline<T>&) { return copied(version); }); })
      .def("written_rows", &written_rows<T>)
      .def("recency",
           [](V& version) { return reading(version, [](Timeline<T>& timeline) { return timeline.ring.recency(); }); })
      .def("link_rows", &link_rows<T>)
      .def("usage_rows", &usage_rows<T>)
      .def("candidates", &candidates<T>, "query"_a.none())
      .def_prop_ro("is_current",
                   [](V& version) {
                     nb::gil_scoped_release unlocked;
                     const Claim<T> claim(version);
                     return version.is_current();
                   })
      .def_prop_ro("index_used",  // what answered last: "linear", "scan", "kdtree" or "lsh"
                   [](V& version) {
                     nb::gil_scoped_release unlocked;
                     const Claim<T> claim(version);
                     const MemoryIndex<T>* index = index_of(version.timeline());
                     return index ? index->used() : std::string("linear");
                   })
      .def_prop_ro("indexed", [](V& version) {  // words in the memory's index, -1 when search is exact
        nb::gil_scoped_release unlocked;
        const Claim<T> claim(version);
        const MemoryIndex<T>* index = index_of(version.timeline());
        return index && !index->is_exact() ? index->index()->size() : -1;
      });
}

}  // namespace

void bind_versions(nb::module_& m) {
  bind_version<float>(m, "32");
  bind_version<double>(m, "64");
}

}  // namespace sparsam
