// The core as a Python module: arrays come in as they are, nothing is converted, the GIL is released while kernels run.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "memory/ring.h"
#include "step/sequence.h"
#include "support/parallel.h"

using namespace nanobind::literals;

namespace sparsam {
namespace {

void bind_ring(nb::module_& m) {
  auto row_of = [](const Ring& ring, nb::handle row) {
    return int32_t(require_within("row", taken<int64_t>(row, "row"), 0, ring.rows() - 1));
  };
  nb::class_<Ring>(m, "Ring")
      .def(
          "__init__",
          [](Ring* self, nb::handle rows) {
            new (self) Ring(int32_t(require_within("rows", taken<int64_t>(rows, "rows"), 1, INT32_MAX)));
          },
          "rows"_a.none())
      .def(
          "first",
          [](const Ring& ring, nb::handle count_) {
            const auto count = taken<int64_t>(count_, "count");
            std::vector<int32_t> rows(size_t(require_within("count", count, 0, ring.rows())));
            ring.first(int32_t(count), rows.data());
            return rows;
          },
          "count"_a.none())
      .def(
          "move_to_back", [row_of](Ring& ring, nb::handle row) { return ring.move_to_back(row_of(ring, row)); },
          "row"_a.none())
      .def(
          "undo",
          [row_of](Ring& ring, nb::handle row_, nb::handle before_) {
            const auto before = taken<int64_t>(before_, "before");
            const int32_t row = row_of(ring, row_);
            require_within("before", before, Ring::kWasHead, ring.rows() - 1);
            if (before == row) refuse("before", "another row", std::to_string(before));
            if (!ring.is_moved(row)) refuse("row", "one that was moved", std::to_string(row));
            ring.undo(row, int32_t(before));
          },
          "row"_a.none(), "before"_a.none())
      .def("recency", &Ring::recency);
}

}  // namespace

NB_MODULE(_native, m) {
  // States and graphs that live until the interpreter ends are no leak.
  nb::set_leak_warnings(false);
  bind_ring(m);
  bind_indexes(m);
  bind_sizes(m);
  bind_versions(m);
  bind_sequences(m);
  bind_convolution(m);
  bind_linear(m);
  m.def("use_tensors", &use_tensors, "type"_a.none(), "capsule"_a.none());
  m.def(
      "use_openmp_runtime", [](nb::handle path) { return use_openmp_runtime(taken<std::string>(path, "path")); },
      "path"_a.none());
  m.def("selected_isa", &selected_isa);
}

}  // namespace sparsam
