// Whole sequences through the kernels: on several threads at once, each with its own memories, and one memory that many
// threads ask for, where one gets it and the others are told. Also meant for the thread sanitizer.
#include "step/record.h"

#include <atomic>
#include <cmath>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"
#include "memory/timeline.h"

using namespace sparsam;

namespace {

constexpr int32_t kBatch = 5, kHidden = 6, kInputs = 3, kOutputs = 7;
constexpr int64_t kSteps = 20;

MemoryShape memory_shape(bool links) {
  MemoryShape s;
  s.rows = 30, s.width = 5, s.heads = 2, s.k = 3, s.delta = 0.005;
  s.k_links = links ? 4 : 0;
  s.link_gradients = links;
  return s;
}

struct Problem {
  Problem(ControllerKind controller, bool links)
      : shape(memory_shape(links), links ? MemoryKind::sdnc : MemoryKind::sam, controller, kSteps, kBatch,
              controller == ControllerKind::none ? InterfaceLayout(memory_shape(links)).size : kInputs,
              controller == ControllerKind::none ? 0 : kHidden) {
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    auto fill = [&](std::vector<double>& to, size_t count) {
      to.resize(count);
      for (double& x : to) x = normal(random);
    };
    const size_t gates = size_t(traits(controller).blocks) * kHidden;
    fill(x, kSteps * kBatch * shape.inputs);
    fill(w_ih, gates * (shape.inputs + shape.read_width()));
    fill(w_hh, gates * kHidden);
    fill(b_ih, gates);
    fill(b_hh, gates);
    fill(w_interface, size_t(shape.interface) * kHidden);
    fill(b_interface, shape.interface);
    if (gates > 0) shape.outputs = kOutputs;
    fill(w_output, size_t(shape.outputs) * shape.joint);
    fill(b_output, shape.outputs);
    zeros.assign(kBatch * (kHidden + shape.read_width() + shape.reads()), 0.0);
  }

  Weights<double> weights() const {
    return {w_ih.data(), w_hh.data(), b_ih.data(), b_hh.data(),
            w_interface.data(), b_interface.data(), w_output.data(), b_output.data()};
  }
  ForwardCall<double> call(Versions<double> versions, int threads, bool record) const {
    return {shape,        x.data(),     weights(),    zeros.data(),
            zeros.data(), zeros.data(), std::vector<int32_t>(kBatch * shape.reads(), -1), zeros.data(),
            std::vector<int64_t>{20, 13, 0, 20, 1}, std::move(versions), record, true, threads};
  }
  Versions<double> fresh() const {
    Versions<double> out;
    for (int b = 0; b < kBatch; ++b) out.push_back(Version<double>::fresh(shape, nullptr));
    return out;
  }
  // Outputs and some gradients of a forward and a backward pass, one after the other.
  std::vector<double> run(int threads) const {
    auto record = run_forward(call(fresh(), threads, true));
    std::vector<double> out(record->out.get(), record->out.get() + record->out.size);
    const std::vector<double> d_joint(record->out.size, 0.5);
    BackwardCall<double> back{x.data(), weights(), d_joint.data(), nullptr, nullptr, nullptr, nullptr,
                              std::vector<RowGradients<double>>(kBatch), std::vector<LinkEntries<double>>(kBatch), true,
                              true,     threads,   {}};
    auto gradients = run_backward(*record, std::move(back));
    out.insert(out.end(), gradients->x.get(), gradients->x.get() + gradients->x.size);
    const Parameters<Numbers<double>>& of = gradients->parameters;
    for (const auto* one : {&of.w_ih, &of.w_output, &of.b_output})
      out.insert(out.end(), one->get(), one->get() + one->size);
    for (const auto& version : record->before) {  // the backward pass ends on the starting memory
      const Claim<double> claim(*version);
      CHECK(version->is_current() && version->timeline().memory.written().empty());
    }
    return out;
  }

  SequenceShape shape;
  std::vector<double> x, w_ih, w_hh, b_ih, b_hh, w_interface, b_interface, w_output, b_output, zeros;
};

void threads_agree(ControllerKind controller, bool links) {
  const Problem problem(controller, links);
  const std::vector<double> expected = problem.run(1);
  for (const double value : expected) CHECK(std::isfinite(value));
  CHECK(problem.run(3) == expected);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) wrong += problem.run(1 + round % 2) != expected;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

void one_memory_for_many_threads() {
  const Problem problem(ControllerKind::lstm, true);
  const Versions<double> versions = problem.fresh();
  auto expected = run_forward(problem.call(versions, 1, true));
  std::atomic<int> wrong{0}, ran{0}, told{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        try {
          auto record = run_forward(problem.call(versions, 1, (round + i) % 2 == 0));
          ++ran;
          for (size_t j = 0; j < record->out.size; ++j) wrong += record->out.get()[j] != expected->out.get()[j];
        } catch (const std::runtime_error&) {
          ++told;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0 && ran > 0 && ran + told == 200);
}

// A sequence that ends by an exception leaves the versions that it began from as they were.
void interrupted() {
  for (const bool record : {false, true}) {
    const Problem problem(ControllerKind::gru, true);
    const Versions<double> versions = problem.fresh();
    auto expected = run_forward(problem.call(versions, 1, record));
    SequenceShape longer = problem.shape;
    longer.steps = 400;
    const std::vector<double> x(400 * kBatch * kInputs, 0.1);
    ForwardCall<double> call = problem.call(versions, 2, record);
    call.shape = longer;
    call.x = x.data();
    call.lengths.assign(kBatch, 400);
    bool thrown = false;
    try {
      const Watch watch([] { throw std::runtime_error("enough"); }, std::chrono::milliseconds(0));
      run_forward(call);
    } catch (const Interrupted&) {
      thrown = true;
    }
    CHECK(thrown);
    auto again = run_forward(problem.call(versions, 1, record));
    for (size_t j = 0; j < again->out.size; ++j) CHECK(again->out.get()[j] == expected->out.get()[j]);
  }
}

}  // namespace

int main() {
  for (const auto controller : {ControllerKind::none, ControllerKind::lstm, ControllerKind::gru})
    for (const bool links : {false, true}) threads_agree(controller, links);
  one_memory_for_many_threads();
  interrupted();
  std::puts("sequence: all tests passed");
  return 0;
}
