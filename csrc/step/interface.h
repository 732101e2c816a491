// The interface vector (p_t of section 3.3): what a controller asks of a memory, as named fields one after the other.
// This is the only place in the core that knows their order; a test compares it with the declaration in Python.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/shape.h"

namespace sparsam {

struct InterfaceField {
  const char* name;
  int32_t offset, size;
};

// Name and size, head by head. The two gates stand side by side: they are activated together.
#define SPARSAM_INTERFACE(X)                                                      \
  X(query, s.heads * s.width)                    /* q */                          \
  X(write_word, s.heads * s.width)               /* a */                          \
  X(strength, s.heads)                           /* beta */                       \
  X(write_gate, s.heads)                         /* alpha */                      \
  X(interpolation, s.heads)                      /* gamma */                      \
  X(read_modes, s.k_links > 0 ? 3 * s.heads : 0) /* pi: backward, content, forward */ \
  X(free_gates, s.free_usage ? s.heads : 0)      /* f */                          \
  X(erase, s.erase ? s.heads : 0)                /* e */

// Where each field begins.
struct InterfaceLayout {
  explicit InterfaceLayout(const MemoryShape& s) {
#define SPARSAM_PLACE(name, count) \
  name = size;                     \
  size += count;
    SPARSAM_INTERFACE(SPARSAM_PLACE)
#undef SPARSAM_PLACE
  }
  int32_t query, write_word, strength, write_gate, interpolation, read_modes, free_gates, erase;
  int32_t size = 0;
};

// Those that are not empty.
inline std::vector<InterfaceField> interface_fields(const MemoryShape& s) {
  const InterfaceLayout layout(s);
  std::vector<InterfaceField> out;
#define SPARSAM_FIELD(name, count) \
  if (const int32_t size = count; size > 0) out.push_back({#name, layout.name, size});
  SPARSAM_INTERFACE(SPARSAM_FIELD)
#undef SPARSAM_FIELD
  return out;
}

// Pointers into one interface vector.
template <class T>
struct InterfaceView {
  InterfaceView(T* at, const InterfaceLayout& layout) {
#define SPARSAM_POINT(name, count) name = at + layout.name;
    SPARSAM_INTERFACE(SPARSAM_POINT)
#undef SPARSAM_POINT
  }
  T *query, *write_word, *strength, *write_gate, *interpolation, *read_modes, *free_gates, *erase;
};

}  // namespace sparsam
