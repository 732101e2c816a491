// Ctrl-C while the core works.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "support/interrupt.h"

namespace sparsam {

// work() without the GIL. Python runs signal handlers in the main thread alone, so the thread that made the call looks
// for Ctrl-C now and then, and the work ends with what the handler raised.
template <class Work>
auto interruptible(Work&& work) {
  const nanobind::gil_scoped_release unlocked;
  Watch watch([] {
    const nanobind::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  });
  try {
    return std::forward<Work>(work)();
  } catch (const Interrupted&) {
    watch.rethrow();
  }
}

}  // namespace sparsam
