// Gradients of memories on their way back from the calls that used them to the call that left them. Between calls that
// run one after the other the buffer itself goes from hand to hand, so that a step costs what it touches and not what
// all later steps touched.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "memory/row_gradients.h"

namespace sparsam {

// Of a batch, one for each element; empty for none.
template <class T>
using BatchRowGradients = std::vector<std::unique_ptr<RowGradientBuffer<T>>>;

// Of the memories that one call leaves. What is pending belongs to a backward pass, told by its number: a pass that ends
// before it reaches the call, by an exception or since nobody asked it to go there, leaves nothing to the next.
template <class T>
class PendingGradients {
 public:
  void leave(int64_t pass, BatchRowGradients<T>&& given) {
    const std::lock_guard<std::mutex> hold(lock_);
    for (auto& [number, pending] : passes_) {
      if (number != pass) continue;
      if (pending.size() != given.size()) throw std::invalid_argument("pending: expected gradients of one batch");
      for (size_t b = 0; b < given.size(); ++b) pending[b]->add(*given[b]);
      return;
    }
    if (passes_.size() >= kMostPasses) passes_.erase(passes_.begin());
    passes_.emplace_back(pass, std::move(given));
  }

  // Empty where nothing is pending.
  BatchRowGradients<T> take(int64_t pass) {
    const std::lock_guard<std::mutex> hold(lock_);
    for (size_t i = 0; i < passes_.size(); ++i) {
      if (passes_[i].first != pass) continue;
      BatchRowGradients<T> found = std::move(passes_[i].second);
      passes_.erase(passes_.begin() + int64_t(i));
      return found;
    }
    return {};
  }

  size_t size() const {
    const std::lock_guard<std::mutex> hold(lock_);
    return passes_.size();
  }

 private:
  static constexpr size_t kMostPasses = 8;  // so many at a time; older ones have ended

  mutable std::mutex lock_;
  std::vector<std::pair<int64_t, BatchRowGradients<T>>> passes_;
};

}  // namespace sparsam
