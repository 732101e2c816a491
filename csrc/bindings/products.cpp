// Linear layers over all steps of a sequence in Python: the shapes (thousands of rows, a few dozen columns) are ones that
// general libraries are slow at.
#include <optional>
#include <string>

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "bindings/results.h"
#include "step/sequence.h"

using namespace nanobind::literals;

namespace sparsam {
namespace {

constexpr int64_t kMostColumns = 1 << 24;

template <class T>
struct Matrix : In<T> {  // its rows may lie apart
  Matrix(nb::handle value, const char* name, int64_t rows = kAny, int64_t columns = kAny)
      : In<T>(value, name, {rows, columns}, true) {
    require_within(name, this->length(1), 0, kMostColumns);
  }
  int64_t apart() const { return this->length(0) > 1 ? this->stride(0) : this->length(1); }
};

template <class T>
In<T> output(nb::handle value, int64_t rows, int64_t columns) {
  In<T> out(value, "out", {rows, columns});
  if (out.is_readonly()) refuse("out", "an array that can be written", "a read-only one");
  return out;
}

// a w^T + bias for w (n, depth), as a linear layer has it; or, `forward` being false, a w for w (depth, n).
template <class T>
void multiply(const Matrix<T>& a, const Matrix<T>& w, nb::handle bias_, bool forward, T* out, int threads) {
  const int64_t depth = w.length(forward ? 1 : 0), columns = w.length(forward ? 0 : 1), stride = w.apart();
  require_within("w", columns, 0, kMostColumns);
  require_within("w", depth, 0, kMostColumns);
  if (a.length(1) != depth) refuse("a", std::to_string(depth) + " columns, as w has it", std::to_string(a.length(1)));
  const auto bias = optional_array<T>(bias_, "bias", {columns});
  const T* added = data_or_null(bias);
  nb::gil_scoped_release unlocked;
  sequence_kernels<T>().row_product(a.data(), a.apart(), w.data(), forward ? 1 : stride, forward ? stride : 1, added,
                                    a.length(0), int(depth), int(columns), out, threads);
}

template <class T>
nb::object linear(nb::handle a_, nb::handle w_, nb::handle bias, nb::handle threads) {
  const Matrix<T> a(a_, "a"), w(w_, "w");
  const Numbers<T> out(size_t(a.length(0)) * w.length(0));
  multiply(a, w, bias, true, out.get(), require_threads(threads));
  return to_numpy(out, {size_t(a.length(0)), size_t(w.length(0))});
}

template <class T>
nb::object linear_back(nb::handle a_, nb::handle w_, nb::handle threads) {
  const Matrix<T> a(a_, "a"), w(w_, "w");
  const Numbers<T> out(size_t(a.length(0)) * w.length(1));
  multiply(a, w, nb::none(), false, out.get(), require_threads(threads));
  return to_numpy(out, {size_t(a.length(0)), size_t(w.length(1))});
}

template <class T>
void row_product(nb::handle a_, nb::handle w_, nb::handle bias, nb::handle forward_, nb::handle out_,
                 nb::handle threads) {
  const bool forward = taken<bool>(forward_, "forward");
  const Matrix<T> a(a_, "a"), w(w_, "w");
  const In<T> out = output<T>(out_, a.length(0), w.length(forward ? 0 : 1));
  multiply(a, w, bias, forward, out.writable(), require_threads(threads));
}

// a^T b for a (depth, m) and b (depth, n).
template <class T>
void transposed_product(const Matrix<T>& a, const Matrix<T>& b, T* out, int threads) {
  nb::gil_scoped_release unlocked;
  sequence_kernels<T>().tall_product(a.data(), a.apart(), b.data(), b.apart(), a.length(0), int(a.length(1)),
                                     int(b.length(1)), out, b.length(1), threads);
}

template <class T>
nb::object tall(nb::handle a_, nb::handle b_, nb::handle threads) {
  const Matrix<T> a(a_, "a"), b(b_, "b", a.length(0));
  const Numbers<T> out(size_t(a.length(1)) * b.length(1));
  transposed_product(a, b, out.get(), require_threads(threads));
  return to_numpy(out, {size_t(a.length(1)), size_t(b.length(1))});
}

template <class T>
void tall_product(nb::handle a_, nb::handle b_, nb::handle out_, nb::handle threads) {
  const Matrix<T> a(a_, "a"), b(b_, "b", a.length(0));
  const In<T> out = output<T>(out_, a.length(1), b.length(1));
  transposed_product(a, b, out.writable(), require_threads(threads));
}

// The suffix-free functions go by the type of `a`.
bool is_double(nb::handle a) {
  return nb::hasattr(a, "dtype") && text(a.attr("dtype")) == "float64";
}

template <class T>
void bind_product(nb::module_& m, const std::string& suffix) {
  m.def(("linear" + suffix).c_str(), &linear<T>, "a"_a.none(), "w"_a.none(), "bias"_a.none(), "threads"_a.none());
  m.def(("linear_back" + suffix).c_str(), &linear_back<T>, "a"_a.none(), "w"_a.none(), "threads"_a.none());
  m.def(("tall" + suffix).c_str(), &tall<T>, "a"_a.none(), "b"_a.none(), "threads"_a.none());
}

}  // namespace

void bind_products(nb::module_& m) {
  bind_product<float>(m, "32");
  bind_product<double>(m, "64");
  m.def(
      "row_product",
      [](nb::handle a, nb::handle w, nb::handle bias, nb::handle forward, nb::handle out, nb::handle threads) {
        (is_double(a) ? row_product<double> : row_product<float>)(a, w, bias, forward, out, threads);
      },
      "a"_a.none(), "w"_a.none(), "bias"_a.none(), "forward"_a.none(), "out"_a.none(), "threads"_a.none());
  m.def(
      "tall_product",
      [](nb::handle a, nb::handle b, nb::handle out, nb::handle threads) {
        (is_double(a) ? tall_product<double> : tall_product<float>)(a, b, out, threads);
      },
      "a"_a.none(), "b"_a.none(), "out"_a.none(), "threads"_a.none());
}

}  // namespace sparsam
