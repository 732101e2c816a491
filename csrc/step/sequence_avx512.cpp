// The sequence kernels and indexes for avx512; CMakeLists.txt gives this file its compiler flags.
#define SPARSAM_ISA avx512
#define SPARSAM_VECTOR_BYTES 64
#include "index/index_kinds.h"
#include "step/loops.h"

namespace sparsam::avx512 {
const SequenceKernels<float>& kernels_float() { return kKernels<float>; }
const SequenceKernels<double>& kernels_double() { return kKernels<double>; }
IndexMaker index_maker() { return &make_index; }
}  // namespace sparsam::avx512
