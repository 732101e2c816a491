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
double step(nb::handle parameters_, nb::handle gradients_, nb::handle squares_, nb::handle velocity_, double clip,
            double decay, double momentum, double epsilon, double rate, int64_t threads_) {
  const In<T> parameters = written<T>(parameters_, "parameters", kAny);
  const int64_t count = parameters.length(0);
  const In<T> gradients(gradients_, "gradients", {count});
  const In<T> squares = written<T>(squares_, "squares", count), velocity = written<T>(velocity_, "velocity", count);
  const int threads = require_threads(threads_);
  const RmsProp<T> how{T(1), T(decay), T(momentum), T(epsilon), T(rate)};
  nb::gil_scoped_release unlocked;
  return rmsprop(how, clip, count, parameters.writable(), gradients.data(), squares.writable(), velocity.writable(),
                 threads);
}

template <class T>
void bind(nb::module_& m, const std::string& suffix) {
  m.def(("rmsprop" + suffix).c_str(), &step<T>, "parameters"_a, "gradients"_a, "squares"_a, "velocity"_a, "clip"_a,
        "decay"_a, "momentum"_a, "epsilon"_a, "rate"_a, "threads"_a);
}

}  // namespace

void bind_optimizer(nb::module_& m) {
  bind<float>(m, "32");
  bind<double>(m, "64");
}

}  // namespace sparsam
