// A whole sequence of SAM or SDNC, forward and backward: what the kernels of each instruction set are given.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "memory/journal.h"
#include "memory/timeline.h"

namespace sparsam {

enum class Similarity : int32_t { kCosine, kEuclidean, kDot };
constexpr double kCosineEpsilon = 1e-6;

// Letters of the paper: T steps, B batch, H hidden, N rows, W width, R heads, K reads per head, K_L links per row.
struct SamShape {
  int64_t steps;
  int32_t batch, hidden, rows, width, heads, k;
  Similarity similarity;
  double delta;
  int32_t k_links = 0;  // 0 for SAM, which has no links
  bool link_gradients = false;
  bool free_usage = false;  // rows to write anew by usage with free gates, not by the ring
  std::shared_ptr<const IndexSettings> index = nullptr;  // null: exact search

  int32_t reads() const { return heads * k; }
  int32_t read_width() const { return heads * width; }
  int32_t joint() const { return hidden + read_width(); }                  // [h_t, r_t]
  // q, a, beta, alpha, gamma, with links the read modes, with usage the free gates
  int32_t interface() const { return 2 * read_width() + (k_links > 0 ? 6 : 3) * heads + (free_usage ? heads : 0); }
  int32_t max_writes() const { return heads * (k + 1); }
  int32_t max_touched() const { return heads * (2 * k + 1); }
  int32_t max_moves() const { return free_usage ? 0 : max_touched(); }    // of the ring
  int32_t max_changes() const { return free_usage ? max_touched() : 0; }  // of usage: rows freed, then rows written
};

// What the forward pass keeps, time first. Index 0 along T+1 is the incoming state.
template <class T>
struct SamTape {
  T* gates;               // (T, B, 4H): input part and biases come in, activated i, f, g, o go out
  T* cells;               // (T+1, B, H)
  T* joint;               // (T+1, B, H+RW): [h, r]
  T* interface;           // (T, B, F): activated
  int32_t* read_rows;     // (T+1, B, R, K), -1 for none
  T* read_weights;        // (T+1, B, R, K)
  T* scores;              // (T, B, R, K): similarities of the rows found by content, which SAM reads
  int32_t* unused;        // (T, B, R): the rows erased; null when nobody asks and the ring can tell
  int32_t* content_rows;  // (T, B, R, K): with links, the rows found by content and c_h there; else null
  T* content_weights;
  T* room;                // (T, B, R): with usage, 1 - u of the rows erased; else null
};

template <class T>
struct SamForward {
  SamShape shape;
  const T* recurrent;         // (4H, H+RW): weights of [h_{t-1}, r_{t-1}]
  const T* interface_weight;  // (F, H)
  const T* interface_bias;    // (F)
  const int64_t* lengths;     // (B)
  SamTape<T> tape;
  std::vector<Timeline<T>*> timelines;  // one per batch element, current
  std::vector<Journal<T>*> journals;    // likewise, null where nothing is recorded
  std::function<void()> check;          // called now and then between steps; ends the sequence by throwing
};

// A gradient with respect to the memory of one batch element: rows and their words.
template <class T>
struct RowGradients {
  std::vector<int32_t> rows;
  std::vector<T> words;  // (rows, W)
};

// A gradient with respect to the links of one batch element: entries of the rows that `Links` names.
template <class T>
struct LinkEntries {
  std::vector<int64_t> ids;
  std::vector<int32_t> columns;
  std::vector<T> values;
};

template <class T>
struct SamBackward {
  SamShape shape;
  const T* recurrent;
  const T* interface_weight;
  const int64_t* lengths;
  SamTape<T> tape;       // gates and interface are overwritten by the gradients before their activation
  const T* d_joint;      // (T, B, H+RW), from the output layer
  T* d_state_joint;      // (B, H+RW): of the final state in, of the incoming state out; likewise the next two
  T* d_state_cell;       // (B, H)
  T* d_state_weights;    // (B, R, K)
  std::vector<RowGradients<T>> d_memory;  // (B): of the final memory in, of the starting memory out
  std::vector<LinkEntries<T>> d_links;    // (B): likewise of the links, where they are differentiated
  std::vector<Timeline<T>*> timelines;
  std::vector<Journal<T>*> journals;
  std::function<void()> check;
};

// One instruction set's code. Both run batch elements in groups, shared out over `threads`.
template <class T>
struct SequenceKernels {
  void (*forward)(const SamForward<T>&, int threads);
  void (*backward)(SamBackward<T>&, int threads);
  // C (rows x columns) = A B + bias; element (k, n) of B is b[k * row_stride + n * column_stride] (row_product.h).
  void (*row_product)(const T* a, int64_t a_stride, const T* b, int row_stride, int column_stride, const T* bias,
                      int64_t rows, int depth, int columns, T* c, int threads);
  // C (m x n) = A^T B over `depth` rows of A and B with the given strides (tall_product.h).
  void (*tall_product)(const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t depth, int m, int n, T* c,
                       int threads);
};

// The set named by SPARSAM_ISA ("baseline", "avx2", "avx512") or else the best that this processor has.
template <class T>
const SequenceKernels<T>& sequence_kernels();
const char* selected_isa();

}  // namespace sparsam
