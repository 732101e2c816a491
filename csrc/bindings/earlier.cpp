// What the Python of before `Sizes` calls: sequences whose tape Python makes, and memories restored part by part.
// To be deleted together with that Python.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings/bindings.h"
#include "bindings/results.h"
#include "bindings/signals.h"
#include "memory/claim.h"
#include "step/sequence.h"

using namespace nanobind::literals;

namespace sparsam {
namespace {

template <class T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <class T>
T* pointer(const Array<T>& array, size_t expected, const char* name) {
  if (array.size() != expected)
    throw std::invalid_argument(std::string(name) + ": expected " + std::to_string(expected) + " numbers, got " +
                                std::to_string(array.size()));
  return array.data();
}

struct SamShape : MemoryShape {
  int64_t steps;
  int32_t batch, hidden;
};

template <class T>
struct EarlierRecord {
  SequenceShape shape;
  std::vector<int64_t> lengths;
  Versions<T> before, after;
  std::vector<std::shared_ptr<Journal<T>>> journals;
  size_t bytes() const {
    size_t total = 0;
    for (const auto& journal : journals) total += journal ? journal->bytes() : 0;
    return total;
  }
};

template <class T>
void abandon(const std::vector<Timeline<T>*>& timelines, const std::vector<Journal<T>*>& journals) {
  for (size_t b = 0; b < timelines.size(); ++b)
    if (journals[b])
      for (int64_t step = journals[b]->applied(); step-- > 0;) journals[b]->undo(timelines[b]->parts, step);
}

template <class T>
struct EarlierTape {
  Array<T> gates, cells, joint, interface;
  Array<int32_t> read_rows;
  Array<T> read_weights, scores;
  std::optional<Array<int32_t>> unused, content_rows;
  std::optional<Array<T>> content_weights, room;

  Tape<T> tape(const SequenceShape& s) const {
    const size_t steps = size_t(s.steps) * s.batch, states = size_t(s.steps + 1) * s.batch;
    return {pointer(gates, steps * 4 * s.hidden, "gates"),
            pointer(cells, states * s.hidden, "cells"),
            pointer(joint, states * s.joint, "joint"),
            pointer(interface, steps * s.interface, "interface"),
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
Weights<T> weights(const SequenceShape& s, const Array<T>& recurrent, const Array<T>& interface_weight) {
  const T* w = pointer(recurrent, size_t(4) * s.hidden * s.joint, "recurrent");
  return {w + s.hidden, s.joint, w, s.joint, nullptr, nullptr,
          pointer(interface_weight, size_t(s.interface) * s.hidden, "interface_weight"), nullptr};
}

template <class T>
std::shared_ptr<EarlierRecord<T>> forward(const SamShape& sam, Array<T> recurrent, Array<T> interface_weight,
                                          Array<T> interface_bias, std::vector<int64_t> lengths,
                                          const EarlierTape<T>& arrays, Versions<T> versions, bool record, int threads) {
  const SequenceShape s(sam, Cell::lstm, sam.steps, sam.batch, 0, sam.hidden);
  if (s.free_usage && !(arrays.unused && arrays.room))
    throw std::invalid_argument("tape: allocation by usage needs unused and room");
  SequenceForward<T> f{s,  weights(s, recurrent, interface_weight), nullptr, nullptr, arrays.tape(s), nullptr, {}, {},
                       signal_check()};
  f.weights.b_interface = pointer(interface_bias, s.interface, "interface_bias");
  auto result = std::make_shared<EarlierRecord<T>>(EarlierRecord<T>{s, std::move(lengths), std::move(versions), {}, {}});
  f.lengths = result->lengths.data();
  nb::gil_scoped_release unlocked;
  const Claim<T> claim(result->before);
  for (int b = 0; b < s.batch; ++b) {
    result->before[b]->make_current();
    f.timelines.push_back(&result->before[b]->timeline());
    use_index(f.timelines[b]->index, f.timelines[b]->memory, s.index.get(), s.similarity == Similarity::kCosine,
              threads, s.similarity == Similarity::kEuclidean);
    result->journals.push_back(
        record ? std::make_shared<Journal<T>>(result->lengths[b], s, f.timelines[b]->parts) : nullptr);
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

template <class T>
nb::tuple backward(EarlierRecord<T>& record, Array<T> recurrent, Array<T> interface_weight,
                   const EarlierTape<T>& arrays, Array<T> d_joint, Array<T> d_state_joint, Array<T> d_state_cell,
                   Array<T> d_state_weights, std::optional<Array<int64_t>> memory_at,
                   std::optional<Array<T>> memory_words, std::optional<Array<int64_t>> link_at,
                   std::optional<Array<T>> link_values, int threads) {
  const SequenceShape& s = record.shape;
  if (record.before.empty()) throw std::runtime_error("this forward pass kept no journal");
  SequenceBackward<T> f{s,
                        weights(s, recurrent, interface_weight),
                        nullptr,
                        record.lengths.data(),
                        arrays.tape(s),
                        pointer(d_joint, size_t(s.steps) * s.batch * s.joint, "d_joint"),
                        pointer(d_state_joint, size_t(s.batch) * s.joint, "d_state_joint"),
                        pointer(d_state_cell, size_t(s.batch) * s.hidden, "d_state_cell"),
                        pointer(d_state_weights, size_t(s.batch) * s.reads(), "d_state_weights"),
                        std::vector<RowGradients<T>>(s.batch),
                        std::vector<LinkEntries<T>>(s.batch),
                        {},
                        {},
                        {},
                        signal_check()};
  if (link_at) {
    const size_t count = link_at->size() / 3;
    const T* value = pointer(*link_values, count, "link_values");
    for (size_t i = 0; i < count; ++i) {
      LinkEntries<T>& to = f.d_links.at(link_at->data()[i]);
      to.ids.push_back(link_at->data()[count + i]);
      to.columns.push_back(int32_t(link_at->data()[2 * count + i]));
      to.values.push_back(value[i]);
    }
  }
  if (memory_at) {
    const size_t count = memory_at->size() / 2;
    const int64_t* at = memory_at->data();
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
  std::vector<int64_t> batches, rows, link_batches, ids, columns;
  std::vector<T> words, values;
  for (int b = 0; b < s.batch; ++b) {
    batches.insert(batches.end(), f.d_memory[b].rows.size(), b);
    rows.insert(rows.end(), f.d_memory[b].rows.begin(), f.d_memory[b].rows.end());
    words.insert(words.end(), f.d_memory[b].words.begin(), f.d_memory[b].words.end());
    link_batches.insert(link_batches.end(), f.d_links[b].ids.size(), b);
    ids.insert(ids.end(), f.d_links[b].ids.begin(), f.d_links[b].ids.end());
    columns.insert(columns.end(), f.d_links[b].columns.begin(), f.d_links[b].columns.end());
    values.insert(values.end(), f.d_links[b].values.begin(), f.d_links[b].values.end());
  }
  const size_t count = rows.size(), links = ids.size();
  batches.insert(batches.end(), rows.begin(), rows.end());
  link_batches.insert(link_batches.end(), ids.begin(), ids.end());
  link_batches.insert(link_batches.end(), columns.begin(), columns.end());
  return nb::make_tuple(to_numpy(std::move(batches), {2, count}), to_numpy(std::move(words), {count, size_t(s.width)}),
                        to_numpy(std::move(link_batches), {3, links}), to_numpy(std::move(values), {links}));
}

template <class T>
StoredShape stored_shape(int32_t rows, int32_t width, const std::shared_ptr<InitialWords<T>>& initial, int32_t k_links,
                         bool free_usage) {
  if (rows < 1) throw std::invalid_argument("rows: expected at least 1, got " + std::to_string(rows));
  if (width < 1 || width > 1 << 20) throw std::invalid_argument("width: expected at least 1, got " + std::to_string(width));
  if (k_links < 0 || k_links > 1 << 16) throw std::invalid_argument("k_links: expected at least 0");
  if (initial && (initial->rows != rows || initial->width != width))
    throw std::invalid_argument("initial: expected words of the memory's shape");
  return {rows, width, k_links, free_usage};
}

template <class T>
typename Version<T>::Pointer earlier_restored(int32_t rows, int32_t width, std::shared_ptr<InitialWords<T>> initial,
                                              Array<int64_t> written, Array<T> words,
                                              const std::vector<int32_t>& recency, int32_t k_links, bool free_usage) {
  SavedMemory<T> saved;
  saved.rows.assign(written.data(), written.data() + written.size());
  saved.words.assign(words.data(), words.data() + words.size());
  saved.recency.assign(recency.begin(), recency.end());
  const StoredShape shape = stored_shape<T>(rows, width, initial, k_links, free_usage);
  return restored<T>(shape, std::move(initial), saved, sequence_kernels<T>().norm);
}

template <class T>
void restore_links(Version<T>& version, Array<int64_t> ids, Array<int32_t> columns, Array<T> weights) {
  const Claim<T> claim(version);
  if (!version.timeline().links) throw std::invalid_argument("this memory has no links");
  SavedMemory<T> saved;
  saved.link_ids.assign(ids.data(), ids.data() + ids.size());
  saved.link_columns.assign(columns.data(), columns.data() + columns.size());
  saved.link_weights.assign(weights.data(), weights.data() + weights.size());
  version.timeline().links->restore(saved, sequence_kernels<T>().norm);
}

template <class T>
void restore_usage(Version<T>& version, Array<int64_t> rows, Array<T> values) {
  const Claim<T> claim(version);
  if (!version.timeline().usage) throw std::invalid_argument("this memory has a ring and no usage");
  SavedMemory<T> saved;
  saved.usage_rows.assign(rows.data(), rows.data() + rows.size());
  saved.usage.assign(values.data(), values.data() + values.size());
  version.timeline().usage->restore(saved, sequence_kernels<T>().norm);
}

template <class T>
void bind(nb::module_& m, const std::string& suffix) {
  nb::class_<EarlierRecord<T>>(m, ("EarlierRecord" + suffix).c_str())
      .def_ro("after", &EarlierRecord<T>::after)
      .def_prop_ro("bytes", &EarlierRecord<T>::bytes);
  nb::class_<EarlierTape<T>>(m, ("Tape" + suffix).c_str())
      .def(
          "__init__",
          [](EarlierTape<T>* self, Array<T> gates, Array<T> cells, Array<T> joint, Array<T> interface,
             Array<int32_t> read_rows, Array<T> read_weights, Array<T> scores, std::optional<Array<int32_t>> unused,
             std::optional<Array<int32_t>> content_rows, std::optional<Array<T>> content_weights,
             std::optional<Array<T>> room) {
            new (self) EarlierTape<T>{gates,  cells,  joint,        interface,       read_rows, read_weights,
                                      scores, unused, content_rows, content_weights, room};
          },
          "gates"_a, "cells"_a, "joint"_a, "interface"_a, "read_rows"_a, "read_weights"_a, "scores"_a,
          "unused"_a = nb::none(), "content_rows"_a = nb::none(), "content_weights"_a = nb::none(),
          "room"_a = nb::none());
  m.def("forward", &forward<T>);
  m.def("backward", &backward<T>);
  auto version = nb::borrow<nb::class_<Version<T>>>(m.attr(("Version" + suffix).c_str()));
  version
      .def_static(
          "fresh",
          [](int32_t rows, int32_t width, std::shared_ptr<InitialWords<T>> initial, int32_t k_links, bool free_usage) {
            return Version<T>::fresh(stored_shape<T>(rows, width, initial, k_links, free_usage), initial);
          },
          "rows"_a, "width"_a, "initial"_a = nb::none(), "k_links"_a = 0, "free_usage"_a = false)
      .def_static("restored", &earlier_restored<T>, "rows"_a, "width"_a, "initial"_a.none(), "written"_a, "words"_a,
                  "recency"_a, "k_links"_a = 0, "free_usage"_a = false)
      .def("restore_links", &restore_links<T>)
      .def("restore_usage", &restore_usage<T>);
}

}  // namespace

void bind_earlier(nb::module_& m) {
  nb::class_<SamShape>(m, "SamShape")
      .def(
          "__init__",
          [](SamShape* self, int64_t steps, int32_t batch, int32_t hidden, int32_t rows, int32_t width, int32_t heads,
             int32_t k, Similarity similarity, double delta, int32_t k_links, bool link_gradients, bool free_usage) {
            SamShape s;
            static_cast<StoredShape&>(s) = {rows, width, k_links, free_usage};
            s.heads = heads, s.k = k, s.similarity = similarity, s.delta = delta, s.link_gradients = link_gradients;
            s.steps = steps, s.batch = batch, s.hidden = hidden;
            require_valid(s);
            new (self) SamShape(s);
          },
          "steps"_a, "batch"_a, "hidden"_a, "rows"_a, "width"_a, "heads"_a, "k"_a, "similarity"_a, "delta"_a,
          "k_links"_a = 0, "link_gradients"_a = false, "free_usage"_a = false)
      .def_prop_rw(
          "index", [](const SamShape& self) { return std::const_pointer_cast<IndexSettings>(self.index); },
          [](SamShape& self, std::shared_ptr<IndexSettings> index) { self.index = std::move(index); }, nb::arg().none())
      .def_ro("steps", &SamShape::steps);
  bind<float>(m, "32");
  bind<double>(m, "64");
}

}  // namespace sparsam
