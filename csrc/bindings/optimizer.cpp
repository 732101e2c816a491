// One step of an optimiser over flat vectors, which it changes in place.
#include <nanobind/ndarray.h>

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "support/rmsprop.h"

namespace sparsam {
namespace {

template <class T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <class T>
T* pointer(const Array<T>& array, size_t expected, const char* name) {
  if (array.size() != expected)
    refuse(name, std::to_string(expected) + " numbers", std::to_string(array.size()));
  return array.data();
}

template <class T>
double step(Array<T> parameters, Array<T> gradients, Array<T> squares, Array<T> velocity, double clip, double decay,
            double momentum, double epsilon, double rate, int threads) {
  require_threads(threads);
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
