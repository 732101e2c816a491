// The core as a Python module: arrays come in as they are, nothing is converted, the GIL is released while kernels run.
#include <nanobind/stl/string.h>

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "step/sequence.h"
#include "support/parallel.h"

using namespace nanobind::literals;

namespace sparsam {

NB_MODULE(_native, m) {
  // States and graphs that live until the interpreter ends are no leak.
  nb::set_leak_warnings(false);
  bind_indexes(m);
  bind_sizes(m);
  bind_versions(m);
  bind_sequences(m);
  bind_convolution(m);
  m.def("use_tensors", &use_tensors, "type"_a.none(), "capsule"_a.none());
  m.def(
      "use_openmp_runtime", [](nb::handle path) { return use_openmp_runtime(taken<std::string>(path, "path")); },
      "path"_a.none());
  m.def("selected_isa", &selected_isa);
}

}  // namespace sparsam
