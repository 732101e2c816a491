// Which index, by name and numbers, and the one place that makes it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "index/candidate_index.h"
#include "memory/shape.h"

namespace sparsam {

struct IndexSettings {
  std::string kind;                        // "scan", "kdtree", "lsh"
  std::map<std::string, int64_t> numbers;  // its settings by name; those left out have their defaults
  int32_t exact_until = 0;                 // up to this many words, search exactly
  // The same where exact search looks at codes of 8 bits first (index/coarse_scan.h), in long calls and in short ones.
  int32_t exact_until_coded = 0;
  int32_t exact_until_short = 0;
  bool by_distance = false;                // words that are not of unit length count as similar when they are near

  bool operator==(const IndexSettings&) const = default;
};

// A memory and how it is searched.
struct SearchedShape : MemoryShape {
  SearchedShape(const MemoryShape& memory = {}, std::shared_ptr<const IndexSettings> index = nullptr)
      : MemoryShape(memory), index(std::move(index)) {}
  std::shared_ptr<const IndexSettings> index;  // null: exact search
};

using IndexMaker = std::unique_ptr<CandidateIndex> (*)(const IndexSettings&, int32_t, int32_t, const WordSource*);

// An empty index, in the code of this processor's instruction set (dispatch.cpp); std::invalid_argument for a kind or a
// setting that does not exist, or a value out of range.
std::unique_ptr<CandidateIndex> make_index(const IndexSettings& settings, int32_t rows, int32_t width,
                                           const WordSource* source);

// Does exact search over words of this width look at codes first, on this processor? Cosine similarity, of words that an
// episode has written.
bool searches_codes(int32_t width);

}  // namespace sparsam
