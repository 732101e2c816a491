// Shared by the files that make the core a Python module.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "memory/timeline.h"

namespace sparsam {

namespace nb = nanobind;

// Index settings, and an index over an array for tests and benchmarks.
void bind_indexes(nb::module_& m);
// Starting memories, and versions of memories with what they hold.
void bind_versions(nb::module_& m);
// Whole sequences, forward and backward.
void bind_sequences(nb::module_& m);
// A step of an optimiser.
void bind_optimizer(nb::module_& m);

template <class T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
template <class T>
using Versions = std::vector<typename Version<T>::Pointer>;

// A numpy array that owns its numbers.
template <class T>
nb::ndarray<nb::numpy, T> to_numpy(std::vector<T> values, std::vector<size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner);
}

template <class T>
T* pointer(const Array<T>& array, size_t expected, const char* name) {
  if (array.size() != expected)
    throw std::invalid_argument(std::string(name) + ": expected " + std::to_string(expected) + " numbers, got " +
                                std::to_string(array.size()));
  return array.data();
}

// Claims the buffers for one call, so that two threads with the same state get an error and not each other's words.
template <class T>
class Claim {
 public:
  explicit Claim(const Versions<T>& versions) {
    for (const auto& version : versions) {
      if (version->timeline().busy.test_and_set()) {
        release();
        throw std::runtime_error("state: its memory is in use by another thread; give each thread a clone()");
      }
      claimed_.push_back(&version->timeline());
    }
  }
  Claim(const Claim&) = delete;
  ~Claim() { release(); }

 private:
  void release() {
    for (Timeline<T>* timeline : claimed_) timeline->busy.clear();
    claimed_.clear();
  }
  std::vector<Timeline<T>*> claimed_;
};

}  // namespace sparsam
