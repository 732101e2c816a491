// What a sparse memory is: its sizes and the rules by which it is read and written. Letters of the paper: N rows,
// W width, R heads, K reads per head, K_L links per row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace sparsam {

enum class Similarity : int32_t { kCosine, kEuclidean, kDot };
constexpr double kCosineEpsilon = 1e-6;

// What decides which arrays a memory consists of. Memories with equal ones hold each other's contents.
struct StoredShape {
  int32_t rows = 0, width = 0;
  int32_t k_links = 0;      // 0 for SAM, which has no links
  bool free_usage = false;  // rows to write anew by usage with free gates, not by the ring
  bool operator==(const StoredShape&) const = default;
};

struct MemoryShape : StoredShape {
  int32_t heads = 0, k = 0;
  Similarity similarity = Similarity::kCosine;
  double delta = 0;  // rows whose weights exceed this are accessed
  bool link_gradients = false;
  bool erase = false;  // heads erase what they read before they write there

  int32_t reads() const { return heads * k; }
  int32_t read_width() const { return heads * width; }
  int32_t max_writes() const { return heads * (k + 1); }
  int32_t max_touched() const { return heads * (2 * k + 1); }
  int32_t max_moves() const { return free_usage ? 0 : max_touched(); }    // of the ring
  int32_t max_changes() const { return free_usage ? max_touched() : 0; }  // of usage: rows freed, then rows written
};

// The value; std::invalid_argument, which names it, where it is out of range.
inline int64_t require_within(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high)
    throw std::invalid_argument(std::string(name) + ": expected " + std::to_string(low) + " to " +
                                std::to_string(high) + ", got " + std::to_string(value));
  return value;
}

// The upper limits keep products of sizes within 32 bits; no memory comes near them.
inline void require_valid(const MemoryShape& s) {
  constexpr int32_t kMost = 1 << 16, kMostProduct = 1 << 24;
  require_within("rows", s.rows, 1, INT32_MAX);
  require_within("width", s.width, 1, 1 << 20);
  require_within("heads", s.heads, 1, std::min(s.rows, kMost));
  require_within("k", s.k, 1, std::min(s.rows, kMost));
  require_within("heads * k", int64_t(s.heads) * s.k, 1, kMostProduct);
  require_within("heads * width", int64_t(s.heads) * s.width, 1, kMostProduct);
  require_within("k_links", s.k_links, 0, kMost);
  require_within("k * k_links", int64_t(s.k) * s.k_links, 0, kMostProduct);
  if (!(std::isfinite(s.delta) && s.delta >= 0))
    throw std::invalid_argument("delta: expected a finite number of at least 0, got " + std::to_string(s.delta));
  if (s.link_gradients && s.k_links == 0) throw std::invalid_argument("link_gradients: expected links (k_links > 0)");
  if (s.free_usage && s.k_links == 0) throw std::invalid_argument("free_usage: expected links (k_links > 0)");
}

}  // namespace sparsam
