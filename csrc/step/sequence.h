// A whole sequence of SAM or SDNC, forward and backward: what the kernels of each instruction set are given.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "index/index_settings.h"
#include "memory/parts.h"
#include "memory/gradients.h"
#include "memory/timeline.h"
#include "step/interface.h"

namespace sparsam {

// The memories by name, as a call says which it runs. A new one is a file with its step and a line here: its name, the
// class of its step, and whether it has links.
#define SPARSAM_MEMORIES(X)  \
  X(sam, SamStep, false)     \
  X(sdnc, SdncStep, true)

// The controllers, likewise. A new one is a file in controllers/ and a line here: its name, its class, the numbers that
// it keeps per hidden unit and step, the blocks of H rows that its weights have, and whether it has a cell c beside h.
#define SPARSAM_CONTROLLERS(X)        \
  X(none, NoController, 0, 0, false)  \
  X(lstm, Lstm, 4, 4, true)           \
  X(gru, Gru, 4, 3, false)

#define SPARSAM_NAME(name, ...) name,
enum class MemoryKind : int32_t { SPARSAM_MEMORIES(SPARSAM_NAME) };
enum class ControllerKind : int32_t { SPARSAM_CONTROLLERS(SPARSAM_NAME) };
#undef SPARSAM_NAME

struct MemoryTraits {
  const char* name;
  bool has_links;
};
struct ControllerTraits {
  const char* name;
  int32_t kept, blocks;
  bool has_cell;
};
#define SPARSAM_MEMORY(name, step, links) {#name, links},
constexpr MemoryTraits kMemories[] = {SPARSAM_MEMORIES(SPARSAM_MEMORY)};
#undef SPARSAM_MEMORY
#define SPARSAM_CONTROLLER(name, type, kept, blocks, cell) {#name, kept, blocks, cell},
constexpr ControllerTraits kControllers[] = {SPARSAM_CONTROLLERS(SPARSAM_CONTROLLER)};
#undef SPARSAM_CONTROLLER
constexpr const MemoryTraits& traits(MemoryKind kind) { return kMemories[int32_t(kind)]; }
constexpr const ControllerTraits& traits(ControllerKind kind) { return kControllers[int32_t(kind)]; }

// The entry of this name in one of the two tables; std::invalid_argument lists those that there are.
template <class Kind, class Traits, size_t n>
Kind kind_named(const char* what, const std::string& name, const Traits (&table)[n]) {
  std::string known;
  for (size_t i = 0; i < n; ++i) {
    if (name == table[i].name) return Kind(i);
    known += (i == 0 ? "" : i + 1 < n ? ", " : " or ") + std::string(table[i].name);
  }
  throw std::invalid_argument(std::string(what) + ": expected " + known + ", got " + name);
}

// Letters of the paper: T steps, B batch, I inputs, H hidden, F numbers of an interface vector, G a controller's blocks.
struct SequenceShape : SearchedShape {
  SequenceShape(const SearchedShape& sizes, MemoryKind memory, ControllerKind controller, int64_t steps, int32_t batch,
                int32_t inputs, int32_t hidden)
      : SearchedShape(sizes),
        memory(memory),
        controller(controller),
        steps(steps),
        batch(batch),
        inputs(inputs),
        hidden(hidden),
        gates(hidden * traits(controller).kept),
        joint(hidden + read_width()),
        interface(InterfaceLayout(sizes).size) {}
  MemoryKind memory;
  ControllerKind controller;
  int64_t steps;
  int32_t batch, inputs, hidden;  // without a controller, I is F and H is 0
  int32_t gates;                  // what a controller keeps of a step
  int32_t joint;                  // [h_t, r_t]
  int32_t interface;              // F
  int32_t outputs = 0;            // O; 0 without an output layer, where [h_t, r_t] is what is put out
  int32_t seen() const { return inputs + read_width(); }  // [x_t, r_{t-1}]
  int32_t put_out() const { return outputs > 0 ? outputs : joint; }
};

// The parameters of a controller, its interface and its output layer as torch.nn has them, or something for each.
template <class P>
struct Parameters {
  P w_ih{}, w_hh{}, b_ih{}, b_hh{};  // of [x_t, r_{t-1}] and h_{t-1}
  P w_interface{}, b_interface{};    // of h_t
  P w_output{}, b_output{};          // of [h_t, r_t]

  // f(name, rows, columns, parameter, and the same of more lists): no rows where there is none, 0 columns for a bias.
  template <class F, class... More>
  void each(const SequenceShape& s, F&& f, More&... more) {
    const int64_t gates = int64_t(traits(s.controller).blocks) * s.hidden, fields = gates > 0 ? s.interface : 0;
    f("w_ih", gates, s.seen(), w_ih, more.w_ih...);
    f("w_hh", gates, s.hidden, w_hh, more.w_hh...);
    f("b_ih", gates, 0, b_ih, more.b_ih...);
    f("b_hh", gates, 0, b_hh, more.b_hh...);
    f("w_interface", fields, s.hidden, w_interface, more.w_interface...);
    f("b_interface", fields, 0, b_interface, more.b_interface...);
    f("w_output", s.outputs, s.joint, w_output, more.w_output...);
    f("b_output", s.outputs, 0, b_output, more.b_output...);
  }
};
template <class T>
using Weights = Parameters<const T*>;

// What the forward pass keeps, time first. Index 0 along T+1 is the incoming state.
template <class T>
struct Tape {
  T* gates = nullptr;           // (T, B, gates): what the controller keeps
  T* cells = nullptr;           // (T+1, B, H): c_t; null for a controller without
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

template <class T>
struct SequenceBackward : SequenceCall<T> {
  const T* d_out;      // (T, B, O) or (T, B, H+RW), null for zero; what stands past the lengths is not looked at
  T* d_state_joint;    // (B, H+RW): of the final state in, of the incoming state out; likewise the next two
  T* d_state_cell;     // (B, H), null for a controller without
  T* d_state_weights;  // (B, R, K)
  std::vector<RowGradientBuffer<T>*> d_memory;  // (B): of the final memory in, of the starting memory out
  std::vector<LinkEntries<T>> d_links;    // (B): likewise of the links, where they are differentiated
  Parameters<T*> gradients;
  T* d_x;  // (T, B, I), null where it is not wanted
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
