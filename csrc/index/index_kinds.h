// The kinds of index there are, by name. Compiled once per instruction set (sequence_*.cpp), like the kernels.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "index/index_settings.h"
#include "index/kd_forest.h"
#include "index/lsh.h"
#include "index/lsh_list.h"
#include "index/scan.h"

namespace sparsam::SPARSAM_ISA {

// Takes settings out by name; complains about what is left.
class Numbers {
 public:
  explicit Numbers(const IndexSettings& settings) : kind_(settings.kind), left_(settings.numbers) {}
  template <class Number>
  void take(const char* name, Number& value, int64_t low = INT64_MIN, int64_t high = INT64_MAX) {
    const auto at = left_.find(name);
    if (at == left_.end()) return;
    value = static_cast<Number>(require_within(name, at->second, low, high));
    left_.erase(at);
  }
  void done() const {
    if (!left_.empty()) throw std::invalid_argument(left_.begin()->first + ": expected a setting of index " + kind_ + ", which has none of that name");
  }

 private:
  std::string kind_;
  std::map<std::string, int64_t> left_;
};

// A further kind of index has its line here.
inline std::unique_ptr<CandidateIndex> make_index(const IndexSettings& settings, int32_t rows, int32_t width,
                                                  const WordSource* source) {
  Numbers numbers(settings);
  if (settings.kind == "kdtree") {
    KDForestSettings s;
    numbers.take("trees", s.trees, 1, KDForest::kMaxTrees);
    numbers.take("checks", s.checks, 1, INT32_MAX);
    numbers.take("leaf", s.leaf, 1, kBucketEntries);
    numbers.take("seed", s.seed);
    numbers.done();
    return std::make_unique<KDForest>(rows, width, s, source);
  }
  if (settings.kind == "lsh") {
    LSHSettings s;
    numbers.take("tables", s.tables, 1, LSH::kMaxTables);
    numbers.take("bits", s.bits, 0, LSH::kMaxBits);
    numbers.take("probes", s.probes, 1, 1 << 20);
    numbers.take("checks", s.checks, 1, INT32_MAX);
    numbers.take("few", s.few, 1, INT32_MAX);
    numbers.take("seed", s.seed);
    numbers.done();
    if (s.few >= rows) return std::make_unique<LSHList>(rows, width, s.checks, s.seed, source);
    return std::make_unique<LSH>(rows, width, s, source);
  }
  if (settings.kind == "scan") {
    ScanSettings s;
    numbers.take("checks", s.checks, 1, INT32_MAX);
    numbers.take("reach", s.reach, 0, 100);
    numbers.take("cells_from", s.cells_from, 1, INT32_MAX);
    numbers.take("seed", s.seed);
    numbers.done();
    s.by_distance = settings.by_distance;
    return std::make_unique<Scan>(rows, width, s, source);
  }
  throw std::invalid_argument("kind: expected a known kind of index, got " + settings.kind);
}

}  // namespace sparsam::SPARSAM_ISA
