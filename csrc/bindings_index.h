#pragma once

#include <nanobind/nanobind.h>

namespace sparsam {

// Index settings, and an index over an array for tests and benchmarks.
void bind_indexes(nanobind::module_& m);

}  // namespace sparsam
