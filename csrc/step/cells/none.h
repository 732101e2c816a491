// No controller: x is the interface vector before its activation, and nothing recurs but the memory.
#pragma once

#include <algorithm>

#include "step/sequence.h"

namespace sparsam::SPARSAM_ISA {

template <class T>
class NoCell {
 public:
  static constexpr bool kControls = false;
};

}  // namespace sparsam::SPARSAM_ISA
