// The core as a Python module: arrays come in over DLPack, nothing is copied, the GIL is released while kernels run.
#include "bindings/bindings.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "support/parallel.h"
#include "memory/ring.h"
#include "step/sequence.h"

namespace sparsam {

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
  bind_indexes(m);
  bind_versions(m);
  bind_sequences(m);
  bind_optimizer(m);
  m.def("use_openmp_runtime", &use_openmp_runtime);
  m.def("selected_isa", &selected_isa);
}

}  // namespace sparsam
