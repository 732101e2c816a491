// Whole sequences in Python: what a forward pass records, and the backward pass that takes it back.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "bindings/tensors.h"
#include "bindings/memories.h"
#include "step/record.h"

using namespace nanobind::literals;

namespace sparsam {
namespace {

constexpr int64_t kMostBatch = 1 << 24, kMostHidden = 1 << 20;

// The parameters of a controller, checked against each other and kept alive; all None without one.
template <class T>
class Given {
 public:
  Given(const SequenceShape& s, Parameters<nb::handle> given) {
    auto take = [&](const char* name, int64_t rows, int64_t columns, nb::handle value, const T*& to) {
      if (rows == 0) return require_none(value, name, "without a controller or such a layer");
      to = arrays_.emplace_back(value, name, columns > 0 ? std::vector{rows, columns} : std::vector{rows}).data();
    };
    given.each(s, take, weights);
  }
  Weights<T> weights;

 private:
  std::vector<In<T>> arrays_;
};

SequenceShape sequence_shape(const SearchedShape& sizes, MemoryKind memory, ControllerKind controller, int64_t hidden,
                             int64_t steps, int64_t batch, int64_t inputs) {
  if (traits(memory).has_links != (sizes.k_links > 0))
    refuse("sizes", std::string(sizes.k_links > 0 ? "no links" : "links (k_links > 0)") + " for memory " + traits(memory).name,
           "k_links = " + std::to_string(sizes.k_links));
  const bool controls = traits(controller).blocks > 0;
  require_within("hidden", hidden, controls ? 1 : 0, controls ? kMostHidden : 0);
  require_within("x: batch elements", batch, 1, kMostBatch);
  require_within("x: inputs", inputs, 1, kMostHidden);
  return SequenceShape(sizes, memory, controller, steps, int32_t(batch), int32_t(inputs), int32_t(hidden));
}

// O of an output layer (O, H+RW), 0 for none: only a controller has one.
template <class T>
int32_t outputs_of(const SequenceShape& s, nb::handle w_output, nb::handle b_output) {
  if (w_output.is_none() || traits(s.controller).blocks == 0) {
    require_none(w_output, "w_output", "without a controller");
    require_none(b_output, "b_output", "without w_output");
    return 0;
  }
  const int64_t outputs = In<T>(w_output, "w_output", {kAny, s.joint}).length(0);
  require_within("w_output: outputs", outputs, 1, kMostHidden);
  return int32_t(outputs);
}

// A part of the state (B, H), or its gradient, where the controller has it; else None.
template <class T>
std::optional<In<T>> state_array(const SequenceShape& s, bool there, nb::handle value, const char* name) {
  if (!there) require_none(value, name, (std::string("for controller ") + traits(s.controller).name).c_str());
  if (!there) return std::nullopt;
  return std::make_optional<In<T>>(value, name, std::vector<int64_t>{s.batch, s.hidden});
}

std::vector<int64_t> lengths_from(nb::handle value, int64_t steps, int64_t batch) {
  if (value.is_none()) return std::vector<int64_t>(size_t(batch), steps);
  const In<int64_t> lengths(value, "lengths", {batch});
  std::vector<int64_t> out(lengths.data(), lengths.data() + batch);
  for (const int64_t length : out) require_within("lengths", length, 0, steps);
  return out;
}

template <class T>
std::shared_ptr<Record<T>> forward(nb::handle sizes_, nb::handle memory_, nb::handle controller_, nb::handle hidden_,
                                   nb::handle x_, nb::handle w_ih, nb::handle w_hh, nb::handle b_ih, nb::handle b_hh, nb::handle w_interface,
                                   nb::handle b_interface, nb::handle w_output, nb::handle b_output, nb::handle h0_,
                                   nb::handle c0_, nb::handle read0_, nb::handle weights0_, nb::handle rows0,
                                   nb::handle lengths, nb::handle versions, nb::handle record, nb::handle trace,
                                   nb::handle threads) {
  const auto& sizes = taken_object<SearchedShape>(sizes_, "sizes", "a Sizes");
  const auto memory = kind_named<MemoryKind>("memory", taken<std::string>(memory_, "memory"), kMemories);
  const auto controller =
      kind_named<ControllerKind>("controller", taken<std::string>(controller_, "controller"), kControllers);
  const auto hidden = taken<int64_t>(hidden_, "hidden");
  const bool controls = traits(controller).blocks > 0;
  const In<T> x(x_, "x", {kAny, kAny, controls ? kAny : InterfaceLayout(sizes).size});
  SequenceShape s = sequence_shape(sizes, memory, controller, hidden, x.length(0), x.length(1), x.length(2));
  s.outputs = outputs_of<T>(s, w_output, b_output);
  const Given<T> given(s, {w_ih, w_hh, b_ih, b_hh, w_interface, b_interface, w_output, b_output});
  const auto h0 = state_array<T>(s, controls, h0_, "h0"), c0 = state_array<T>(s, traits(controller).has_cell, c0_, "c0");
  std::optional<In<T>> read0;  // which a memory without a controller does not look at
  if (controls || !read0_.is_none()) read0.emplace(read0_, "read0", std::vector<int64_t>{s.batch, s.heads, s.width});
  const In<T> weights0(weights0_, "weights0", {s.batch, s.heads, s.k});
  require_weights(weights0);
  ForwardCall<T> call{s,
                      x.data(),
                      given.weights,
                      data_or_null(h0),
                      data_or_null(c0),
                      data_or_null(read0),
                      rows_from(rows0, s),
                      weights0.data(),
                      lengths_from(lengths, s.steps, s.batch),
                      versions_from<T>(versions, s.batch, sizes),
                      taken<bool>(record, "record"),
                      taken<bool>(trace, "trace"),
                      require_threads(threads)};
  return interruptible([&] { return run_forward(call); });
}

template <class T>
std::shared_ptr<Gradients<T>> backward(nb::handle record_, nb::handle x_, nb::handle w_ih,
                                       nb::handle w_hh, nb::handle b_ih, nb::handle b_hh, nb::handle w_interface,
                                       nb::handle b_interface, nb::handle w_output, nb::handle b_output,
                                       nb::handle d_out_, nb::handle d_hidden_,
                                       nb::handle d_cell_, nb::handle d_read_, nb::handle d_weights_,
                                       nb::handle memory_at, nb::handle memory_words, nb::handle link_at,
                                       nb::handle link_values, nb::handle needs_x, nb::handle threads,
                                       nb::handle needs_memory, nb::handle pending, nb::handle source, nb::handle pass,
                                       nb::handle clip_) {
  auto& record = taken_object<Record<T>>(record_, "record", (std::string("a Record of ") + element_name<T>()).c_str());
  const SequenceShape& s = record.shape;
  const bool controls = traits(s.controller).blocks > 0;
  std::optional<In<T>> x;
  if (controls || !x_.is_none()) x.emplace(x_, "x", std::vector<int64_t>{s.steps, s.batch, s.inputs});
  const Given<T> given(s, {w_ih, w_hh, b_ih, b_hh, w_interface, b_interface, w_output, b_output});
  const auto d_out = optional_array<T>(d_out_, "d_joint", {s.steps, s.batch, s.put_out()});
  const auto d_hidden = state_array<T>(s, controls && !d_hidden_.is_none(), d_hidden_, "d_hidden");
  const auto d_cell = state_array<T>(s, traits(s.controller).has_cell && !d_cell_.is_none(), d_cell_, "d_cell");
  const auto d_read = optional_array<T>(d_read_, "d_read", {s.batch, s.heads, s.width});
  const auto d_weights = optional_array<T>(d_weights_, "d_weights", {s.batch, s.heads, s.k});
  const double clip = taken<double>(clip_, "clip");
  if (!(std::isfinite(clip) && clip >= 0)) refuse("clip", "a finite number of at least 0", std::to_string(clip));
  BackwardCall<T> call{data_or_null(x),
                       given.weights,
                       data_or_null(d_out),
                       data_or_null(d_hidden),
                       data_or_null(d_cell),
                       data_or_null(d_read),
                       data_or_null(d_weights),
                       memory_gradients<T>(s, memory_at, memory_words),
                       link_gradients<T>(s, link_at, link_values),
                       taken<bool>(needs_x, "needs_x"),
                       taken<bool>(needs_memory, "needs_memory"),
                       require_threads(threads),
                       pending_from<T>(pending, "pending"),
                       pending_from<T>(source, "source"),
                       taken<int64_t>(pass, "pass_number"),
                       clip};
  return interruptible([&] { return run_backward(record, std::move(call)); });
}

template <class T>
nb::object trace(const Record<T>& r) {
  if (!r.trace) return nb::none();
  const auto steps = size_t(r.shape.steps), batch = size_t(r.shape.batch), heads = size_t(r.shape.heads),
             k = size_t(r.shape.k);
  const std::vector<size_t> reads{steps, batch, heads, k}, writes{steps, batch, heads, k + 1};
  return nb::make_tuple(to_numpy(r.trace->read_rows, reads), to_numpy(r.trace->read_weights, reads),
                        to_numpy(r.trace->write_rows, writes), to_numpy(r.trace->write_weights, writes));
}

// The shapes of the parts of a state, and of the parameters.
template <class Of>
struct Shapes {
  const SequenceShape& s;
  explicit Shapes(const Of& of) : s(of.shape) {}
  std::vector<size_t> hidden() const { return {size_t(s.batch), size_t(s.hidden)}; }
  std::vector<size_t> read() const { return {size_t(s.batch), size_t(s.heads), size_t(s.width)}; }
  std::vector<size_t> reads() const { return {size_t(s.batch), size_t(s.heads), size_t(s.k)}; }
  std::vector<size_t> steps(int32_t width) const { return {size_t(s.steps), size_t(s.batch), size_t(width)}; }
};

// (joint, or y with an output layer, hidden, cell, read, weights, rows, the versions after).
template <class T>
nb::tuple outputs(const Record<T>& r) {
  const Shapes shapes(r);
  return nb::make_tuple(to_python(r.out, shapes.steps(r.shape.put_out())), to_python(r.state.hidden, shapes.hidden()),
                        to_python(r.state.cell, shapes.hidden()), to_python(r.state.read, shapes.read()),
                        to_python(r.state.weights, shapes.reads()), to_python(r.state.rows, shapes.reads()),
                        VersionBatch<T>{r.after});
}

// In the order of the arguments of `forward`, from x to weights0; then of the memory and the links, where and what: None
// where nobody asks, or where they went elsewhere.
template <class T>
nb::list gradient_outputs(Gradients<T>& g) {
  const Shapes shapes(g);
  nb::list out;
  out.append(to_python(g.x, shapes.steps(g.shape.inputs)));
  g.parameters.each(g.shape, [&](const char*, int64_t rows, int64_t columns, const Numbers<T>& numbers) {
    out.append(to_python(numbers, columns > 0 ? std::vector{size_t(rows), size_t(columns)} : std::vector{size_t(rows)}));
  });
  out.append(to_python(g.state.hidden, shapes.hidden()));
  out.append(to_python(g.state.cell, shapes.hidden()));
  out.append(to_python(g.state.read, shapes.read()));
  out.append(to_python(g.state.weights, shapes.reads()));
  add_memory_outputs(g, out);
  add_link_outputs(g, out);
  return out;
}

template <class T>
void bind_sequence(nb::module_& m, const std::string& suffix) {
  using R = Record<T>;
  using G = Gradients<T>;
  using P = PendingGradients<T>;
  nb::class_<P>(m, ("Pending" + suffix).c_str()).def(nb::init<>()).def("__len__", &P::size);
  nb::class_<R>(m, ("Record" + suffix).c_str())
      .def_prop_ro("trace", &trace<T>)
      .def_ro("before", &R::before)
      .def_ro("after", &R::after)
      .def_prop_ro("versions_before", [](const R& r) { return VersionBatch<T>{r.before}; })
      .def("outputs", &outputs<T>)
      .def_prop_ro("bytes", &R::bytes);
  nb::class_<G>(m, ("Gradients" + suffix).c_str()).def("outputs", &gradient_outputs<T>);
  m.def(("forward" + suffix).c_str(), &forward<T>, "sizes"_a.none(), "memory"_a.none(), "controller"_a.none(),
        "hidden"_a.none(), "x"_a.none(), "w_ih"_a.none(), "w_hh"_a.none(), "b_ih"_a.none(), "b_hh"_a.none(), "w_interface"_a.none(), "b_interface"_a.none(),
        "w_output"_a.none() = nb::none(), "b_output"_a.none() = nb::none(), "h0"_a.none(), "c0"_a.none(), "read0"_a.none(), "weights0"_a.none(),
        "rows0"_a.none(), "lengths"_a.none(), "versions"_a.none(), "record"_a.none(), "trace"_a.none(),
        "threads"_a.none());
  m.def(("backward" + suffix).c_str(), &backward<T>, "record"_a.none(), "x"_a.none(), "w_ih"_a.none(),
        "w_hh"_a.none(), "b_ih"_a.none(), "b_hh"_a.none(), "w_interface"_a.none(), "b_interface"_a.none(),
        "w_output"_a.none() = nb::none(), "b_output"_a.none() = nb::none(), "d_joint"_a.none(), "d_hidden"_a.none(), "d_cell"_a.none(), "d_read"_a.none(), "d_weights"_a.none(),
        "memory_at"_a.none(), "memory_words"_a.none(), "link_at"_a.none(), "link_values"_a.none(),
        "needs_x"_a.none(), "threads"_a.none(), "needs_memory"_a.none() = true, "pending"_a.none() = nb::none(),
        "source"_a.none() = nb::none(), "pass_number"_a.none() = 0, "clip"_a.none() = 0.0);
}

}  // namespace

void bind_sequences(nb::module_& m) {
  bind_sequence<float>(m, "32");
  bind_sequence<double>(m, "64");
}

}  // namespace sparsam
