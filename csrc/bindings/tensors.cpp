#include "bindings/tensors.h"

#include <algorithm>
#include <stdexcept>

namespace sparsam {
namespace {

const dlpack::Exchange* exchange = nullptr;
PyTypeObject* tensor_type = nullptr;  // lives as long as torch, which is never unloaded

constexpr int kMostDimensions = 4;

struct Owned {
  dlpack::ManagedTensor managed;
  int64_t shape[kMostDimensions], strides[kMostDimensions];
  std::shared_ptr<void> owner;
};

}  // namespace

bool use_tensors(nb::handle type, nb::handle capsule) {
  if (!PyCapsule_CheckExact(capsule.ptr())) return false;
  auto* header = static_cast<dlpack::ExchangeHeader*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (header == nullptr) {
    PyErr_Clear();
    return false;
  }
  while (header != nullptr && header->version.major != 1) header = header->older;
  if (header == nullptr || !PyType_Check(type.ptr())) return false;
  const auto* found = reinterpret_cast<const dlpack::Exchange*>(header);
  if (found->to_object == nullptr || found->from_object == nullptr) return false;
  tensor_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  exchange = found;
  return true;
}

const dlpack::Exchange* tensor_exchange() { return exchange; }

bool is_tensor(nb::handle value) {
  return exchange != nullptr && PyType_IsSubtype(Py_TYPE(value.ptr()), tensor_type) != 0;
}

nb::object make_tensor(std::shared_ptr<void> owner, void* data, dlpack::DataType type, const std::vector<size_t>& shape) {
  if (shape.size() > kMostDimensions) throw std::invalid_argument("shape: expected at most 4 dimensions");
  auto* made = new Owned{};
  made->owner = std::move(owner);
  int64_t apart = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    made->shape[i] = int64_t(shape[i]);
    made->strides[i] = apart;
    apart *= std::max<int64_t>(made->shape[i], 1);
  }
  made->managed = {{1, 0},
                   made,
                   [](dlpack::ManagedTensor* self) { delete static_cast<Owned*>(self->context); },
                   0,
                   {data, dlpack::kCpu, 0, int32_t(shape.size()), type, made->shape, made->strides, 0}};
  void* object = nullptr;
  if (exchange->to_object(&made->managed, &object) != 0) {  // it has not taken the numbers
    delete made;
    throw nb::python_error();
  }
  return nb::steal(static_cast<PyObject*>(object));
}

}  // namespace sparsam
