// Long work that somebody may want to end: Ctrl-C. Every loop that can take long says so now and then
// (`check_interrupt`), and by the clock the thread that made the call looks whether it is to go on. Threads that help it
// (run_parallel) end as well.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <thread>

namespace sparsam {

// What ends the work; whoever set the watch throws what `check` threw in its place.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "the call was interrupted"; }
};

// From here to its end, `check` is called about once in `every` while this thread works; it throws to end the work.
class Watch {
 public:
  static constexpr std::chrono::milliseconds kEvery{50};

  explicit Watch(std::function<void()> check, std::chrono::milliseconds every = kEvery);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  [[noreturn]] void rethrow() const { std::rethrow_exception(error_); }
  bool is_mine() const { return std::this_thread::get_id() == caller_; }

  static Watch* current();
  // The watch of another thread, which this one helps.
  class Shared {
   public:
    explicit Shared(Watch* watch);
    ~Shared();
    Shared(const Shared&) = delete;

   private:
    Watch* const before_;
  };

 private:
  friend void check_interrupt();
  void look();

  const std::function<void()> check_;
  const std::thread::id caller_ = std::this_thread::get_id();
  const std::chrono::milliseconds every_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + every_;
  std::atomic<bool> stopped_{false};
  std::exception_ptr error_;  // what `check` threw
  Watch* const before_;
};

// Throws Interrupted when the work is to end. Costs a look at the clock: some 25 ns.
void check_interrupt();

}  // namespace sparsam
