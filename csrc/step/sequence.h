// A whole sequence of SAM or SDNC, forward and backward: what the kernels of each instruction set are given.
#pragma once

#include <cstdint>
#include <vector>

#include "index/index_settings.h"
#include "memory/parts.h"
#include "memory/gradients.h"
#include "memory/timeline.h"
#include "step/interface.h"

namespace sparsam {

// The controllers' cells. A new one is a file in cells/ and a line here: its name, its class, the numbers that it keeps
// per hidden unit and step, the blocks of H rows that its weights have, and whether it has a state beside h.
#define SPARSAM_CELLS(X)            \
  X(none, NoCell, 0, 0, false)      \
  X(lstm, LstmCell, 4, 4, true)     \
  X(gru, GruCell, 4, 3, false)

#define SPARSAM_CELL_NAME(name, type, kept, blocks, state) name,
enum class Cell : int32_t { SPARSAM_CELLS(SPARSAM_CELL_NAME) };
#undef SPARSAM_CELL_NAME

struct CellTraits {
  const char* name;
  int32_t kept, blocks;
  bool has_state;
};
inline const CellTraits& traits(Cell cell) {
#define SPARSAM_CELL_TRAITS(name, type, kept, blocks, state) {#name, kept, blocks, state},
  static constexpr CellTraits kTraits[] = {SPARSAM_CELLS(SPARSAM_CELL_TRAITS)};
#undef SPARSAM_CELL_TRAITS
  return kTraits[int32_t(cell)];
}

// The memories. A new one is a file with its step and a line here: its name and the class of its step.
#define SPARSAM_MEMORIES(X) \
  X(sam, SamStep)           \
  X(sdnc, SdncStep)

#define SPARSAM_MEMORY_NAME(name, type) name,
enum class MemoryKind : int32_t { SPARSAM_MEMORIES(SPARSAM_MEMORY_NAME) };
#undef SPARSAM_MEMORY_NAME
inline MemoryKind kind_of(const StoredShape& shape) { return shape.k_links > 0 ? MemoryKind::sdnc : MemoryKind::sam; }

// Letters of the paper: T steps, B batch, I inputs, H hidden, F numbers of an interface vector, G blocks of a cell.
struct SequenceShape : SearchedShape {
  SequenceShape(const SearchedShape& memory, Cell cell, int64_t steps, int32_t batch, int32_t inputs, int32_t hidden)
      : SearchedShape(memory),
        cell(cell),
        steps(steps),
        batch(batch),
        inputs(inputs),
        hidden(hidden),
        gates(hidden * traits(cell).kept),
        joint(hidden + read_width()),
        interface(InterfaceLayout(memory).size) {}
  Cell cell;
  int64_t steps;
  int32_t batch, inputs, hidden;  // without a controller, I is F and H is 0
  int32_t gates;                  // what a cell keeps of a step
  int32_t joint;                  // [h_t, r_t]
  int32_t interface;              // F
  int32_t outputs = 0;            // O; 0 without an output layer, where [h_t, r_t] is what is put out
  int32_t put_out() const { return outputs > 0 ? outputs : joint; }
};

// Parameters of a controller as torch.nn has them; null without one.
template <class T>
struct Weights {
  const T* w_ih = nullptr;  // (G H, I+RW), rows ih_stride apart: of [x_t, r_{t-1}]
  int64_t ih_stride = 0;
  const T* w_hh = nullptr;  // (G H, H), rows hh_stride apart
  int64_t hh_stride = 0;
  const T *b_ih = nullptr, *b_hh = nullptr;  // (G H)
  const T* w_interface = nullptr;            // (F, H)
  const T* b_interface = nullptr;            // (F)
  const T* w_output = nullptr;               // (O, H+RW): y_t = W [h_t, r_t] + b; null without an output layer
  const T* b_output = nullptr;               // (O)
};

// What the forward pass keeps, time first. Index 0 along T+1 is the incoming state.
template <class T>
struct Tape {
  T* gates = nullptr;           // (T, B, gates): what the cell keeps
  T* cells = nullptr;           // (T+1, B, H): c_t; null for a cell without
  T* joint = nullptr;           // (T+1, B, H+RW): [h, r]
  T* interface = nullptr;       // (T, B, F): activated
  int32_t* read_rows = nullptr;  // (T+1, B, R, K), -1 for none
  T* read_weights = nullptr;    // (T+1, B, R, K)
  T* scores = nullptr;          // (T, B, R, K): similarities of the rows found by content, which SAM reads
  int32_t* unused = nullptr;    // (T, B, R): the rows erased; null when the ring can tell and they are not wanted
  int32_t* content_rows = nullptr;  // (T, B, R, K): with links, the rows found by content and c_h there; else null
  T* content_weights = nullptr;
  T* room = nullptr;            // (T, B, R): with usage, 1 - u of the rows erased; else null
};

// What both directions take.
template <class T>
struct SequenceCall {
  SequenceShape shape;
  Weights<T> weights;
  const T* x;              // (T, B, I)
  const int64_t* lengths;  // (B)
  Tape<T> tape;            // the backward pass overwrites gates and interface by the gradients before their activation
  std::vector<Timeline<T>*> timelines;  // one per batch element, current
  std::vector<Journal<T>*> journals;    // likewise, null where nothing is recorded
};

template <class T>
struct SequenceForward : SequenceCall<T> {
  T* out;  // (T, B, O): y_t, or (T, B, H+RW): a copy of [h_t, r_t]; zero past the lengths; may be null
};

// Gradients of the parameters and of x; a null pointer for what is not wanted.
template <class T>
struct ParameterGradients {
  T *w_ih = nullptr, *w_hh = nullptr, *b_ih = nullptr, *b_hh = nullptr, *w_interface = nullptr, *b_interface = nullptr;
  T *w_output = nullptr, *b_output = nullptr;
  T* x = nullptr;  // (T, B, I)
};

template <class T>
struct SequenceBackward : SequenceCall<T> {
  const T* d_out;      // (T, B, O) or (T, B, H+RW), null for zero; what stands past the lengths is not looked at
  T* d_state_joint;    // (B, H+RW): of the final state in, of the incoming state out; likewise the next two
  T* d_state_cell;     // (B, H), null for a cell without
  T* d_state_weights;  // (B, R, K)
  std::vector<RowGradientBuffer<T>*> d_memory;  // (B): of the final memory in, of the starting memory out
  std::vector<LinkEntries<T>> d_links;    // (B): likewise of the links, where they are differentiated
  ParameterGradients<T> gradients;
  double clip = 0;  // of what a step hands back (backward_clip.h); 0 for exact gradients
};

// A causal convolution over T steps of B elements with D channels (causal_convolution.h).
struct ConvolutionShape {
  int64_t steps, batch, width;
  int taps;
};

// A linear map of `rows` rows, each with `first` numbers of one array and then `second` of another (linear.h).
struct LinearShape {
  int64_t rows;
  int first, second, outputs;
};

// One instruction set's code. Both run batch elements in groups, shared out over `threads`.
template <class T>
struct SequenceKernels {
  void (*forward)(const SequenceForward<T>&, int threads);
  void (*backward)(SequenceBackward<T>&, int threads);
  // |word| as the steps compute it.
  T (*norm)(const T* word, int32_t stride);
  void (*convolve)(const ConvolutionShape& shape, const T* window, const T* x, const T* weight, const T* bias, T* out,
                   int threads);
  void (*convolve_backward)(const ConvolutionShape& shape, const T* window, const T* x, const T* weight, const T* d_out,
                            T* d_window, T* d_x, T* d_weight, T* d_bias, int threads);
  void (*linear)(const LinearShape& shape, const T* a, const T* b, const T* weight, const T* bias, T* out, int threads);
  void (*linear_backward)(const LinearShape& shape, const T* a, const T* b, const T* weight, const T* d_out, T* d_a,
                          T* d_b, T* d_weight, T* d_bias, int threads);
};

struct InstructionSet {
  SequenceKernels<float> floats;
  SequenceKernels<double> doubles;
  IndexMaker make_index;
};

// The set named by SPARSAM_ISA ("baseline", "avx2", "avx512") or else the best that this processor has.
template <class T>
const SequenceKernels<T>& sequence_kernels();
const char* selected_isa();

}  // namespace sparsam
