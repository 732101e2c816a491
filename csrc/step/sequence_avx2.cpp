// The sequence kernels and indexes for avx2; CMakeLists.txt gives this file its compiler flags.
#define SPARSAM_ISA avx2
#define SPARSAM_VECTOR_BYTES 32
#include "index/index_kinds.h"
#include "step/loops.h"

namespace sparsam::avx2 {
const SequenceKernels<float>& kernels_float() { return kKernels<float>; }
const SequenceKernels<double>& kernels_double() { return kKernels<double>; }
IndexMaker index_maker() { return &make_index; }
}  // namespace sparsam::avx2
