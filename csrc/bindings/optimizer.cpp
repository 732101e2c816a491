// One step of an optimiser over flat vectors.
#include "bindings/bindings.h"
#include "support/rmsprop.h"

namespace sparsam {
namespace {

template <class T>
double step(Array<T> parameters, Array<T> gradients, Array<T> squares, Array<T> velocity, double clip, double decay,
            double momentum, double epsilon, double rate, int threads) {
  if (threads < 1) throw std::invalid_argument("threads: expected at least 1, got " + std::to_string(threads));
  const size_t count = parameters.size();
  const T* g = pointer(gradients, count, "gradients");
  T *s = pointer(squares, count, "squares"), *v = pointer(velocity, count, "velocity");
  const RmsProp<T> how{T(1), T(decay), T(momentum), T(epsilon), T(rate)};
  nb::gil_scoped_release unlocked;
  return rmsprop(how, clip, int64_t(count), parameters.data(), g, s, v, threads);
}

template <class T>
void bind(nb::module_& m) {
  m.def("rmsprop", &step<T>, nb::arg("parameters").noconvert(), nb::arg("gradients").noconvert(),
        nb::arg("squares").noconvert(), nb::arg("velocity").noconvert(), nb::arg("clip"), nb::arg("decay"),
        nb::arg("momentum"), nb::arg("epsilon"), nb::arg("rate"), nb::arg("threads"));
}

}  // namespace

void bind_optimizer(nb::module_& m) {
  bind<float>(m);
  bind<double>(m);
}

}  // namespace sparsam
