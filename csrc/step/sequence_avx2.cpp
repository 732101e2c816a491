// The sequence kernels and indexes for avx2; CMakeLists.txt gives this file its compiler flags.
#define SPARSAM_ISA avx2
#define SPARSAM_VECTOR_BYTES 32
#include "step/loops.h"
