// RMSProp (Tieleman and Hinton 2012) with a clipped gradient, over a flat vector of parameters:
//
//   g <- min(1, clip / |g|) g;   s <- decay s + (1 - decay) g^2;   v <- momentum v + g / (sqrt(s) + epsilon);
//   p <- p - rate v
//
// One pass reads the gradient for its norm, a second one does all the rest and leaves the gradient as it is. The vectors
// have left the cache by the time a training step comes to them, so the number of passes is what it costs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "support/parallel.h"

// One copy for each width of vectors, chosen when the library is loaded.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SPARSAM_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SPARSAM_VECTOR_CLONES
#endif

namespace sparsam {

template <class T>
struct RmsProp {
  T scale, decay, momentum, epsilon, rate;
};

// Numbers that are summed together. Fixed, so that a norm has the same bits on any number of threads.
constexpr int64_t kNormBlock = 4096;

#define SPARSAM_RMSPROP(T)                                                                                           \
  SPARSAM_VECTOR_CLONES inline T sum_of_squares(const T* numbers, int64_t count) {                                   \
    constexpr int kLanes = 32;                                                                                       \
    T lanes[kLanes] = {};                                                                                            \
    int64_t i = 0;                                                                                                   \
    for (; i + kLanes <= count; i += kLanes)                                                                         \
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += numbers[i + lane] * numbers[i + lane];                \
    T sum = 0;                                                                                                       \
    for (; i < count; ++i) sum += numbers[i] * numbers[i];                                                           \
    for (int lane = 0; lane < kLanes; ++lane) sum += lanes[lane];                                                    \
    return sum;                                                                                                      \
  }                                                                                                                  \
  SPARSAM_VECTOR_CLONES inline void rmsprop_span(const RmsProp<T>& step, int64_t count, T* __restrict__ parameters,  \
                                                 const T* __restrict__ gradients, T* __restrict__ squares,           \
                                                 T* __restrict__ velocity) {                                         \
    const T scale = step.scale, decay = step.decay, rest = T(1) - decay, momentum = step.momentum;                   \
    const T epsilon = step.epsilon, rate = step.rate;                                                                \
    for (int64_t i = 0; i < count; ++i) {                                                                            \
      const T g = scale * gradients[i];                                                                              \
      const T s = decay * squares[i] + rest * (g * g);                                                               \
      const T v = momentum * velocity[i] + g / (std::sqrt(s) + epsilon);                                             \
      squares[i] = s;                                                                                                \
      velocity[i] = v;                                                                                               \
      parameters[i] -= rate * v;                                                                                     \
    }                                                                                                                \
  }
SPARSAM_RMSPROP(float)
SPARSAM_RMSPROP(double)
#undef SPARSAM_RMSPROP

// Shares `blocks` of numbers over threads where there are enough: task(begin, end) in blocks.
template <class Task>
void over_blocks(int64_t blocks, int threads, const Task& task) {
  constexpr int64_t kEnough = 4;  // blocks that are worth waking a thread for
  const int64_t parts = std::clamp<int64_t>(blocks / kEnough, 1, threads);
  const auto part = [&](int which) { task(blocks * which / parts, blocks * (which + 1) / parts); };
  if (parts == 1)
    part(0);
  else
    run_parallel(int(parts), part);
}

// |g|, with sums of blocks added up in double precision.
template <class T>
double gradient_norm(int64_t count, const T* gradients, int threads) {
  const int64_t blocks = (count + kNormBlock - 1) / kNormBlock;
  std::vector<double> sums(blocks);
  over_blocks(blocks, threads, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kNormBlock;
      sums[block] = double(sum_of_squares(gradients + first, std::min(kNormBlock, count - first)));
    }
  });
  double sum = 0;
  for (double block : sums) sum += block;
  return std::sqrt(sum);
}

// The norm of the gradient, and a step along it clipped to `clip` (0: as it is). A norm that is not finite changes
// nothing. The step is computed number by number: its bits do not depend on the threads.
template <class T>
double rmsprop(RmsProp<T> step, double clip, int64_t count, T* parameters, const T* gradients, T* squares, T* velocity,
               int threads) {
  const double norm = gradient_norm(count, gradients, threads);
  if (!std::isfinite(norm)) return norm;
  step.scale = T(clip > 0 && norm > clip ? clip / norm : 1.0);
  over_blocks((count + kNormBlock - 1) / kNormBlock, threads, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kNormBlock, last = std::min(count, end * kNormBlock);
    rmsprop_span(step, last - first, parameters + first, gradients + first, squares + first, velocity + first);
  });
  return norm;
}

}  // namespace sparsam
