// Shared by the files that make the core a Python module.
#pragma once

#include <nanobind/nanobind.h>

namespace sparsam {

namespace nb = nanobind;

// Index settings, and an index over an array for tests and benchmarks.
void bind_indexes(nb::module_& m);
// The description of a memory, and of controllers' cells.
void bind_sizes(nb::module_& m);
// Starting memories, and versions of memories with what they hold.
void bind_versions(nb::module_& m);
// Whole sequences, forward and backward.
void bind_sequences(nb::module_& m);
// A causal convolution over time.
void bind_convolution(nb::module_& m);
void bind_linear(nb::module_& m);

}  // namespace sparsam
