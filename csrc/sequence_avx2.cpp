// The sequence kernels for avx2; CMakeLists.txt gives this file its compiler flags.
#define SPARSAM_ISA avx2
#define SPARSAM_VECTOR_BYTES 32
#include "sequence_loops.h"

namespace sparsam::avx2 {
const SequenceKernels<float>& kernels_float() { return kKernels<float>; }
const SequenceKernels<double>& kernels_double() { return kKernels<double>; }
}  // namespace sparsam::avx2
