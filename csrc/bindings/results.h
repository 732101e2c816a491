// Numbers on their way to Python, as NumPy arrays that own them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings/tensors.h"
#include "step/record.h"

namespace sparsam {

namespace nb = nanobind;

template <class T>
nb::object to_numpy(std::vector<T> values, std::vector<size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner));
}

// Shares the numbers; None where there are none.
template <class T>
nb::object to_numpy(const Numbers<T>& numbers, std::vector<size_t> shape) {
  if (!numbers) return nb::none();
  auto* owned = new std::shared_ptr<T[]>(numbers.data);
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::shared_ptr<T[]>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->get(), shape.size(), shape.data(), owner));
}

// The same as a tensor where PyTorch gives them without a detour (tensors.h).
template <class T>
nb::object to_python(const Numbers<T>& numbers, const std::vector<size_t>& shape) {
  if (!numbers || tensor_exchange() == nullptr) return to_numpy(numbers, shape);
  return make_tensor(numbers.data, numbers.get(), data_type<T>(), shape);
}

}  // namespace sparsam
