// Which instruction set's kernels run: the best that the processor has, or a lower one that SPARSAM_ISA names.
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "memory/words.h"
#include "step/sequence.h"

namespace sparsam {

#define SPARSAM_DECLARE(isa) \
  namespace isa {            \
  const InstructionSet& instruction_set(); \
  }
SPARSAM_DECLARE(baseline)
#ifdef SPARSAM_X86
SPARSAM_DECLARE(avx2)
SPARSAM_DECLARE(avx512)
#endif

namespace {

struct Set {
  const char* name;
  bool available;
  const InstructionSet& code;
};

const Set& chosen() {
  static const Set set = [] {
    const Set sets[] = {  // best first
#ifdef SPARSAM_X86
        {"avx512",
         __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"),
         avx512::instruction_set()},
        {"avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), avx2::instruction_set()},
#endif
        {"baseline", true, baseline::instruction_set()},
    };
    const char* wanted = std::getenv("SPARSAM_ISA");
    for (const Set& set : sets)
      if (wanted == nullptr || *wanted == 0 ? set.available : std::strcmp(wanted, set.name) == 0) {
        if (!set.available) throw std::runtime_error(std::string("SPARSAM_ISA: this processor has no ") + set.name);
        return set;
      }
    throw std::runtime_error(std::string("SPARSAM_ISA: expected baseline, avx2 or avx512, got ") + wanted);
  }();
  return set;
}

}  // namespace

template <>
const SequenceKernels<float>& sequence_kernels<float>() {
  return chosen().code.floats;
}
template <>
const SequenceKernels<double>& sequence_kernels<double>() {
  return chosen().code.doubles;
}
std::unique_ptr<CandidateIndex> make_index(const IndexSettings& settings, int32_t rows, int32_t width,
                                           const WordSource* source) {
  return chosen().code.make_index(settings, rows, width, source);
}
const char* selected_isa() { return chosen().name; }
bool searches_codes(int32_t width) {
#ifdef SPARSAM_X86
  static const bool multiplies_bytes = __builtin_cpu_supports("avx512vnni") && std::strcmp(chosen().name, "avx512") == 0;
  return multiplies_bytes && width <= CoarseWords::kMostColumns;
#else
  (void)width;
  return false;
#endif
}

}  // namespace sparsam
