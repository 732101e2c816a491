// What every way of searching a memory is to a step: exact search, exact search for queries that are known some steps
// before, and exact scores of what an index proposes.
#pragma once

#include <cstdint>

#include "memory/shape.h"
#include "memory/words.h"

namespace sparsam::SPARSAM_ISA {

// The R queries of a step, and where the K most similar rows of each and their scores go, best first.
template <class T>
struct Queries {
  const Memory<T>& memory;
  Similarity similarity;
  const T* words;  // (R, stride)
  const T* norms;  // (R)
  int heads, k;
  int32_t* rows;  // (R, K)
  T* scores;      // (R, K)

  const T* word(int h) const { return words + h * memory.stride(); }
};

// A way of searching. Its scratch arrays are its own and serve one memory after the other, by one thread at a time.
template <class T>
class Search {
 public:
  virtual ~Search() = default;
  virtual bool serves(const Queries<T>& asked) const = 0;
  virtual void search(const Queries<T>& asked) = 0;
};

}  // namespace sparsam::SPARSAM_ISA
