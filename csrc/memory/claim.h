// Claims buffers for one call, so that two threads with the same state get an error and not each other's words.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "memory/timeline.h"

namespace sparsam {

// A memory that occurs twice among the versions is claimed once.
template <class T>
class Claim {
 public:
  explicit Claim(const Versions<T>& versions) {
    const std::lock_guard<std::mutex> hold(Version<T>::making());
    for (const auto& version : versions) {
      const std::shared_ptr<Timeline<T>>& timeline = version->renewed();
      if (std::find(claimed_.begin(), claimed_.end(), timeline) != claimed_.end()) continue;
      if (timeline->busy.test_and_set()) {
        release();
        throw std::runtime_error("state: its memory is in use by another thread; give each thread a clone()");
      }
      claimed_.push_back(timeline);
    }
  }
  explicit Claim(Version<T>& version) : Claim(Versions<T>{version.shared_from_this()}) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() { release(); }

 private:
  void release() {
    for (const auto& timeline : claimed_) timeline->busy.clear();
    claimed_.clear();
  }
  std::vector<std::shared_ptr<Timeline<T>>> claimed_;
};

}  // namespace sparsam
