#include "support/parallel.h"

#include <dlfcn.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "support/interrupt.h"

namespace sparsam {
namespace {

// The entry point that compilers call for `#pragma omp parallel`; the GNU, LLVM and Intel runtimes all export it.
using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
GompParallel gomp_parallel = nullptr;

struct Job {
  Job(const std::function<void(int)>& task, int count) : task(task), count(count), left(count) {}
  const std::function<void(int)>& task;
  const int count;
  Watch* const watch = Watch::current();
  std::atomic<int> next{0};
  std::atomic<int> left;  // tasks that are not done
  std::condition_variable done;
  std::mutex lock;
  std::exception_ptr error;

  // A runtime may give fewer threads than asked for, so each takes tasks until none is left.
  void share() {
    const Watch::Shared shared(watch);
    for (int i = next++; i < count; i = next++) {
      guarded([&] { task(i); });
      if (--left > 0) continue;
      const std::lock_guard<std::mutex> hold(lock);
      done.notify_all();
    }
    if (watch != nullptr && watch->is_mine()) wait();
  }
  static void run(void* self) { static_cast<Job*>(self)->share(); }

  // The others may still work for long, and only the thread of the call can be told to end it.
  void wait() {
    for (int i = 0; i < 1000 && left > 0; ++i) std::this_thread::yield();  // mostly they are nearly done
    while (left > 0) {
      guarded(check_interrupt);
      std::unique_lock<std::mutex> hold(lock);
      done.wait_for(hold, Watch::kEvery, [&] { return left == 0; });
    }
  }
  template <class F>
  void guarded(const F& f) {
    try {
      f();
    } catch (...) {
      const std::lock_guard<std::mutex> hold(lock);
      if (!error) error = std::current_exception();
    }
  }
};

}  // namespace

bool use_openmp_runtime(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  gomp_parallel = reinterpret_cast<GompParallel>(dlsym(library, "GOMP_parallel"));
  return gomp_parallel != nullptr;
}

void run_parallel(int threads, const std::function<void(int)>& task) {
  if (threads <= 1) {
    if (threads == 1) task(0);
    return;
  }
  Job job(task, threads);
  if (gomp_parallel != nullptr) {
    gomp_parallel(&Job::run, &job, static_cast<unsigned>(threads), 0);
  } else {
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back([&job] { job.share(); });
    job.share();
    for (std::thread& other : others) other.join();
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace sparsam
