// One step of memories without a controller, as somebody's own controller asks for it: few arguments in, all results out
// at once.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "bindings/memory_gradients.h"
#include "bindings/results.h"
#include "bindings/signals.h"
#include "bindings/versions.h"
#include "step/record.h"

using namespace nanobind::literals;

namespace sparsam {
namespace {

// (record, read (B, R, W), rows (B, R, K), weights (B, R, K), the versions after the step).
template <class T>
nb::tuple step(nb::handle sizes_, nb::handle x_, nb::handle rows0, nb::handle weights0_, nb::handle versions,
               nb::handle record, nb::handle threads) {
  const auto& sizes = taken_object<MemoryShape>(sizes_, "sizes", "a Sizes");
  const int32_t interface = InterfaceLayout(sizes).size;
  const In<T> x(x_, "x", {kAny, interface});
  const SequenceShape s(sizes, Cell::none, 1, int32_t(require_within("x: batch elements", x.length(0), 1, 1 << 24)),
                        interface, 0);
  const In<T> weights0(weights0_, "weights0", {s.batch, s.heads, s.k});
  require_weights(weights0);
  ForwardCall<T> call{s,
                      x.data(),
                      {},
                      nullptr,
                      nullptr,
                      nullptr,
                      rows_from(rows0, s),
                      weights0.data(),
                      std::vector<int64_t>(size_t(s.batch), 1),
                      versions_from<T>(versions, s.batch, sizes),
                      taken<bool>(record, "record"),
                      false,
                      require_threads(threads),
                      {}};
  std::shared_ptr<Record<T>> done;
  {
    nb::gil_scoped_release unlocked;
    done = run_forward(call);
  }
  const auto batch = size_t(s.batch), heads = size_t(s.heads), k = size_t(s.k);
  return nb::make_tuple(done, to_python(done->state.read, {batch, heads, size_t(s.width)}),
                        to_python(done->state.rows, {batch, heads, k}), to_python(done->state.weights, {batch, heads, k}),
                        VersionBatch<T>{done->after});
}

// (of x, of the weights read last, of the memory: where and what, of the links: where and what). The last four are None
// where nobody asks or where they went elsewhere.
template <class T>
nb::tuple step_backward(nb::handle record_, nb::handle d_read_, nb::handle d_weights_, nb::handle memory_at_,
                        nb::handle memory_words_, nb::handle link_at, nb::handle link_values, nb::handle needs_memory,
                        nb::handle pending, nb::handle source, nb::handle pass, nb::handle threads) {
  auto& record = taken_object<Record<T>>(record_, "record", (std::string("a Record of ") + ElementName<T>::kName).c_str());
  const SequenceShape& s = record.shape;
  if (s.cell != Cell::none || s.steps != 1) refuse("record", "one of `step`", "one of `forward`");
  const auto d_read = optional_array<T>(d_read_, "d_read", {s.batch, s.heads, s.width});
  const auto d_weights = optional_array<T>(d_weights_, "d_weights", {s.batch, s.heads, s.k});
  BackwardCall<T> call{nullptr,
                       {},
                       nullptr,
                       nullptr,
                       nullptr,
                       data_or_null(d_read),
                       data_or_null(d_weights),
                       memory_gradients<T>(s, memory_at_, memory_words_),
                       link_gradients<T>(s, link_at, link_values),
                       true,
                       taken<bool>(needs_memory, "needs_memory"),
                       require_threads(threads),
                       {},
                       pending_from<T>(pending, "pending"),
                       pending_from<T>(source, "source"),
                       taken<int64_t>(pass, "pass_number")};
  std::shared_ptr<Gradients<T>> found;
  {
    nb::gil_scoped_release unlocked;
    found = run_backward(record, std::move(call));
  }
  const auto batch = size_t(s.batch), heads = size_t(s.heads), k = size_t(s.k);
  return nb::make_tuple(to_python(found->x, {batch, size_t(s.interface)}),
                        to_python(found->state.weights, {batch, heads, k}), memory_at(*found), memory_words(*found),
                        links_at(*found), links_values(*found));
}

template <class T>
void bind_step(nb::module_& m, const std::string& suffix) {
  using P = PendingGradients<T>;
  nb::class_<P>(m, ("Pending" + suffix).c_str()).def(nb::init<>()).def("__len__", &P::size);
  m.def(("step" + suffix).c_str(), &step<T>, "sizes"_a.none(), "x"_a.none(), "rows0"_a.none(),
        "weights0"_a.none(), "versions"_a.none(), "record"_a.none(), "threads"_a.none());
  m.def(("step_backward" + suffix).c_str(), &step_backward<T>, "record"_a.none(), "d_read"_a.none(),
        "d_weights"_a.none(), "memory_at"_a.none(), "memory_words"_a.none(), "link_at"_a.none(),
        "link_values"_a.none(), "needs_memory"_a.none(), "pending"_a.none(), "source"_a.none(), "pass_number"_a.none(),
        "threads"_a.none());
}

}  // namespace

void bind_steps(nb::module_& m) {
  bind_step<float>(m, "32");
  bind_step<double>(m, "64");
}

}  // namespace sparsam
