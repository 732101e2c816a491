#include "support/interrupt.h"

#include <utility>

namespace sparsam {
namespace {
thread_local Watch* watch = nullptr;
}

Watch::Watch(std::function<void()> check, std::chrono::milliseconds every)
    : check_(std::move(check)), every_(every), before_(std::exchange(watch, this)) {}
Watch::~Watch() { watch = before_; }
Watch* Watch::current() { return watch; }

Watch::Shared::Shared(Watch* shared) : before_(std::exchange(watch, shared)) {}
Watch::Shared::~Shared() { watch = before_; }

void Watch::look() {
  if (stopped_.load(std::memory_order_relaxed)) throw Interrupted();
  if (!is_mine() || std::chrono::steady_clock::now() < next_) return;
  try {
    check_();
  } catch (...) {
    error_ = std::current_exception();
    stopped_ = true;
    throw Interrupted();
  }
  next_ = std::chrono::steady_clock::now() + every_;
}

void check_interrupt() {
  if (watch != nullptr) watch->look();
}

}  // namespace sparsam
