// The links in AVX-512 registers (memory/link_vectors.h) against plain dictionaries; a processor without has nothing here.
#if defined(__AVX512F__)
#define SPARSAM_ISA avx512_links
#define SPARSAM_VECTOR_BYTES 64
#include "links_walk.h"

using namespace sparsam;

int main() {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512bw"))
    return 0;
  const std::vector<float> halves{0.0f, 0.5f, 1.0f, 1.5f}, one{0.5f};
  for (uint32_t seed = 0; seed < 20; ++seed)
    for (const int32_t k : {1, 2, 3, 8, 9, 40}) {
      avx512_links::walk<float>(12, k, 5, seed, halves);
      avx512_links::walk<float>(60, k, 20, seed, halves);
      avx512_links::walk<float>(40, k, 33, seed, halves);  // more than registers hold
      avx512_links::walk<float>(30, k, 20, seed, one);     // all weights alike
    }
  avx512_links::walk<float>(2, 8, 2, 1, halves);
  avx512_links::walk<double>(200, 8, 20, 1, {0.0, 0.125, 0.25, 0.5, 1.0, 1.5});
}
#else
int main() {}
#endif
