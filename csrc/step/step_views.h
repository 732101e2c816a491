// What a step is handed of one batch element: its place on the tape, what new rows take, gradients of its state.
#pragma once

#include <cstdint>
#include <memory>

#include "memory/link_gradients.h"
#include "memory/row_gradients.h"
#include "step/interface.h"

namespace sparsam::SPARSAM_ISA {

// Pointers into one step of a tape (`Tape`), for one batch element.
template <class T>
struct StepTape {
  T* interface;
  const int32_t* previous_rows;  // reads of the step before
  const T* previous_weights;
  int32_t* read_rows;
  T* read_weights;
  T* scores;
  int32_t* unused;  // null when it is not wanted; likewise the next two without links
  int32_t* content_rows;
  T* content_weights;
  T* room;  // null with the ring
};

// What a row to write anew takes of alpha (1 - gamma): all of it, with the ring.
template <class T>
struct WholeRows {
  T weight(const InterfaceView<T>& request, int h) const {
    return request.write_gate[h] * (1 - request.interpolation[h]);
  }
  T backward(const InterfaceView<T>&, int, T d) const { return d; }  // of that weight, over alpha (1 - gamma)
};

// Gradients with respect to a batch element's memory and links, while they are accumulated.
template <class T>
struct StateGradients {
  explicit StateGradients(RowGradientBuffer<T>& memory) : memory(memory) {}
  RowGradientBuffer<T>& memory;
  std::unique_ptr<LinkGradients<T>> links;  // null when they are constants
};

}  // namespace sparsam::SPARSAM_ISA
