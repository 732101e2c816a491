// Ctrl-C while a kernel runs.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <thread>

namespace sparsam {

// Lets the thread that made the call look for Ctrl-C; Python runs signal handlers in the main thread alone.
inline std::function<void()> signal_check() {
  return [caller = std::this_thread::get_id()] {
    if (std::this_thread::get_id() != caller) return;
    const nanobind::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  };
}

}  // namespace sparsam
