// The sequence kernels and indexes for baseline; CMakeLists.txt gives this file its compiler flags.
#define SPARSAM_ISA baseline
#define SPARSAM_VECTOR_BYTES 16
#include "index/index_kinds.h"
#include "step/loops.h"

namespace sparsam::baseline {
const SequenceKernels<float>& kernels_float() { return kKernels<float>; }
const SequenceKernels<double>& kernels_double() { return kKernels<double>; }
IndexMaker index_maker() { return &make_index; }
}  // namespace sparsam::baseline
