// The sequence kernels and indexes for baseline; CMakeLists.txt gives this file its compiler flags.
#define SPARSAM_ISA baseline
#define SPARSAM_VECTOR_BYTES 16
#include "step/loops.h"
