// Sharing work over threads. The OpenMP runtime that the process already has (torch's) is borrowed when it is handed
// in: a second pool would fight its spinning workers for the cores.
#pragma once

#include <functional>
#include <string>

namespace sparsam {

// Use the OpenMP runtime in this shared library, which must be loaded already. False when it does not serve.
bool use_openmp_runtime(const std::string& path);

// Call task(0) ... task(threads - 1), each once, and return when all are done. The first exception is thrown again.
void run_parallel(int threads, const std::function<void(int)>& task);

}  // namespace sparsam
