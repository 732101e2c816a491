// Arguments of the bindings, each checked: what does not serve is a ValueError that names the argument.
//
// Arrays come in over the buffer protocol, which takes a tenth of the time of DLPack. Nothing is ever converted. Only
// Python's limited API is used, so that one module serves Python 3.12 and every later one.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sparsam {

namespace nb = nanobind;

template <class T>
struct ElementName;
template <>
struct ElementName<float> {
  static constexpr const char* kName = "float32";
};
template <>
struct ElementName<double> {
  static constexpr const char* kName = "float64";
};
template <>
struct ElementName<int32_t> {
  static constexpr const char* kName = "int32";
};
template <>
struct ElementName<int64_t> {
  static constexpr const char* kName = "int64";
};

// str(value)
inline std::string text(nb::handle value) {
  const nb::object out = nb::steal(PyObject_Str(value.ptr()));
  const char* characters = out.is_valid() ? PyUnicode_AsUTF8AndSize(out.ptr(), nullptr) : nullptr;
  if (characters == nullptr) PyErr_Clear();
  return characters == nullptr ? "something" : characters;
}

// "float32 (3, 4)" for an array, the type's name for anything else.
inline std::string described(nb::handle value) {
  const nb::object dtype = nb::steal(PyObject_GetAttrString(value.ptr(), "dtype"));
  const nb::object shape = nb::steal(PyObject_GetAttrString(value.ptr(), "shape"));
  PyErr_Clear();
  if (dtype.is_valid() && shape.is_valid()) return text(dtype) + " " + text(shape);
  const nb::object name = nb::steal(PyObject_GetAttrString(value.type().ptr(), "__name__"));
  if (!name.is_valid()) PyErr_Clear();
  return name.is_valid() ? text(name) : "something";
}

[[noreturn]] inline void refuse(const char* name, const std::string& expected, const std::string& got) {
  throw std::invalid_argument(std::string(name) + ": expected " + expected + ", got " + got);
}

// What a type is called in messages.
template <class T>
struct TypeName;
template <>
struct TypeName<bool> {
  static constexpr const char* kName = "True or False";
};
template <>
struct TypeName<int32_t> {
  static constexpr const char* kName = "an int of 32 bits";
};
template <>
struct TypeName<int64_t> {
  static constexpr const char* kName = "an int of 64 bits";
};
template <>
struct TypeName<double> {
  static constexpr const char* kName = "a number";
};
template <>
struct TypeName<std::string> {
  static constexpr const char* kName = "a str";
};
// nanobind would list what a function takes and leave it to the reader which argument was wrong.
[[noreturn]] inline void refuse_type(const char* name, const char* expected, nb::handle got) {
  throw nb::type_error((std::string(name) + ": expected " + expected + ", got " + described(got)).c_str());
}

// A number, a word or a choice.
template <class T>
T taken(nb::handle value, const char* name, const char* expected = TypeName<T>::kName) {
  T out{};
  if (!nb::try_cast(value, out, false)) refuse_type(name, expected, value);
  return out;
}
// An object of this module, which the caller keeps alive.
template <class T>
T& taken_object(nb::handle value, const char* name, const char* expected) {
  T* out = nullptr;
  if (value.is_none() || !nb::try_cast(value, out, false) || out == nullptr) refuse_type(name, expected, value);
  return *out;
}

inline int64_t require_within(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high)
    refuse(name, std::to_string(low) + " to " + std::to_string(high), std::to_string(value));
  return value;
}
inline int require_threads(nb::handle threads) {
  return int(require_within("threads", taken<int64_t>(threads, "threads"), 1, 1 << 16));
}

constexpr int64_t kAny = -1;  // a length that may be any

// "(3, 4, any)"
inline std::string written_shape(const std::vector<int64_t>& shape) {
  std::string out = "(";
  for (const int64_t length : shape) out += (out.size() > 1 ? ", " : "") + (length == kAny ? "any" : std::to_string(length));
  return out + ")";
}

// An array of T that Python keeps alive and unmoved for as long as this lives. The GIL is held to make and to free it.
template <class T>
class In {
 public:
  // `rows_apart`: rows of numbers side by side may lie apart, else all numbers are side by side.
  In(nb::handle value, const char* name, const std::vector<int64_t>& shape, bool rows_apart = false) {
    if (PyObject_GetBuffer(value.ptr(), &view_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
      PyErr_Clear();
      view_.obj = nullptr;
      refuse(name, wanted(shape), described(value));
    }
    if (!fits(shape, rows_apart)) {
      PyBuffer_Release(&view_);
      refuse(name, wanted(shape), described(value) + (has_shape(shape) ? " that is not" : ""));
    }
  }
  In(In&& other) noexcept : view_(other.view_) { other.view_.obj = nullptr; }
  In& operator=(In&& other) noexcept {
    std::swap(view_, other.view_);
    return *this;
  }
  ~In() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }

  const T* data() const { return static_cast<const T*>(view_.buf); }
  T* writable() const { return static_cast<T*>(view_.buf); }
  bool is_readonly() const { return view_.readonly != 0; }
  int64_t length(int dimension) const { return view_.shape[dimension]; }
  int64_t stride(int dimension) const { return view_.strides[dimension] / int64_t(sizeof(T)); }
  size_t size() const { return size_t(view_.len) / sizeof(T); }

 private:
  static std::string wanted(const std::vector<int64_t>& shape) {
    return std::string("a contiguous NumPy array of ") + ElementName<T>::kName + " " + written_shape(shape);
  }
  bool has_shape(const std::vector<int64_t>& shape) const {
    if (view_.ndim != int(shape.size())) return false;
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != kAny && view_.shape[i] != shape[i]) return false;
    return true;
  }
  bool has_elements() const {
    const std::string format = view_.format ? view_.format : "B";
    if (view_.itemsize != sizeof(T)) return false;
    if (std::is_same_v<T, float>) return format == "f";
    if (std::is_same_v<T, double>) return format == "d";
    return format == "i" || format == "l" || format == "q";
  }
  bool fits(const std::vector<int64_t>& shape, bool rows_apart) const {
    if (!has_shape(shape) || !has_elements()) return false;
    if (reinterpret_cast<uintptr_t>(view_.buf) % alignof(T) != 0) return false;
    if (PyBuffer_IsContiguous(&view_, 'C')) return true;
    if (!rows_apart || view_.ndim != 2) return false;
    const auto width = int64_t(sizeof(T));
    return (view_.strides[1] == width || view_.shape[1] <= 1) && view_.strides[0] % width == 0 && view_.strides[0] >= 0;
  }

  Py_buffer view_;
};

// None, or such an array.
template <class T>
std::optional<In<T>> optional_array(nb::handle value, const char* name, const std::vector<int64_t>& shape) {
  if (value.is_none()) return std::nullopt;
  return std::make_optional<In<T>>(value, name, shape);
}
template <class T>
const T* data_or_null(const std::optional<In<T>>& array) {
  return array ? array->data() : nullptr;
}
inline void require_none(nb::handle value, const char* name, const char* why) {
  if (!value.is_none()) refuse(name, std::string("None ") + why, described(value));
}

}  // namespace sparsam
