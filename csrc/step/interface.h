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

// Where each field begins. The two gates stand side by side: they are activated together.
struct InterfaceLayout {
  explicit InterfaceLayout(const MemoryShape& s) {
    query = take(s.heads * s.width);                     // q, head by head
    write_word = take(s.heads * s.width);                // a
    strength = take(s.heads);                            // beta
    write_gate = take(s.heads);                          // alpha
    interpolation = take(s.heads);                       // gamma
    read_modes = take(s.k_links > 0 ? 3 * s.heads : 0);  // pi, head by head: backward, content, forward
    free_gates = take(s.free_usage ? s.heads : 0);       // f
    erase = take(s.erase ? s.heads : 0);                 // e
  }
  std::vector<InterfaceField> fields() const {  // that are not empty
    const InterfaceField all[] = {{"query", query, write_word - query},
                                  {"write_word", write_word, strength - write_word},
                                  {"strength", strength, write_gate - strength},
                                  {"write_gate", write_gate, interpolation - write_gate},
                                  {"interpolation", interpolation, read_modes - interpolation},
                                  {"read_modes", read_modes, free_gates - read_modes},
                                  {"free_gates", free_gates, erase - free_gates},
                                  {"erase", erase, size - erase}};
    std::vector<InterfaceField> out;
    for (const InterfaceField& field : all)
      if (field.size > 0) out.push_back(field);
    return out;
  }
  int32_t query, write_word, strength, write_gate, interpolation, read_modes, free_gates, erase;
  int32_t size = 0;

 private:
  int32_t take(int32_t count) {
    const int32_t at = size;
    size += count;
    return at;
  }
};

// Pointers into one interface vector.
template <class T>
struct InterfaceView {
  InterfaceView(T* at, const InterfaceLayout& layout)
      : query(at + layout.query),
        write_word(at + layout.write_word),
        strength(at + layout.strength),
        write_gate(at + layout.write_gate),
        interpolation(at + layout.interpolation),
        read_modes(at + layout.read_modes),
        free_gates(at + layout.free_gates),
        erase(at + layout.erase) {}
  T *query, *write_word, *strength, *write_gate, *interpolation, *read_modes, *free_gates, *erase;
};

}  // namespace sparsam
