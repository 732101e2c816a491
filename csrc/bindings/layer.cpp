// What the layer runs over all steps at once: its convolution and its linear maps.
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
struct GivenConvolution {
  GivenConvolution(nb::handle window_, nb::handle x_, nb::handle weight_)
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
  const GivenConvolution<T> given(window, x, weight);
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
  const GivenConvolution<T> given(window, x, weight);
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

// What both directions take, held against each other: rows of `a`, beside them rows of `b` where there is one.
template <class T>
struct GivenLinear {
  GivenLinear(nb::handle a_, nb::handle b_, nb::handle weight_)
      : a(a_, "a", {kAny, kAny}),
        b(optional_array<T>(b_, "b", {a.length(0), kAny})),
        weight(weight_, "weight", {kAny, a.length(1) + (b ? b->length(1) : 0)}),
        shape{a.length(0), int(a.length(1)), b ? int(b->length(1)) : 0, int(weight.length(0))} {
    for (int i : {0, 1}) require_within("weight", weight.length(i), 1, 1 << 24);
  }
  const In<T> a;
  const std::optional<In<T>> b;
  const In<T> weight;
  const LinearShape shape;
};

template <class T>
nb::object linear(nb::handle a, nb::handle b, nb::handle weight, nb::handle bias_, nb::handle threads_) {
  const GivenLinear<T> given(a, b, weight);
  const LinearShape& s = given.shape;
  const In<T> bias(bias_, "bias", {s.outputs});
  const int threads = require_threads(threads_);
  const Numbers<T> out(size_t(s.rows) * s.outputs);
  {
    nb::gil_scoped_release unlocked;
    sequence_kernels<T>().linear(s, given.a.data(), data_or_null(given.b), given.weight.data(), bias.data(), out.get(),
                                 threads);
  }
  return to_python(out, {size_t(s.rows), size_t(s.outputs)});
}

template <class T>
nb::object linear_backward(nb::handle a, nb::handle b, nb::handle weight, nb::handle d_out_, nb::handle needs_a,
                           nb::handle needs_b, nb::handle needs_weight, nb::handle threads_) {
  const GivenLinear<T> given(a, b, weight);
  const LinearShape& s = given.shape;
  const In<T> d_out(d_out_, "d_out", {s.rows, s.outputs});
  const int threads = require_threads(threads_);
  const size_t rows = size_t(s.rows), first = size_t(s.first), second = size_t(s.second), outputs = size_t(s.outputs);
  const auto wanted = [](nb::handle flag, const char* name, size_t size) {
    return taken<bool>(flag, name) ? Numbers<T>(size) : Numbers<T>();
  };
  const Numbers<T> d_a = wanted(needs_a, "needs_a", rows * first), d_b = wanted(needs_b, "needs_b", rows * second);
  const Numbers<T> d_weight = wanted(needs_weight, "needs_weight", outputs * (first + second));
  const Numbers<T> d_bias = wanted(needs_weight, "needs_weight", outputs);
  {
    nb::gil_scoped_release unlocked;
    sequence_kernels<T>().linear_backward(s, given.a.data(), data_or_null(given.b), given.weight.data(), d_out.data(),
                                          d_a.get(), d_b.get(), d_weight.get(), d_bias.get(), threads);
  }
  return nb::make_tuple(to_python(d_a, {rows, first}), to_python(d_b, {rows, second}),
                        to_python(d_weight, {outputs, first + second}), to_python(d_bias, {outputs}));
}

template <class T>
void bind_type(nb::module_& m, const std::string& suffix) {
  m.def(("convolve" + suffix).c_str(), &convolve<T>, "window"_a.none(), "x"_a.none(), "weight"_a.none(),
        "bias"_a.none(), "threads"_a.none());
  m.def(("convolve_backward" + suffix).c_str(), &convolve_backward<T>, "window"_a.none(), "x"_a.none(),
        "weight"_a.none(), "d_out"_a.none(), "threads"_a.none());
  m.def(("linear" + suffix).c_str(), &linear<T>, "a"_a.none(), "b"_a.none(), "weight"_a.none(), "bias"_a.none(),
        "threads"_a.none());
  m.def(("linear_backward" + suffix).c_str(), &linear_backward<T>, "a"_a.none(), "b"_a.none(), "weight"_a.none(),
        "d_out"_a.none(), "needs_a"_a.none(), "needs_b"_a.none(), "needs_weight"_a.none(), "threads"_a.none());
}

}  // namespace

void bind_layer(nb::module_& m) {
  bind_type<float>(m, "32");
  bind_type<double>(m, "64");
}

}  // namespace sparsam
