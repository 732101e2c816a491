// PyTorch's tensors without NumPy in between, by DLPack's C exchange API where this PyTorch has it (2.10 and later). A
// call of one step hands over a dozen arrays, and NumPy takes a microsecond for each.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "step/record.h"

namespace sparsam {

namespace nb = nanobind;

// As dlpack.h has them, version 1.
namespace dlpack {
struct Version {
  uint32_t major, minor;
};
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct Tensor {
  void* data;
  int32_t device_type, device_id;
  int32_t dimensions;
  DataType type;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct ManagedTensor {
  Version version;
  void* context;
  void (*deleter)(ManagedTensor* self);
  uint64_t flags;
  Tensor tensor;
};
struct ExchangeHeader {
  Version version;
  ExchangeHeader* older;
};
struct Exchange {
  ExchangeHeader header;
  void* allocate;
  void* managed_from_object;
  int (*to_object)(ManagedTensor* tensor, void** object);
  int (*from_object)(void* object, Tensor* out);
  void* current_stream;
};
constexpr int32_t kCpu = 1;
constexpr uint8_t kInteger = 0, kFloat = 2;
}  // namespace dlpack

// From now on tensors of this type (and its subclasses) are taken, and given as results. False where the capsule holds
// no API that is known here.
bool use_tensors(nb::handle type, nb::handle capsule);
// Null where `use_tensors` was not called, or failed.
const dlpack::Exchange* tensor_exchange();
bool is_tensor(nb::handle value);

// A tensor over the numbers, which it keeps; PyTorch is there.
nb::object make_tensor(std::shared_ptr<void> owner, void* data, dlpack::DataType type, const std::vector<size_t>& shape);

template <class T>
constexpr dlpack::DataType data_type() {
  return {std::is_integral_v<T> ? dlpack::kInteger : dlpack::kFloat, 8 * sizeof(T), 1};
}

// Numbers on their way to Python, as NumPy arrays that own them.
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

// The same as a tensor where PyTorch gives them without a detour.
template <class T>
nb::object to_python(const Numbers<T>& numbers, const std::vector<size_t>& shape) {
  if (!numbers || tensor_exchange() == nullptr) return to_numpy(numbers, shape);
  return make_tensor(numbers.data, numbers.get(), data_type<T>(), shape);
}

}  // namespace sparsam
