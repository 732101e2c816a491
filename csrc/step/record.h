// Whole sequences from arrays to arrays: makes the tape and the journals, runs the kernels, and keeps what a backward
// pass needs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/gradients.h"
#include "memory/timeline.h"
#include "step/sequence.h"
#include "support/recycled.h"

namespace sparsam {

// Numbers that somebody else may hold on to.
template <class T>
struct Numbers {
  Numbers() = default;
  explicit Numbers(size_t size) : data(recycled_array<T>(size)), size(size) {}
  T* get() const { return data.get(); }
  explicit operator bool() const { return data != nullptr; }
  std::shared_ptr<T[]> data;
  size_t size = 0;
};

// A tape and the arrays behind it.
template <class T>
struct TapeArrays {
  TapeArrays() = default;
  // `unused`: the rows erased are kept as well, although the ring can tell them.
  TapeArrays(const SequenceShape& shape, int64_t steps, bool unused);
  Tape<T> tape;
  Numbers<T> interface;  // apart, because without a controller it becomes the gradient of x
  Recycled<std::byte> block;  // all others
  size_t bytes = 0;
};

// h and the cell c, words read, and their rows and weights, of a batch.
template <class T>
struct StateArrays {
  Numbers<T> hidden, cell;  // (B, H) each; empty without a controller, and without c_t
  Numbers<T> read;          // (B, R, W)
  Numbers<int64_t> rows;    // (B, R, K)
  Numbers<T> weights;       // (B, R, K)
};

// What every step read and wrote: (T, B, R, K) and (T, B, R, K+1), rows of -1 past the lengths.
template <class T>
struct Trace {
  Numbers<int32_t> read_rows, write_rows;
  Numbers<T> read_weights, write_weights;
};

template <class T>
struct ForwardCall {
  SequenceShape shape;
  const T* x;
  Weights<T> weights;
  const T *hidden, *cell, *read;  // the incoming state; null where there is none, `read` too without a controller
  std::vector<int32_t> rows;      // (B, R, K)
  const T* read_weights;
  std::vector<int64_t> lengths;  // (B)
  Versions<T> versions;          // (B)
  bool record, trace;
  int threads;
};

// What a forward pass puts out, and leaves for its backward pass.
template <class T>
struct Record {
  explicit Record(const SequenceShape& shape) : shape(shape) {}
  SequenceShape shape;
  std::vector<int64_t> lengths;
  Numbers<T> out;  // (T, B, O): y, or (T, B, H+RW): [h, r]
  StateArrays<T> state;
  std::unique_ptr<Trace<T>> trace;
  Versions<T> before, after;
  // For the backward pass alone.
  bool recorded = false;
  std::atomic<bool> used{false};
  TapeArrays<T> tape;
  std::vector<std::shared_ptr<Journal<T>>> journals;
  size_t bytes() const;
};

// Long sequences of which nothing is recorded run in pieces of this many steps.
constexpr int64_t kPiece = 512;

// The versions that come in stay what they are, also when the sequence ends by an exception. A memory that occurs twice
// in the batch, in whatever version, is copied.
template <class T>
std::shared_ptr<Record<T>> run_forward(const ForwardCall<T>& call);

template <class T>
struct BackwardCall {
  const T* x;
  Weights<T> weights;
  const T *d_out, *d_hidden, *d_cell, *d_read, *d_weights;  // null for zero
  std::vector<RowGradients<T>> d_memory;                      // (B)
  std::vector<LinkEntries<T>> d_links;                        // (B)
  bool needs_x, needs_memory;
  int threads;
  // Gradients of memories that stay in the core, in the backward pass of this number: those of the final memories that
  // later calls left, and the place where those of the starting memories go. Null for none, and for the result.
  PendingGradients<T>*pending = nullptr, *source = nullptr;
  int64_t pass = 0;
  double clip = 0;  // of what a step hands back (backward_clip.h); 0 for exact gradients
};

template <class T>
struct Gradients {
  explicit Gradients(const SequenceShape& shape) : shape(shape) {}
  SequenceShape shape;
  Numbers<T> x;
  Parameters<Numbers<T>> parameters;
  StateArrays<T> state;  // rows stay empty
  std::vector<RowGradients<T>> memory;  // empty where it is not wanted, or where they went elsewhere
  std::vector<LinkEntries<T>> links;
};

// Once per record.
template <class T>
std::shared_ptr<Gradients<T>> run_backward(Record<T>& record, BackwardCall<T>&& call);

}  // namespace sparsam
