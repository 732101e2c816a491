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
  auto row_of = [](const Ring& ring, int64_t row) { return int32_t(require_within("row", row, 0, ring.rows() - 1)); };
  nb::class_<Ring>(m, "Ring")
      .def(
          "__init__", [](Ring* self, int64_t rows) { new (self) Ring(int32_t(require_within("rows", rows, 1, INT32_MAX))); },
          "rows"_a)
      .def(
          "first",
          [](const Ring& ring, int64_t count) {
            std::vector<int32_t> rows(size_t(require_within("count", count, 0, ring.rows())));
            ring.first(int32_t(count), rows.data());
            return rows;
          },
          "count"_a)
      .def(
          "move_to_back", [row_of](Ring& ring, int64_t row) { return ring.move_to_back(row_of(ring, row)); }, "row"_a)
      .def(
          "undo",
          [row_of](Ring& ring, int64_t row, int64_t before) {
            require_within("before", before, Ring::kWasHead, ring.rows() - 1);
            if (before == row) refuse("before", "another row", std::to_string(before));
            if (!ring.is_moved(row_of(ring, row))) refuse("row", "one that was moved", std::to_string(row));
            ring.undo(int32_t(row), int32_t(before));
          },
          "row"_a, "before"_a)
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
  bind_steps(m);
  bind_sequences(m);
  bind_products(m);
  bind_optimizer(m);
  m.def("use_tensors", &use_tensors, "type"_a, "capsule"_a);
  m.def("use_openmp_runtime", &use_openmp_runtime, "path"_a);
  m.def("selected_isa", &selected_isa);
}

}  // namespace sparsam
