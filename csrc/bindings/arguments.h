// Arguments of the bindings, each checked: what does not serve is a ValueError that names the argument.
//
// Arrays come in over the buffer protocol, which is faster than DLPack's Python protocol, and tensors over its C API
// (tensors.h). Nothing is ever converted. Only Python's limited API is used, so that one module serves Python 3.12 and
// every later one.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/tensors.h"

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
  In(nb::handle value, const char* name, const std::vector<int64_t>& shape) {
    const bool there = is_tensor(value) ? take_tensor(value) : take_buffer(value);
    if (there && fits(shape)) return;
    const std::string got = described(value) + (there && has_shape(shape) ? " that is not" : "");
    release();
    refuse(name, wanted(shape), got);
  }
  In(In&& other) noexcept { swap(other); }
  In& operator=(In&& other) noexcept {
    swap(other);
    return *this;
  }
  ~In() { release(); }

  const T* data() const { return data_; }
  int64_t length(int dimension) const { return shape_[dimension]; }
  size_t size() const {
    size_t total = 1;
    for (int i = 0; i < dimensions_; ++i) total *= size_t(shape_[i]);
    return total;
  }

 private:
  static constexpr int kMost = 4;  // dimensions

  static std::string wanted(const std::vector<int64_t>& shape) {
    return std::string("a contiguous NumPy array of ") + ElementName<T>::kName + " " + written_shape(shape);
  }
  bool take_buffer(nb::handle value) {
    if (PyObject_GetBuffer(value.ptr(), &view_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
      PyErr_Clear();
      view_.obj = nullptr;
      return false;
    }
    const std::string format = view_.format ? view_.format : "B";
    whole_type_ = view_.itemsize == sizeof(T) && (std::is_same_v<T, float>    ? format == "f"
                                                  : std::is_same_v<T, double> ? format == "d"
                                                                              : format == "i" || format == "l" || format == "q");
    data_ = static_cast<T*>(view_.buf);
    dimensions_ = view_.ndim;
    for (int i = 0; i < std::min(dimensions_, kMost); ++i) {
      shape_[i] = view_.shape[i];
      whole_type_ = whole_type_ && view_.strides[i] % int64_t(sizeof(T)) == 0;
      strides_[i] = view_.strides[i] / int64_t(sizeof(T));
    }
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
    dimensions_ = tensor.dimensions;
    int64_t apart = 1;
    for (int i = std::min(dimensions_, kMost); i-- > 0;) {
      shape_[i] = tensor.shape[i];
      strides_[i] = tensor.strides ? tensor.strides[i] : apart;
      apart *= shape_[i];
    }
    return tensor.data != nullptr || apart == 0;  // fake tensors and wrappers have no numbers
  }
  bool has_shape(const std::vector<int64_t>& shape) const {
    if (dimensions_ != int(shape.size()) || dimensions_ > kMost) return false;
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != kAny && shape_[i] != shape[i]) return false;
    return true;
  }
  bool is_contiguous() const {
    if (size() == 0) return true;
    int64_t apart = 1;
    for (int i = dimensions_; i-- > 0;) {
      if (shape_[i] > 1 && strides_[i] != apart) return false;
      apart *= shape_[i];
    }
    return true;
  }
  bool fits(const std::vector<int64_t>& shape) const {
    const bool aligned = reinterpret_cast<uintptr_t>(data_) % alignof(T) == 0;
    return has_shape(shape) && whole_type_ && aligned && is_contiguous();
  }
  void release() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
    view_.obj = nullptr;
    keep_.reset();
  }
  void swap(In& other) {
    std::swap(view_, other.view_);
    std::swap(keep_, other.keep_);
    std::swap(data_, other.data_);
    std::swap(whole_type_, other.whole_type_);
    std::swap(dimensions_, other.dimensions_);
    std::swap(shape_, other.shape_);
    std::swap(strides_, other.strides_);
  }

  Py_buffer view_{};  // of a buffer, or
  nb::object keep_;   // a tensor
  T* data_ = nullptr;
  bool whole_type_ = false;
  int dimensions_ = 0;
  int64_t shape_[kMost] = {}, strides_[kMost] = {};
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
