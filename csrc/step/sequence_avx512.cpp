// The sequence kernels and indexes for avx512; CMakeLists.txt gives this file its compiler flags.
#define SPARSAM_ISA avx512
#define SPARSAM_VECTOR_BYTES 64
#include "step/loops.h"
