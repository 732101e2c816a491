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
  void take(const char* name, Number& value) {
    const auto at = left_.find(name);
    if (at == left_.end()) return;
    value = static_cast<Number>(at->second);
    if (static_cast<int64_t>(value) != at->second)
      throw std::invalid_argument(std::string(name) + ": expected a smaller number, got " + std::to_string(at->second));
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
    numbers.take("trees", s.trees);
    numbers.take("checks", s.checks);
    numbers.take("leaf", s.leaf);
    numbers.take("seed", s.seed);
    numbers.done();
    return std::make_unique<KDForest>(rows, width, s, source);
  }
  if (settings.kind == "lsh") {
    LSHSettings s;
    numbers.take("tables", s.tables);
    numbers.take("bits", s.bits);
    numbers.take("probes", s.probes);
    numbers.take("checks", s.checks);
    numbers.take("few", s.few);
    numbers.take("seed", s.seed);
    numbers.done();
    s = LSH::checked(s, rows);
    if (s.few >= rows) return std::make_unique<LSHList>(rows, width, LSHListSettings{s.checks, s.seed}, source);
    return std::make_unique<LSH>(rows, width, s, source);
  }
  if (settings.kind == "scan") {
    ScanSettings s;
    numbers.take("checks", s.checks);
    numbers.take("reach", s.reach);
    numbers.take("cells_from", s.cells_from);
    numbers.take("seed", s.seed);
    numbers.done();
    s.by_distance = settings.by_distance;
    return std::make_unique<Scan>(rows, width, s, source);
  }
  throw std::invalid_argument("kind: expected a known kind of index, got " + settings.kind);
}

}  // namespace sparsam::SPARSAM_ISA
