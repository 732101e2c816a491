// Sharing work over threads. The OpenMP runtime that the process already has (torch's) is borrowed when it is handed
// in: a second pool would fight its spinning workers for the cores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace sparsam {

// Use the OpenMP runtime in this shared library, which must be loaded already. False when it cannot be used.
bool use_openmp_runtime(const std::string& path);

// Call task(0) ... task(threads - 1), each once, and return when all are done. The first exception is thrown again.
void run_parallel(int threads, const std::function<void(int)>& task);

// Calls work(begin, end) on even parts of [0, n), one per thread; the exception of the earliest part is thrown again.
template <class Work>
void parallel_parts(int64_t n, int threads, const Work& work) {
  const int parts = int(std::max<int64_t>(1, std::min<int64_t>(threads, n)));
  std::vector<std::exception_ptr> errors(static_cast<size_t>(parts));
  run_parallel(parts, [&](int i) {
    try {
      work(n * i / parts, n * (i + 1) / parts);
    } catch (...) {
      errors[static_cast<size_t>(i)] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace sparsam
