// What the tests of the candidate indexes share: words in an array, an index of each kind, and how to ask one.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#define SPARSAM_ISA baseline
#include "check.h"
#include "index/kd_forest.h"
#include "index/lsh.h"
#include "index/lsh_list.h"
#include "index/scan.h"

using namespace sparsam;
using namespace sparsam::baseline;

struct Words : WordSource {
  Words(int32_t rows, int32_t width) : width(width), values(static_cast<size_t>(rows) * static_cast<size_t>(width)) {}
  float* at(int32_t row) { return values.data() + static_cast<size_t>(row) * static_cast<size_t>(width); }
  const float* address(int32_t row) const { return const_cast<Words*>(this)->at(row); }
  void fetch(int32_t row, float* out) const override { std::copy_n(address(row), width, out); }

  int32_t width;
  std::vector<float> values;
};

inline void draw_unit(std::mt19937& random, float* out, int32_t width) {
  std::normal_distribution<float> normal;
  double square = 0.0;
  for (int32_t i = 0; i < width; ++i) square += std::pow(out[i] = normal(random), 2);
  for (int32_t i = 0; i < width; ++i) out[i] /= static_cast<float>(std::sqrt(square));
}

using Make = std::function<std::unique_ptr<CandidateIndex>(int32_t capacity, int32_t width, const WordSource*,
                                                           int32_t checks, uint64_t seed)>;

inline std::unique_ptr<CandidateIndex> make_forest(int32_t capacity, int32_t width, const WordSource* source, int32_t checks,
                                            uint64_t seed) {
  KDForestSettings settings;
  settings.checks = checks;
  settings.seed = seed;
  return std::make_unique<KDForest>(capacity, width, settings, source);
}

// `few`: words in a list of sketches before there are tables.
inline Make lsh_of(int32_t few) {
  return [few](int32_t capacity, int32_t width, const WordSource* source, int32_t checks, uint64_t seed) {
    const LSHSettings settings{.checks = checks, .few = few, .seed = seed};
    return std::make_unique<LSH>(capacity, width, settings, source);
  };
}

inline std::unique_ptr<CandidateIndex> make_lsh_list(int32_t capacity, int32_t width, const WordSource* source,
                                                     int32_t checks, uint64_t seed) {
  return std::make_unique<LSHList>(capacity, width, checks, seed, source);
}

inline std::unique_ptr<CandidateIndex> make_scan(int32_t capacity, int32_t width, const WordSource* source, int32_t checks,
                                          uint64_t seed) {
  const ScanSettings settings{.checks = checks, .seed = seed};
  return std::make_unique<Scan>(capacity, width, settings, source);
}

inline std::vector<int32_t> ask(CandidateIndex& index, const float* query) {
  index.settle(1);
  std::vector<int32_t> out(static_cast<size_t>(index.max_candidates()));
  out.resize(static_cast<size_t>(index.query(query, out.data())));
  return out;
}

inline std::vector<int32_t> sorted_rows(const CandidateIndex& index) {
  std::vector<int32_t> rows;
  index.rows(rows);
  std::sort(rows.begin(), rows.end());
  return rows;
}
