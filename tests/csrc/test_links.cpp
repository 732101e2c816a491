// The links against dictionaries truncated the same way, and the journal that takes them back bit for bit.
#define SPARSAM_ISA baseline
#define SPARSAM_VECTOR_BYTES 16
#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "check.h"
#include "memory/link_update.h"

using namespace sparsam;

using Row = std::map<int32_t, double>;

Row largest(const Row& row, size_t count) {
  std::vector<std::pair<int32_t, double>> entries;
  for (const auto& entry : row)
    if (entry.second > 0) entries.push_back(entry);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.second > b.second || (a.second == b.second && a.first < b.first);
  });
  entries.resize(std::min(count, entries.size()));
  return {entries.begin(), entries.end()};
}

double at(const Row& row, int32_t column) {
  const auto found = row.find(column);
  return found == row.end() ? 0.0 : found->second;
}

struct Plain {
  Plain(int32_t rows, int32_t k) : before(rows), after(rows), k(k) {}
  void step(const Row& written) {
    const std::vector<Row> old = before;
    double keep = 1.0;
    for (const auto& [i, w] : written) {
      Row union_of = old[i];
      for (const auto& [j, weight] : p) union_of[j];
      union_of.erase(i);
      before[i].clear();
      for (const auto& [j, weight] : union_of) {
        const double decay = std::max(0.0, 1.0 - w);
        before[i][j] = decay * at(old[i], j) + w * at(p, j);
        after[j][i] = decay * at(after[j], i) + w * at(p, j);
      }
      keep -= w;
    }
    for (Row& row : before) row = largest(row, k);
    for (Row& row : after) row = largest(row, k);
    Row next;
    for (const auto& [i, weight] : p) next[i] = std::max(0.0, keep) * weight;
    for (const auto& [i, w] : written) next[i] += w;
    p = largest(next, k);
  }
  std::vector<Row> before, after;
  Row p;
  size_t k;
};

Row read(const Links<double>& links, int64_t id) {
  Row out;
  const LinkRow<const double> row = links.row(id);
  const int count = links.count(row);
  for (int e = 0; e < links.k(); ++e) CHECK((row.columns[e] != 0) == (e < count));  // entries stand at the front
  for (int e = 0; e < count; ++e) out[row.columns[e] - 1] = row.weights[e];
  return out;
}

std::vector<uint8_t> all_bytes(const Links<double>& links) {
  const auto* begin = reinterpret_cast<const uint8_t*>(links.bytes(0));
  return {begin, begin + (links.precedence() + 1) * links.stride()};
}

void walk(int32_t rows, int32_t k, int32_t at_once, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> everything(rows);  // as if every row had been written
  for (int32_t row = 0; row < rows; ++row) everything[row] = row;
  MemoryShape shape;
  shape.rows = rows, shape.k_links = k;
  Links<double> links(rows, k, everything);
  LinkJournal<double> journal(40, shape);
  baseline::LinkUpdate<double> update(rows, k, at_once);
  Plain plain(rows, k);
  std::vector<std::vector<uint8_t>> versions{all_bytes(links)};
  for (const uint8_t b : versions[0]) CHECK(b == 0);  // zero bytes mean 'no links'
  for (int step = 0; step < 40; ++step) {
    Row written;  // weights on a coarse grid, so that ties and full writes are common
    std::vector<int32_t> rows_written;
    std::vector<double> weights;
    while (int32_t(rows_written.size()) < 1 + int32_t(random() % at_once)) {
      const int32_t row = int32_t(random() % rows);
      if (std::find(rows_written.begin(), rows_written.end(), row) != rows_written.end()) continue;
      const double choices[] = {0.0, 0.125, 0.25, 0.5, 1.0, 1.5};
      const double w = choices[random() % 6];
      rows_written.push_back(row);
      weights.push_back(w);
      if (w > 0) written[row] = w;
    }
    journal.begin_step(links);
    update(links, &journal, int(rows_written.size()), rows_written.data(), weights.data());
    plain.step(written);
    for (int32_t row = 0; row < rows; ++row) {
      CHECK(read(links, links.predecessors(row)) == plain.before[row]);
      CHECK(read(links, links.successors(row)) == plain.after[row]);
    }
    CHECK(read(links, links.precedence()) == plain.p);
    // R(K+1) rows of N, K_L (R(K+1) + 1) of P, and p
    CHECK(journal.end(step) - journal.begin(step) <= at_once + k * (at_once + 1) + 1);
    versions.push_back(all_bytes(links));
  }
  for (int step = 40; step-- > 0;) {
    journal.undo(links, step);
    CHECK(all_bytes(links) == versions[step]);
  }
  for (int step = 0; step < 40; ++step) {
    journal.redo(links, step);
    CHECK(all_bytes(links) == versions[step + 1]);
  }
  Links<double> copy(rows, k, everything), again(rows, k, everything);
  copy.copy_from(links);
  CHECK(all_bytes(copy) == versions.back());
  SavedMemory<double> saved;
  links.save_to(saved);
  again.restore(saved, {});
  for (int64_t id = 0; id <= links.precedence(); ++id) CHECK(read(again, id) == read(links, id));
}

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
  for (uint32_t seed = 0; seed < 20; ++seed)
    for (const int32_t k : {1, 2, 3, 8, 9, 40}) walk(12, k, 5, seed);
  walk(2, 8, 2, 1);
  walk(200, 8, 20, 1);
  finds_entries();
}
