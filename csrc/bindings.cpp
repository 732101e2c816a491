// The core as a Python module: arrays come in over DLPack, nothing is copied, the GIL is released while kernels run.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings_index.h"
#include "parallel.h"
#include "ring.h"
#include "sequence.h"
#include "timeline.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsam {
namespace {

template <class T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
template <class T>
using Versions = std::vector<typename Version<T>::Pointer>;

// A numpy array that owns its numbers.
template <class T>
nb::ndarray<nb::numpy, T> to_numpy(std::vector<T> values, std::vector<size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner);
}

template <class T>
T* pointer(const Array<T>& array, size_t expected, const char* name) {
  if (array.size() != expected)
    throw std::invalid_argument(std::string(name) + ": expected " + std::to_string(expected) + " numbers, got " +
                                std::to_string(array.size()));
  return array.data();
}

// What a forward pass leaves for its backward pass, beside the tensors of the tape.
template <class T>
struct Record {
  SamShape shape;
  std::vector<int64_t> lengths;
  Versions<T> before, after;
  std::vector<std::shared_ptr<Journal<T>>> journals;

  size_t bytes() const {
    size_t total = 0;
    for (const auto& journal : journals) total += journal ? journal->bytes() : 0;
    return total;
  }
};

// Claims the buffers for one call, so that two threads with the same state get an error and not each other's words.
template <class T>
class Claim {
 public:
  explicit Claim(const Versions<T>& versions) {
    for (const auto& version : versions) {
      if (version->timeline().busy.test_and_set()) {
        release();
        throw std::runtime_error("state: its memory is in use by another thread; give each thread a clone()");
      }
      claimed_.push_back(&version->timeline());
    }
  }
  Claim(const Claim&) = delete;
  ~Claim() { release(); }

 private:
  void release() {
    for (Timeline<T>* timeline : claimed_) timeline->busy.clear();
    claimed_.clear();
  }
  std::vector<Timeline<T>*> claimed_;
};

// Lets the thread that made the call look for Ctrl-C; Python runs signal handlers in the main thread alone.
std::function<void()> signal_check() {
  return [caller = std::this_thread::get_id()] {
    if (std::this_thread::get_id() != caller) return;
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  };
}

// Takes back what is left of a sequence that ended by an exception: the states that came in stay what they are.
template <class T>
void abandon(const std::vector<Timeline<T>*>& timelines, const std::vector<Journal<T>*>& journals) {
  for (size_t b = 0; b < timelines.size(); ++b)
    if (journals[b])
      for (int64_t step = journals[b]->applied(); step-- > 0;)
        journals[b]->undo(timelines[b]->memory, timelines[b]->ring, timelines[b]->links.get(), step);
}

template <class T>
struct TapeArrays {
  Array<T> gates, cells, joint, interface;
  Array<int32_t> read_rows;
  Array<T> read_weights, scores;
  std::optional<Array<int32_t>> unused, content_rows;  // the content of SDNC
  std::optional<Array<T>> content_weights;

  SamTape<T> tape(const SamShape& s) const {
    const size_t steps = size_t(s.steps) * s.batch, states = size_t(s.steps + 1) * s.batch;
    return {pointer(gates, steps * 4 * s.hidden, "gates"),
            pointer(cells, states * s.hidden, "cells"),
            pointer(joint, states * s.joint(), "joint"),
            pointer(interface, steps * s.interface(), "interface"),
            pointer(read_rows, states * s.reads(), "read_rows"),
            pointer(read_weights, states * s.reads(), "read_weights"),
            pointer(scores, steps * s.reads(), "scores"),
            unused ? pointer(*unused, steps * s.heads, "unused") : nullptr,
            content_rows ? pointer(*content_rows, steps * s.reads(), "content_rows") : nullptr,
            content_weights ? pointer(*content_weights, steps * s.reads(), "content_weights") : nullptr};
  }
};

template <class T>
std::shared_ptr<Record<T>> forward(const SamShape& s, Array<T> recurrent, Array<T> interface_weight,
                                   Array<T> interface_bias, std::vector<int64_t> lengths, const TapeArrays<T>& arrays,
                                   Versions<T> versions, bool record, int threads) {
  SamForward<T> f{s,
                  pointer(recurrent, size_t(4) * s.hidden * s.joint(), "recurrent"),
                  pointer(interface_weight, size_t(s.interface()) * s.hidden, "interface_weight"),
                  pointer(interface_bias, s.interface(), "interface_bias"),
                  nullptr,
                  arrays.tape(s),
                  {},
                  {},
                  signal_check()};
  auto result = std::make_shared<Record<T>>(Record<T>{s, std::move(lengths), std::move(versions), {}, {}});
  f.lengths = result->lengths.data();
  nb::gil_scoped_release unlocked;
  const Claim<T> claim(result->before);
  for (int b = 0; b < s.batch; ++b) {
    result->before[b]->make_current();
    f.timelines.push_back(&result->before[b]->timeline());
    use_index(f.timelines[b]->index, f.timelines[b]->memory, s.index.get(), s.similarity == Similarity::kCosine,
              threads);
    result->journals.push_back(record ? std::make_shared<Journal<T>>(result->lengths[b], s.max_writes(),
                                                                     s.max_touched(), s.width, s.k_links)
                                      : nullptr);
    f.journals.push_back(result->journals.back().get());
  }
  try {
    sequence_kernels<T>().forward(f, threads);
  } catch (...) {
    abandon<T>(f.timelines, f.journals);
    throw;
  }
  for (int b = 0; b < s.batch; ++b) result->after.push_back(result->before[b]->advanced(result->journals[b]));
  if (!record) result->before.clear();
  return result;
}

// Gradients with respect to the links as (batch, row of `Links`, column) triples and values.
template <class T>
std::vector<LinkEntries<T>> links_from_arrays(int32_t batch, const std::optional<Array<int64_t>>& at,
                                              const std::optional<Array<T>>& values) {
  std::vector<LinkEntries<T>> out(batch);
  if (!at) return out;
  const size_t count = at->size() / 3;
  const T* value = pointer(*values, count, "link_values");
  for (size_t i = 0; i < count; ++i) {
    LinkEntries<T>& to = out.at(at->data()[i]);
    to.ids.push_back(at->data()[count + i]);
    to.columns.push_back(int32_t(at->data()[2 * count + i]));
    to.values.push_back(value[i]);
  }
  return out;
}

template <class T>
std::pair<nb::ndarray<nb::numpy, int64_t>, nb::ndarray<nb::numpy, T>> links_to_arrays(
    const std::vector<LinkEntries<T>>& links) {
  size_t count = 0;
  for (const auto& one : links) count += one.ids.size();
  std::vector<int64_t> at(3 * count);
  std::vector<T> values;
  for (size_t b = 0; b < links.size(); ++b)
    for (size_t i = 0; i < links[b].ids.size(); ++i) {
      at[values.size()] = int64_t(b);
      at[count + values.size()] = links[b].ids[i];
      at[2 * count + values.size()] = links[b].columns[i];
      values.push_back(links[b].values[i]);
    }
  return {to_numpy(std::move(at), {3, count}), to_numpy(std::move(values), {count})};
}

// Gradients with respect to the memories go in and come out as (batch, row) pairs and words, then those of the links.
template <class T>
nb::tuple backward(
    Record<T>& record, Array<T> recurrent, Array<T> interface_weight, const TapeArrays<T>& arrays, Array<T> d_joint,
    Array<T> d_state_joint, Array<T> d_state_cell, Array<T> d_state_weights, std::optional<Array<int64_t>> memory_at,
    std::optional<Array<T>> memory_words, std::optional<Array<int64_t>> link_at, std::optional<Array<T>> link_values,
    int threads) {
  const SamShape& s = record.shape;
  if (record.before.empty()) throw std::runtime_error("this forward pass kept no journal");
  SamBackward<T> f{s,
                   pointer(recurrent, size_t(4) * s.hidden * s.joint(), "recurrent"),
                   pointer(interface_weight, size_t(s.interface()) * s.hidden, "interface_weight"),
                   record.lengths.data(),
                   arrays.tape(s),
                   pointer(d_joint, size_t(s.steps) * s.batch * s.joint(), "d_joint"),
                   pointer(d_state_joint, size_t(s.batch) * s.joint(), "d_state_joint"),
                   pointer(d_state_cell, size_t(s.batch) * s.hidden, "d_state_cell"),
                   pointer(d_state_weights, size_t(s.batch) * s.reads(), "d_state_weights"),
                   std::vector<RowGradients<T>>(s.batch),
                   links_from_arrays<T>(s.batch, link_at, link_values),
                   {},
                   {},
                   signal_check()};
  if (memory_at) {
    const size_t count = memory_at->size() / 2;
    const int64_t* at = memory_at->data();  // (2, count): batch elements, rows
    const T* words = pointer(*memory_words, count * s.width, "memory_words");
    for (size_t i = 0; i < count; ++i) {
      RowGradients<T>& to = f.d_memory.at(at[i]);
      to.rows.push_back(static_cast<int32_t>(at[count + i]));
      to.words.insert(to.words.end(), words + i * s.width, words + (i + 1) * s.width);
    }
  }
  {
    nb::gil_scoped_release unlocked;
    const Claim<T> claim(record.after);
    for (int b = 0; b < s.batch; ++b) {
      record.after[b]->make_current();
      f.timelines.push_back(&record.after[b]->timeline());
      f.journals.push_back(record.journals[b].get());
    }
    try {
      sequence_kernels<T>().backward(f, threads);
    } catch (...) {
      abandon<T>(f.timelines, f.journals);
      for (int b = 0; b < s.batch; ++b) record.after[b]->note_undone(record.before[b]);
      throw;
    }
    for (int b = 0; b < s.batch; ++b) record.after[b]->note_undone(record.before[b]);
  }
  std::vector<int64_t> batches, rows;
  std::vector<T> words;
  for (int b = 0; b < s.batch; ++b) {
    batches.insert(batches.end(), f.d_memory[b].rows.size(), b);
    rows.insert(rows.end(), f.d_memory[b].rows.begin(), f.d_memory[b].rows.end());
    words.insert(words.end(), f.d_memory[b].words.begin(), f.d_memory[b].words.end());
  }
  const size_t count = rows.size();
  batches.insert(batches.end(), rows.begin(), rows.end());
  const auto [links_at, links] = links_to_arrays(f.d_links);
  return nb::make_tuple(to_numpy(std::move(batches), {2, count}), to_numpy(std::move(words), {count, size_t(s.width)}),
                        links_at, links);
}

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
                                      int32_t k_links) {
  auto timeline = std::make_shared<Timeline<T>>(rows, width, std::move(initial), k_links);
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

// out (m, n) = a^T b for a (depth, m) and b (depth, n) whose rows are contiguous.
template <class T>
void tall_product(nb::ndarray<const T, nb::ndim<2>, nb::device::cpu> a, nb::ndarray<const T, nb::ndim<2>, nb::device::cpu> b,
                  Array<T> out, int threads) {
  if (a.shape(0) != b.shape(0) || (a.shape(1) > 1 && a.stride(1) != 1) || (b.shape(1) > 1 && b.stride(1) != 1))
    throw std::invalid_argument("a, b: expected equally many rows of contiguous numbers");
  T* c = pointer(out, a.shape(1) * b.shape(1), "out");
  nb::gil_scoped_release unlocked;
  sequence_kernels<T>().tall_product(a.data(), a.stride(0), b.data(), b.stride(0), int64_t(a.shape(0)),
                                     int(a.shape(1)), int(b.shape(1)), c, threads);
}

template <class T>
void bind(nb::module_& m, const std::string& suffix) {
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
          [](int32_t rows, int32_t width, std::shared_ptr<InitialWords<T>> initial, int32_t k_links) {
            return std::make_shared<Version<T>>(
                std::make_shared<Timeline<T>>(rows, width, std::move(initial), k_links));
          },
          "rows"_a, "width"_a, "initial"_a = nb::none(), "k_links"_a = 0)
      .def_static("restored", &restored<T>, "rows"_a, "width"_a, "initial"_a.none(), "written"_a, "words"_a, "recency"_a,
                  "k_links"_a = 0)
      .def("link_rows", &link_rows<T>)
      .def("restore_links", &restore_links<T>)
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
      .def("written_rows", &written_rows<T>)
      .def("recency", [](Version<T>& version) {
        version.make_current();
        return version.timeline().ring.recency();
      });
  nb::class_<Record<T>>(m, ("Record" + suffix).c_str())
      .def_ro("after", &Record<T>::after)
      .def_prop_ro("bytes", &Record<T>::bytes);
  nb::class_<TapeArrays<T>>(m, ("Tape" + suffix).c_str())
      .def(
          "__init__",
          [](TapeArrays<T>* self, Array<T> gates, Array<T> cells, Array<T> joint, Array<T> interface,
             Array<int32_t> read_rows, Array<T> read_weights, Array<T> scores, std::optional<Array<int32_t>> unused,
             std::optional<Array<int32_t>> content_rows, std::optional<Array<T>> content_weights) {
            new (self) TapeArrays<T>{gates,  cells,  joint,        interface,      read_rows, read_weights,
                                     scores, unused, content_rows, content_weights};
          },
          "gates"_a, "cells"_a, "joint"_a, "interface"_a, "read_rows"_a, "read_weights"_a, "scores"_a,
          "unused"_a = nb::none(), "content_rows"_a = nb::none(), "content_weights"_a = nb::none());
  m.def("forward", &forward<T>);
  m.def("backward", &backward<T>);
  m.def("tall_product", &tall_product<T>);
}

}  // namespace

NB_MODULE(_native, m) {
  // States and graphs that live until the interpreter ends are no leak.
  nb::set_leak_warnings(false);
  nb::class_<Ring>(m, "Ring")
      .def(nb::init<int32_t>())
      .def("first",
           [](const Ring& ring, int32_t count) {
             std::vector<int32_t> rows(count);
             ring.first(count, rows.data());
             return rows;
           })
      .def("move_to_back", &Ring::move_to_back)
      .def("undo", &Ring::undo)
      .def("recency", &Ring::recency);
  nb::enum_<Similarity>(m, "Similarity")
      .value("cosine", Similarity::kCosine)
      .value("euclidean", Similarity::kEuclidean)
      .value("dot", Similarity::kDot);
  nb::class_<SamShape>(m, "SamShape")
      .def(
          "__init__",
          [](SamShape* self, int64_t steps, int32_t batch, int32_t hidden, int32_t rows, int32_t width, int32_t heads,
             int32_t k, Similarity similarity, double delta, int32_t k_links, bool link_gradients) {
            new (self) SamShape{steps, batch, hidden,     rows,  width,   heads,
                                k,     similarity, delta, k_links, link_gradients, nullptr};
          },
          "steps"_a, "batch"_a, "hidden"_a, "rows"_a, "width"_a, "heads"_a, "k"_a, "similarity"_a, "delta"_a,
          "k_links"_a = 0, "link_gradients"_a = false)
      .def_prop_rw(
          "index", [](const SamShape& self) { return std::const_pointer_cast<IndexSettings>(self.index); },
          [](SamShape& self, std::shared_ptr<IndexSettings> index) { self.index = std::move(index); }, nb::arg().none())
      .def_ro("steps", &SamShape::steps);
  bind_indexes(m);
  bind<float>(m, "32");
  bind<double>(m, "64");
  m.def("use_openmp_runtime", &use_openmp_runtime);
  m.def("selected_isa", &selected_isa);
}

}  // namespace sparsam
