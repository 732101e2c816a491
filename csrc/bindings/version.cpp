// Versions of memories in Python: made, copied, read out and restored. All that reads takes the claim.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "bindings/tensors.h"
#include "bindings/memories.h"
#include "index/memory_index.h"
#include "memory/timeline.h"
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
// The arrays of a version's parts, "words", "ring", "links" and "usage", or of those that are named.
template <class T>
nb::dict exported(Version<T>& version, nb::handle names_) {
  const StoredShape& shape = version.shape();
  std::vector<std::string> names{"words", "ring"};
  if (shape.k_links > 0) names.push_back("links");
  if (shape.free_usage) names.push_back("usage");
  if (!names_.is_none()) {
    const auto wanted = taken<std::vector<std::string>>(names_, "names", "None or a list of parts");
    for (const std::string& name : wanted)
      if (std::find(names.begin(), names.end(), name) == names.end())
        refuse("names", "parts that this memory has", "'" + name + "'");
    names = wanted;
  }
  auto is_wanted = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  SavedMemory<T> all = reading(version, [&](Timeline<T>& timeline) {
    SavedMemory<T> saved;
    if (is_wanted("words")) timeline.memory.save_to(saved);
    if (is_wanted("ring")) timeline.ring.save_to(saved);
    if (is_wanted("links")) timeline.links->save_to(saved);
    if (is_wanted("usage")) timeline.usage->save_to(saved);
    return saved;
  });
  nb::dict out;
  all.each(shape, [&](const char* part, const char* name, auto& array, int64_t, int64_t columns) {
    if (!is_wanted(part)) return;
    std::vector<size_t> lengths{columns == 0 ? array.size() : array.size() / size_t(columns)};
    if (columns > 0) lengths.push_back(size_t(columns));
    out[name] = to_numpy(std::move(array), std::move(lengths));
  });
  return out;
}

template <class T>
std::shared_ptr<InitialWords<T>> initial_from(nb::handle value, const StoredShape& shape) {
  std::shared_ptr<InitialWords<T>> initial;
  if (!value.is_none())
    initial = taken<std::shared_ptr<InitialWords<T>>>(
        value, "initial", (std::string("None or an Initial of ") + element_name<T>()).c_str());
  if (initial && (initial->rows != shape.rows || initial->width != shape.width))
    refuse("initial", std::to_string(shape.rows) + " words of width " + std::to_string(shape.width),
           std::to_string(initial->rows) + " of width " + std::to_string(initial->width));
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
  nb::dict left;
  left.update(parts);
  SavedMemory<T> saved;
  saved.each(sizes, [&](const std::string& part, const char* name, auto& array, int64_t length, int64_t columns) {
    const bool needed = part == "links" ? sizes.k_links > 0 : part != "usage" || sizes.free_usage;
    if (!left.contains(name)) return needed ? refuse(name, "an array in parts", "none") : void();
    std::vector<int64_t> lengths{length};
    if (columns != 0) lengths.push_back(columns);
    const In<typename std::decay_t<decltype(array)>::value_type> given(nb::object(left[name]), name, lengths);
    array.assign(given.data(), given.data() + given.size());
    nb::del(left[name]);
  });
  for (const auto& [key, value] : left) refuse("parts", "the keys of `export`", "'" + text(key) + "'");
  nb::gil_scoped_release unlocked;
  return restored<T>(sizes, std::move(initial), saved, sequence_kernels<T>().norm);
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
    std::vector<int32_t> rows(index->max_candidates());
    const T norm = word_norm(query.data(), width);
    int32_t count = 0;
    index->propose(query.data(), width, &norm, 1, rows.data(), index->max_candidates(), &count);
    rows.resize(count);
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
      .def("export", &exported<T>, "names"_a.none() = nb::none())
      .def("copied",
           [](V& version) { return reading(version, [&](Timeline<T>&) { return copied(version); }); })
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
        return index && !index->is_exact() ? index->size() : -1;
      });
}

}  // namespace

void bind_versions(nb::module_& m) {
  bind_version<float>(m, "32");
  bind_version<double>(m, "64");
}

}  // namespace sparsam
