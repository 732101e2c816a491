// A causal convolution over time in Python.
#include <string>

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "bindings/tensors.h"
#include "step/sequence.h"

using namespace nanobind::literals;

namespace sparsam {
namespace {

// What both directions take, held against each other.
template <class T>
struct Given {
  Given(nb::handle window_, nb::handle x_, nb::handle weight_)
      : x(x_, "x", {kAny, kAny, kAny}),
        weight(weight_, "weight", {x.length(2), kAny}),
        window(window_, "window", {x.length(1), weight.length(1) - 1, x.length(2)}),
        shape{x.length(0), x.length(1), x.length(2), int(weight.length(1))} {
    require_within("weight", weight.length(1), 1, 1 << 16);
  }
  const In<T> x, weight, window;
  const ConvolutionShape shape;
};

template <class T>
nb::object convolve(nb::handle window, nb::handle x, nb::handle weight, nb::handle bias_, nb::handle threads_) {
  const Given<T> given(window, x, weight);
  const ConvolutionShape& s = given.shape;
  const In<T> bias(bias_, "bias", {s.width});
  const int threads = require_threads(threads_);
  const Numbers<T> out(size_t(s.steps) * s.batch * s.width);
  {
    nb::gil_scoped_release unlocked;
    sequence_kernels<T>().convolve(s, given.window.data(), given.x.data(), given.weight.data(), bias.data(), out.get(),
                                   threads);
  }
  return to_python(out, {size_t(s.steps), size_t(s.batch), size_t(s.width)});
}

template <class T>
nb::object convolve_backward(nb::handle window, nb::handle x, nb::handle weight, nb::handle d_out_,
                             nb::handle threads_) {
  const Given<T> given(window, x, weight);
  const ConvolutionShape& s = given.shape;
  const In<T> d_out(d_out_, "d_out", {s.steps, s.batch, s.width});
  const int threads = require_threads(threads_);
  const size_t steps = size_t(s.steps), batch = size_t(s.batch), width = size_t(s.width), taps = size_t(s.taps);
  const Numbers<T> d_window(batch * (taps - 1) * width), d_x(steps * batch * width), d_weight(width * taps), d_bias(width);
  {
    nb::gil_scoped_release unlocked;
    sequence_kernels<T>().convolve_backward(s, given.window.data(), given.x.data(), given.weight.data(), d_out.data(),
                                            d_window.get(), d_x.get(), d_weight.get(), d_bias.get(), threads);
  }
  return nb::make_tuple(to_python(d_window, {batch, taps - 1, width}), to_python(d_x, {steps, batch, width}),
                        to_python(d_weight, {width, taps}), to_python(d_bias, {width}));
}

template <class T>
void bind_type(nb::module_& m, const std::string& suffix) {
  m.def(("convolve" + suffix).c_str(), &convolve<T>, "window"_a.none(), "x"_a.none(), "weight"_a.none(),
        "bias"_a.none(), "threads"_a.none());
  m.def(("convolve_backward" + suffix).c_str(), &convolve_backward<T>, "window"_a.none(), "x"_a.none(),
        "weight"_a.none(), "d_out"_a.none(), "threads"_a.none());
}

}  // namespace

void bind_convolution(nb::module_& m) {
  bind_type<float>(m, "32");
  bind_type<double>(m, "64");
}

}  // namespace sparsam
