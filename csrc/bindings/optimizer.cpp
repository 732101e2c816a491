// One step of an optimiser over flat vectors.
#include "support/rmsprop.h"

#include <string>

#include "bindings/arguments.h"
#include "bindings/bindings.h"

using namespace nanobind::literals;

namespace sparsam {
namespace {

template <class T>
In<T> written(nb::handle value, const char* name, int64_t count) {
  In<T> array(value, name, {count});
  if (array.is_readonly()) refuse(name, "an array that can be written", "a read-only one");
  return array;
}

template <class T>
double step(nb::handle parameters_, nb::handle gradients_, nb::handle squares_, nb::handle velocity_, nb::handle clip,
            nb::handle decay, nb::handle momentum, nb::handle epsilon, nb::handle rate, nb::handle threads_) {
  const In<T> parameters = written<T>(parameters_, "parameters", kAny);
  const int64_t count = parameters.length(0);
  const In<T> gradients(gradients_, "gradients", {count});
  const In<T> squares = written<T>(squares_, "squares", count), velocity = written<T>(velocity_, "velocity", count);
  const int threads = require_threads(threads_);
  auto number = [](nb::handle value, const char* name) { return taken<double>(value, name); };
  const RmsProp<T> how{T(1), T(number(decay, "decay")), T(number(momentum, "momentum")), T(number(epsilon, "epsilon")),
                       T(number(rate, "rate"))};
  const double most = number(clip, "clip");
  nb::gil_scoped_release unlocked;
  return rmsprop(how, most, count, parameters.writable(), gradients.data(), squares.writable(), velocity.writable(),
                 threads);
}

template <class T>
void bind(nb::module_& m, const std::string& suffix) {
  m.def(("rmsprop" + suffix).c_str(), &step<T>, "parameters"_a.none(), "gradients"_a.none(), "squares"_a.none(), "velocity"_a.none(), "clip"_a.none(),
        "decay"_a.none(), "momentum"_a.none(), "epsilon"_a.none(), "rate"_a.none(), "threads"_a.none());
}

}  // namespace

void bind_optimizer(nb::module_& m) {
  bind<float>(m, "32");
  bind<double>(m, "64");
}

}  // namespace sparsam
