// Shared by the files that make the core a Python module.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "support/interrupt.h"

namespace sparsam {

namespace nb = nanobind;

// Index settings, and an index over an array for tests and benchmarks.
void bind_indexes(nb::module_& m);
// Starting memories, and versions of memories with what they hold.
void bind_versions(nb::module_& m);
// Whole sequences, forward and backward.
void bind_sequences(nb::module_& m);
// The layer's convolution and linear maps.
void bind_layer(nb::module_& m);

// work() without the GIL. Python runs signal handlers in the main thread alone, so the thread that made the call looks
// for Ctrl-C now and then, and the work ends with what the handler raised.
template <class Work>
auto interruptible(Work&& work) {
  const nb::gil_scoped_release unlocked;
  Watch watch([] {
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });
  try {
    return std::forward<Work>(work)();
  } catch (const Interrupted&) {
    watch.rethrow();
  }
}

}  // namespace sparsam
