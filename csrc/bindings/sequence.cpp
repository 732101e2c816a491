// Whole sequences in Python: what a forward pass records, and the backward pass that takes it back.
#include "bindings/bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <optional>
#include <thread>

#include "step/sequence.h"

using namespace nanobind::literals;

namespace sparsam {
namespace {

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
        journals[b]->undo(timelines[b]->memory, timelines[b]->ring, timelines[b]->links.get(),
                          timelines[b]->usage.get(), step);
}

template <class T>
struct TapeArrays {
  Array<T> gates, cells, joint, interface;
  Array<int32_t> read_rows;
  Array<T> read_weights, scores;
  std::optional<Array<int32_t>> unused, content_rows;  // the content of SDNC, and `room` with usage
  std::optional<Array<T>> content_weights, room;

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
            content_weights ? pointer(*content_weights, steps * s.reads(), "content_weights") : nullptr,
            room ? pointer(*room, steps * s.heads, "room") : nullptr};
  }
};

template <class T>
std::shared_ptr<Record<T>> forward(const SamShape& s, Array<T> recurrent, Array<T> interface_weight,
                                   Array<T> interface_bias, std::vector<int64_t> lengths, const TapeArrays<T>& arrays,
                                   Versions<T> versions, bool record, int threads) {
  if (s.free_usage && !(arrays.unused && arrays.room))
    throw std::invalid_argument("tape: allocation by usage needs unused and room");
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
              threads, s.similarity == Similarity::kEuclidean);
    result->journals.push_back(record ? std::make_shared<Journal<T>>(result->lengths[b], s.max_writes(),
                                                                     s.max_moves(), s.width, s.k_links, s.max_changes())
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

template <class T>
using Rows = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;  // rows may lie apart, numbers in a row may not

template <class T>
void require_rows(const Rows<T>& array, const char* name) {
  if (array.shape(1) > 1 && array.stride(1) != 1)
    throw std::invalid_argument(std::string(name) + ": expected rows of contiguous numbers");
}

// out (rows, n) = a w^T + bias for a (rows, depth) and w (n, depth), as a linear layer has it; or, `forward` being
// false, a w for w (depth, n), as its gradient has it.
template <class T>
void row_product(Rows<T> a, Rows<T> w, std::optional<Array<T>> bias, bool forward, Array<T> out, int threads) {
  require_rows(a, "a");
  require_rows(w, "w");
  const size_t depth = w.shape(forward ? 1 : 0), columns = w.shape(forward ? 0 : 1);
  if (a.shape(1) != depth) throw std::invalid_argument("a, w: expected the same depth");
  T* c = pointer(out, a.shape(0) * columns, "out");
  const T* added = bias ? pointer(*bias, columns, "bias") : nullptr;
  const int stride = int(w.stride(0));
  nb::gil_scoped_release unlocked;
  sequence_kernels<T>().row_product(a.data(), a.stride(0), w.data(), forward ? 1 : stride, forward ? stride : 1, added,
                                    int64_t(a.shape(0)), int(depth), int(columns), c, threads);
}

// out (m, n) = a^T b for a (depth, m) and b (depth, n) whose rows are contiguous.
template <class T>
void tall_product(Rows<T> a, Rows<T> b, Array<T> out, int threads) {
  require_rows(a, "a");
  require_rows(b, "b");
  if (a.shape(0) != b.shape(0)) throw std::invalid_argument("a, b: expected equally many rows");
  T* c = pointer(out, a.shape(1) * b.shape(1), "out");
  nb::gil_scoped_release unlocked;
  sequence_kernels<T>().tall_product(a.data(), a.stride(0), b.data(), b.stride(0), int64_t(a.shape(0)),
                                     int(a.shape(1)), int(b.shape(1)), c, threads);
}

template <class T>
void bind_sequence(nb::module_& m, const std::string& suffix) {
  nb::class_<Record<T>>(m, ("Record" + suffix).c_str())
      .def_ro("after", &Record<T>::after)
      .def_prop_ro("bytes", &Record<T>::bytes);
  nb::class_<TapeArrays<T>>(m, ("Tape" + suffix).c_str())
      .def(
          "__init__",
          [](TapeArrays<T>* self, Array<T> gates, Array<T> cells, Array<T> joint, Array<T> interface,
             Array<int32_t> read_rows, Array<T> read_weights, Array<T> scores, std::optional<Array<int32_t>> unused,
             std::optional<Array<int32_t>> content_rows, std::optional<Array<T>> content_weights,
             std::optional<Array<T>> room) {
            new (self) TapeArrays<T>{gates,  cells,  joint,        interface,       read_rows, read_weights,
                                     scores, unused, content_rows, content_weights, room};
          },
          "gates"_a, "cells"_a, "joint"_a, "interface"_a, "read_rows"_a, "read_weights"_a, "scores"_a,
          "unused"_a = nb::none(), "content_rows"_a = nb::none(), "content_weights"_a = nb::none(),
          "room"_a = nb::none());
  m.def("forward", &forward<T>);
  m.def("backward", &backward<T>);
  m.def("row_product", &row_product<T>, "a"_a, "w"_a, "bias"_a.none(), "forward"_a, "out"_a, "threads"_a);
  m.def("tall_product", &tall_product<T>);
}

}  // namespace

void bind_sequences(nb::module_& m) {
  nb::enum_<Similarity>(m, "Similarity")
      .value("cosine", Similarity::kCosine)
      .value("euclidean", Similarity::kEuclidean)
      .value("dot", Similarity::kDot);
  nb::class_<SamShape>(m, "SamShape")
      .def(
          "__init__",
          [](SamShape* self, int64_t steps, int32_t batch, int32_t hidden, int32_t rows, int32_t width, int32_t heads,
             int32_t k, Similarity similarity, double delta, int32_t k_links, bool link_gradients, bool free_usage) {
            if (free_usage && k_links == 0) throw std::invalid_argument("free_usage: expected links (k_links > 0)");
            new (self) SamShape{steps,      batch, hidden,  rows,           width,      heads,  k,
                                similarity, delta, k_links, link_gradients, free_usage, nullptr};
          },
          "steps"_a, "batch"_a, "hidden"_a, "rows"_a, "width"_a, "heads"_a, "k"_a, "similarity"_a, "delta"_a,
          "k_links"_a = 0, "link_gradients"_a = false, "free_usage"_a = false)
      .def_prop_rw(
          "index", [](const SamShape& self) { return std::const_pointer_cast<IndexSettings>(self.index); },
          [](SamShape& self, std::shared_ptr<IndexSettings> index) { self.index = std::move(index); }, nb::arg().none())
      .def_ro("steps", &SamShape::steps);
  bind_sequence<float>(m, "32");
  bind_sequence<double>(m, "64");
}

}  // namespace sparsam
