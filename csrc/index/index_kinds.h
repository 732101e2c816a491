// The kinds of index there are, by name. Compiled once per instruction set (sequence_*.cpp), like the kernels.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "index/index_settings.h"
#include "index/kd_forest.h"
#include "index/lsh.h"
#include "index/lsh_list.h"
#include "index/scan.h"

namespace sparsam::SPARSAM_ISA {

// A setting's name, where it goes and the range of its value.
struct Setting {
  const char* name;
  std::variant<int32_t*, uint64_t*> value;
  int64_t low = 1, high = INT32_MAX;
};

// Complains about values out of range and about names that the kind does not have.
inline void take_settings(const IndexSettings& from, const std::vector<Setting>& known) {
  for (const auto& [name, number] : from.numbers) {
    const auto at = std::find_if(known.begin(), known.end(), [&](const Setting& s) { return s.name == name; });
    if (at == known.end())
      throw std::invalid_argument(name + ": expected a setting of index " + from.kind + ", which has none of that name");
    require_within(at->name, number, at->low, at->high);
    std::visit([&](auto* value) { *value = std::remove_pointer_t<decltype(value)>(number); }, at->value);
  }
}

// A further kind of index has its line here.
inline std::unique_ptr<CandidateIndex> make_index(const IndexSettings& settings, int32_t rows, int32_t width,
                                                  const WordSource* source) {
  const auto seed = [](uint64_t& value) { return Setting{"seed", &value, INT64_MIN, INT64_MAX}; };
  if (settings.kind == "kdtree") {
    KDForestSettings s;
    take_settings(settings, {{"trees", &s.trees, 1, KDForest::kMaxTrees}, {"checks", &s.checks},
                             {"leaf", &s.leaf, 1, kBucketEntries}, seed(s.seed)});
    return std::make_unique<KDForest>(rows, width, s, source);
  }
  if (settings.kind == "lsh") {
    LSHSettings s;
    take_settings(settings, {{"tables", &s.tables, 1, LSH::kMaxTables}, {"bits", &s.bits, 0, LSH::kMaxBits},
                             {"probes", &s.probes, 1, 1 << 20}, {"checks", &s.checks}, {"few", &s.few}, seed(s.seed)});
    if (s.few >= rows) return std::make_unique<LSHList>(rows, width, s.checks, s.seed, source);
    return std::make_unique<LSH>(rows, width, s, source);
  }
  if (settings.kind == "scan") {
    ScanSettings s;
    take_settings(settings, {{"checks", &s.checks}, {"reach", &s.reach, 0, 100}, {"cells_from", &s.cells_from}, seed(s.seed)});
    s.by_distance = settings.by_distance;
    return std::make_unique<Scan>(rows, width, s, source);
  }
  throw std::invalid_argument("kind: expected a known kind of index, got " + settings.kind);
}

}  // namespace sparsam::SPARSAM_ISA
