// The links against dictionaries truncated the same way, and the journal that takes them back bit for bit: for every
// instruction set that has code of its own (test_links.cpp, test_link_vectors.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "check.h"
#include "memory/link_update.h"

namespace sparsam::SPARSAM_ISA {

template <class T>
using Row = std::map<int32_t, T>;

template <class T>
Row<T> largest(const Row<T>& row, size_t count) {
  std::vector<std::pair<int32_t, T>> entries;
  for (const auto& entry : row)
    if (entry.second > 0) entries.push_back(entry);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.second > b.second || (a.second == b.second && a.first < b.first);
  });
  entries.resize(std::min(count, entries.size()));
  return {entries.begin(), entries.end()};
}

template <class T>
T at(const Row<T>& row, int32_t column) {
  const auto found = row.find(column);
  return found == row.end() ? T(0) : found->second;
}

template <class T>
struct Plain {
  Plain(int32_t rows, int32_t k) : before(rows), after(rows), k(k) {}
  void step(const Row<T>& written) {
    const std::vector<Row<T>> old = before;
    T keep = 1;
    for (const auto& [i, w] : written) {
      Row<T> union_of = old[i];
      for (const auto& [j, weight] : p) union_of[j];
      union_of.erase(i);
      before[i].clear();
      for (const auto& [j, weight] : union_of) {
        const T decay = std::max(T(0), 1 - w);
        before[i][j] = decay * at<T>(old[i], j) + w * at<T>(p, j);
        after[j][i] = decay * at<T>(after[j], i) + w * at<T>(p, j);
      }
      keep -= w;
    }
    for (Row<T>& row : before) row = largest<T>(row, k);
    for (Row<T>& row : after) row = largest<T>(row, k);
    Row<T> next;
    for (const auto& [i, weight] : p) next[i] = std::max(T(0), keep) * weight;
    for (const auto& [i, w] : written) next[i] += w;
    p = largest<T>(next, k);
  }
  std::vector<Row<T>> before, after;
  Row<T> p;
  size_t k;
};

template <class T>
Row<T> read(const Links<T>& links, int64_t id) {
  Row<T> out;
  const LinkRow<const T> row = links.row(id);
  const int count = links.count(row);
  for (int e = 0; e < links.k(); ++e) CHECK((row.columns[e] != 0) == (e < count));  // entries stand at the front
  for (int e = 0; e < count; ++e) out[row.columns[e] - 1] = row.weights[e];
  return out;
}

template <class T>
std::vector<uint8_t> all_bytes(const Links<T>& links) {
  const auto* begin = reinterpret_cast<const uint8_t*>(links.bytes(0));
  return {begin, begin + (links.precedence() + 1) * links.stride()};
}

// `choices` are write weights on a coarse grid, so that ties and full writes are common and every sum is exact.
template <class T>
void walk(int32_t rows, int32_t k, int32_t at_once, uint32_t seed, const std::vector<T>& choices) {
  std::mt19937 random(seed);
  std::vector<int32_t> everything(rows);  // as if every row had been written
  for (int32_t row = 0; row < rows; ++row) everything[row] = row;
  MemoryShape shape;
  shape.rows = rows, shape.k_links = k, shape.heads = at_once;  // K = 0: as many writes as heads
  Links<T> links(rows, k, everything);
  LinkJournal<T> journal(40, shape);
  LinkUpdate<T> update(k, at_once);
  Plain<T> plain(rows, k);
  std::vector<std::vector<uint8_t>> versions{all_bytes(links)};
  for (const uint8_t b : versions[0]) CHECK(b == 0);  // zero bytes mean 'no links'
  for (int step = 0; step < 40; ++step) {
    Row<T> written;
    std::vector<int32_t> rows_written;
    std::vector<T> weights;
    while (int32_t(rows_written.size()) < 1 + int32_t(random() % at_once)) {
      const int32_t row = int32_t(random() % rows);
      if (std::find(rows_written.begin(), rows_written.end(), row) != rows_written.end()) continue;
      const T w = choices[random() % choices.size()];
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
    // R(K+1) rows of N, K_L rows of P and those that lost an entry, and p
    CHECK(journal.end(step) - journal.begin(step) <= at_once + k * (at_once + 1) + 1);
    CHECK(journal.decayed_count(step) <= at_once * k);
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
  Links<T> copy(rows, k, everything), again(rows, k, everything);
  copy.copy_from(links);
  CHECK(all_bytes(copy) == versions.back());
  SavedMemory<T> saved;
  links.save_to(saved);
  again.restore(saved, {});
  for (int64_t id = 0; id <= links.precedence(); ++id) CHECK(read(again, id) == read(links, id));
}

}  // namespace sparsam::SPARSAM_ISA
