#include "support/parallel.h"

#include <dlfcn.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace sparsam {
namespace {

// The entry point that compilers call for `#pragma omp parallel`; the GNU, LLVM and Intel runtimes all export it.
using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
GompParallel gomp_parallel = nullptr;

struct Job {
  Job(const std::function<void(int)>& task, int count) : task(task), count(count) {}
  const std::function<void(int)>& task;
  int count;
  std::atomic<int> next{0};
  std::mutex lock;
  std::exception_ptr error;

  // A runtime may give fewer threads than asked for, so each takes tasks until none is left.
  void work() {
    for (int i = next++; i < count; i = next++) {
      try {
        task(i);
      } catch (...) {
        const std::lock_guard<std::mutex> hold(lock);
        if (!error) error = std::current_exception();
      }
    }
  }
  static void run(void* self) { static_cast<Job*>(self)->work(); }
};

}  // namespace

bool use_openmp_runtime(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  gomp_parallel = reinterpret_cast<GompParallel>(dlsym(library, "GOMP_parallel"));
  return gomp_parallel != nullptr;
}

void run_parallel(int threads, const std::function<void(int)>& task) {
  Job job(task, threads);
  if (threads <= 1) {
    job.work();
  } else if (gomp_parallel != nullptr) {
    gomp_parallel(&Job::run, &job, static_cast<unsigned>(threads), 0);
  } else {
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back([&job] { job.work(); });
    job.work();
    for (std::thread& other : others) other.join();
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace sparsam
