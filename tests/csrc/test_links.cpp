// The links in plain C++, as every processor runs them.
#define SPARSAM_ISA baseline
#define SPARSAM_VECTOR_BYTES 16
#include "links_walk.h"

using namespace sparsam;

void finds_entries() {
  const std::vector<int32_t> written{3};
  Links<double> links(4, 2, written);
  CHECK(links.find(links.row(links.successors(3)), 1) == -1);
  const LinkRow<double> row = links.row(links.successors(3));
  row.columns[0] = 2;
  row.weights[0] = 0.5;
  CHECK(links.find(links.row(links.successors(3)), 1) == 0);
  CHECK(links.find(links.row(links.successors(3)), 0) == -1);
}

int main() {
  const std::vector<double> grid{0.0, 0.125, 0.25, 0.5, 1.0, 1.5};
  for (uint32_t seed = 0; seed < 20; ++seed)
    for (const int32_t k : {1, 2, 3, 8, 9, 40}) baseline::walk<double>(12, k, 5, seed, grid);
  baseline::walk<double>(2, 8, 2, 1, grid);
  baseline::walk<double>(200, 8, 20, 1, grid);
  baseline::walk<float>(200, 8, 20, 1, {0.0f, 0.5f, 1.0f, 1.5f});
  finds_entries();
}
