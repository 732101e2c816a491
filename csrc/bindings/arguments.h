// Arguments of the bindings, each checked: what does not serve is a ValueError that names the argument.
//
// Arrays come in over the buffer protocol, which is faster than DLPack's Python protocol, and tensors over its C API
// (tensors.h). Nothing is ever converted. Only Python's limited API is used, so that one module serves Python 3.12 and
// every later one.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "bindings/tensors.h"
#include "memory/shape.h"

namespace sparsam {

namespace nb = nanobind;

// What arrays of T are called in messages.
template <class T>
constexpr const char* element_name() {
  if (std::is_floating_point_v<T>) return sizeof(T) == 4 ? "float32" : "float64";
  return sizeof(T) == 4 ? "int32" : "int64";
}

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
  if (dtype.is_valid() && shape.is_valid()) {
    const nb::object lengths = nb::steal(PySequence_Tuple(shape.ptr()));  // torch.Size is one with a name
    if (!lengths.is_valid()) PyErr_Clear();
    const std::string type = text(dtype), torch = "torch.";
    return type.substr(type.rfind(torch, 0) == 0 ? torch.size() : 0) + " " + text(lengths.is_valid() ? lengths : shape);
  }
  const nb::object name = nb::steal(PyObject_GetAttrString(value.type().ptr(), "__name__"));
  if (!name.is_valid()) PyErr_Clear();
  return name.is_valid() ? text(name) : "something";
}

[[noreturn]] inline void refuse(const char* name, const std::string& expected, const std::string& got) {
  throw std::invalid_argument(std::string(name) + ": expected " + expected + ", got " + got);
}

// What a type is called in messages.
template <class T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, bool>) return "True or False";
  if constexpr (std::is_same_v<T, int64_t>) return "an int of 64 bits";
  if constexpr (std::is_same_v<T, double>) return "a number";
  if constexpr (std::is_same_v<T, std::string>) return "a str";
}
// nanobind would list what a function takes and leave it to the reader which argument was wrong.
[[noreturn]] inline void refuse_type(const char* name, const char* expected, nb::handle got) {
  throw nb::type_error((std::string(name) + ": expected " + expected + ", got " + described(got)).c_str());
}

// A number, a word or a choice.
template <class T>
T taken(nb::handle value, const char* name, const char* expected = type_name<T>()) {
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
  In(nb::handle value, const char* name, const std::vector<int64_t>& shape) {
    const bool there = is_tensor(value) ? take_tensor(value) : take_buffer(value), fits = there && has_shape(shape);
    if (fits && whole_type_ && contiguous_ && reinterpret_cast<uintptr_t>(data_) % alignof(T) == 0) return;
    refuse(name, std::string("a contiguous NumPy array of ") + element_name<T>() + " " + written_shape(shape),
           described(value) + (fits ? " that is not" : ""));
  }

  const T* data() const { return data_; }
  int64_t length(int dimension) const { return shape_[dimension]; }
  size_t size() const { return size_t(size_); }

 private:
  static constexpr int kMost = 4;  // dimensions

  struct Release {
    void operator()(Py_buffer* view) const {
      PyBuffer_Release(view);
      delete view;
    }
  };

  bool take_buffer(nb::handle value) {
    auto view = std::make_unique<Py_buffer>();
    if (PyObject_GetBuffer(value.ptr(), view.get(), PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
      PyErr_Clear();
      return false;
    }
    view_.reset(view.release());
    const std::string format = view_->format ? view_->format : "B";
    const bool is_integer = format == "i" || format == "l" || format == "q";
    const bool is_wanted = std::is_integral_v<T> ? is_integer : format == (sizeof(T) == 4 ? "f" : "d");
    whole_type_ = is_wanted && view_->itemsize == sizeof(T);
    data_ = static_cast<T*>(view_->buf);
    measure(view_->ndim, view_->shape, view_->strides, sizeof(T));
    return true;
  }
  bool take_tensor(nb::handle value) {
    dlpack::Tensor tensor;
    if (tensor_exchange()->from_object(value.ptr(), &tensor) != 0) {
      PyErr_Clear();
      return false;
    }
    if (tensor.device_type != dlpack::kCpu) return false;
    keep_ = nb::borrow(value);
    const dlpack::DataType type = data_type<T>();
    whole_type_ = tensor.type.code == type.code && tensor.type.bits == type.bits && tensor.type.lanes == 1;
    data_ = reinterpret_cast<T*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
    measure(tensor.dimensions, tensor.shape, tensor.strides, 1);
    return tensor.data != nullptr || size_ == 0;  // fake tensors and wrappers have no numbers
  }
  // Strides are null for an array that is contiguous, else multiples of one number's `unit`.
  template <class Length>
  void measure(int dimensions, const Length* shape, const Length* strides, int64_t unit) {
    dimensions_ = dimensions;
    for (int i = std::min(dimensions_, kMost); i-- > 0;) {
      shape_[i] = shape[i];
      contiguous_ = contiguous_ && (!strides || shape_[i] <= 1 || strides[i] == size_ * unit);
      size_ *= shape_[i];
    }
    contiguous_ = contiguous_ || size_ == 0;
  }
  bool has_shape(const std::vector<int64_t>& shape) const {
    if (dimensions_ != int(shape.size()) || dimensions_ > kMost) return false;
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != kAny && shape_[i] != shape[i]) return false;
    return true;
  }
  std::unique_ptr<Py_buffer, Release> view_;  // of a buffer, or
  nb::object keep_;                           // a tensor
  T* data_ = nullptr;
  bool whole_type_ = false, contiguous_ = true;
  int dimensions_ = 0;
  int64_t shape_[kMost] = {}, size_ = 1;
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
