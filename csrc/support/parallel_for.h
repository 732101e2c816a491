// The one loop over threads that bulk building needs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace sparsam {

// Calls work(begin, end) on even parts of [0, n), one per thread; the exception of the earliest part is thrown again.
template <class Work>
void parallel_parts(int32_t n, int threads, const Work& work) {
  const int parts = std::max(1, std::min<int>(threads, n));
  std::vector<std::exception_ptr> errors(static_cast<size_t>(parts));
  auto part = [&](int i) {
    try {
      work(static_cast<int32_t>(int64_t{n} * i / parts), static_cast<int32_t>(int64_t{n} * (i + 1) / parts));
    } catch (...) {
      errors[static_cast<size_t>(i)] = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < parts; ++i) others.emplace_back(part, i);
  part(0);
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace sparsam
