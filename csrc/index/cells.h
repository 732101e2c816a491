// Cells over the words of a memory that does not change: which words to read for a query, instead of all.
//
// A word w of the cell with centroid c scores (q, w) = (q, c) + (q, w - c). By the centroid alone a search misses the words
// that matter to heads which ask far from all crowds: those lie far from their centroid, each in a cell that is no likelier
// than others. So the words of a cell are kept in order of their distance from its centroid, farthest first, and a query
// reads all of the cells nearest to it and then, of every cell, the words with
//
//     (q, c) + reach * |q| * |w - c| >= the score that the best so far have.
//
// For a query in no particular direction from c, (q, w - c) is more than `reach` of its most in few words: with reach 0.5 and
// words of width 32, in one of 500. How much is read follows from how far the best stand out, 0.7 to 3% of 600,000 words
// that a trained model wrote (docs/notebook/search.md).
//
// However far the best stand out, no query reads more than most_read() words, those with the largest bounds first: a
// 128th of all where cells tell the words apart, a 64th where cells are large. Where they do not (random words lie in no cells) a sample of words asked
// for their neighbours shows it when the cells are made, and more is read.
//
// Centroids come from a few rounds of k-means over a fixed sample, so they depend on the words and their order alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "support/interrupt.h"
#include "support/parallel.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace sparsam::SPARSAM_ISA {

class Cells {
 public:
  static constexpr int32_t kFewest = 65'536;  // words from which on cells are worth while
  static constexpr int32_t kNear = 8;         // cells that are read as a whole
  static constexpr int32_t kRank = 8;         // the best so far: so many

  // A stretch of words in cell order.
  struct Part {
    int32_t begin, end;
  };

  static constexpr int32_t kWords = 256;      // in a cell, on average

  // Of n words of `width` numbers, one after the other. `reach` is that of queries to come, for a query of length 1.
  // `order` is what the words are to be put in: order[i] is the word that comes i-th. Its cell and distance go to `cell_in_order` and `distance_in_order`, where these are asked for.
  Cells(const float* words, int32_t n, int32_t width, float reach, int threads, std::vector<int32_t>& order,
        int32_t words_each = kWords, std::vector<int32_t>* cell_in_order = nullptr,
        std::vector<float>* distance_in_order = nullptr)
      : width_(width) {
    while (count_ * words_each < n) count_ *= 2;
    doublings_ = words_each > kWords ? 1 : 0;  // large cells tell less
    train(words, n, threads);
    std::vector<int32_t> cell(at(n));
    std::vector<float> distance(at(n));
    assign(words, n, threads, cell.data(), distance.data());
    arrange(cell, distance, order);
    choose_limit(words, n, reach, threads, order);
    if (cell_in_order == nullptr) return;
    for (const int32_t i : order) {
      cell_in_order->push_back(cell[at(i)]);
      distance_in_order->push_back(distance[at(i)]);
    }
  }

  size_t bytes() const {
    return centroids_.size() * sizeof(float) + at(count_) * (2 * sizeof(float) + sizeof(int32_t)) +
           beyond_.size() * sizeof(uint16_t);
  }

  int32_t count() const { return count_; }
  // (q, c) for every cell and up to kQueries queries, those of query h from products + h * count() on.
  static constexpr int kQueries = 4;
  void multiply(const float* queries, int heads, float* products) const {
    const float* query[kQueries];
    for (int h = 0; h < kQueries; ++h) query[h] = queries + at(std::min(h, heads - 1)) * at(width_);
    for (int32_t block = 0; block < count_ / kLanes; block += 2) {
      float sum[kQueries][2][kLanes] = {};
      const float* c = centroids_.data() + at(block) * at(width_) * kLanes;
      const float* d = c + at(width_) * kLanes;
      for (int32_t j = 0; j < width_; ++j, c += kLanes, d += kLanes)
        for (int h = 0; h < kQueries; ++h) {
          for (int32_t l = 0; l < kLanes; ++l) sum[h][0][l] += query[h][j] * c[l];
          for (int32_t l = 0; l < kLanes; ++l) sum[h][1][l] += query[h][j] * d[l];
        }
      for (int h = 0; h < heads; ++h) std::copy_n(sum[h][0], 2 * kLanes, products + at(h) * at(count_) + at(block) * kLanes);
    }
  }

  // The cells with the largest products, in no order; ties go to the first.
  void nearest(const float* products, int32_t* out) const {
    float best[kNear];
    std::fill_n(best, kNear, -INFINITY);
    std::fill_n(out, kNear, 0);
    auto offer = [&](int32_t c) {
      if (!(products[c] > best[kNear - 1])) return;
      int32_t i = kNear - 1;
      for (; i > 0 && products[c] > best[i - 1]; --i) best[i] = best[i - 1], out[i] = out[i - 1];
      best[i] = products[c], out[i] = c;
    };
    for (int32_t block = 0; block < count_; block += kLanes) {
#if defined(__AVX512F__)
      const __m512 some = _mm512_loadu_ps(products + block);
      uint32_t left = _mm512_cmp_ps_mask(some, _mm512_set1_ps(best[kNear - 1]), _CMP_GT_OQ);
      for (; left != 0; left &= left - 1) offer(block + std::countr_zero(left));
#else
      for (int32_t c = block; c < block + kLanes; ++c) offer(c);
#endif
    }
  }
  Part whole(int32_t c) const { return {begins_[at(c)], begins_[at(c) + 1]}; }

  // The most that a query may read besides the nearest cells, of so many words.
  int32_t most_read(int32_t words) const { return std::max(kReadAtLeast, words / kReadOf) << doublings_; }

  // Of all cells but the `near` ones, the words that may score `wanted` or more; when these are more than `most`, those
  // that may score best, about as many. `found` has room for count() parts, `cells` for count() numbers.
  int32_t far(const float* products, const int32_t* near, float wanted, float reach, int32_t most, int32_t* cells,
              Part* found) const {
    int32_t some = 0;
    float best = wanted;
#if defined(__AVX512F__)
    const __m512 reaches = _mm512_set1_ps(reach), wants = _mm512_set1_ps(wanted);
    __m512 most_of = wants;
    __m512i numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int32_t c = 0; c < count_; c += kLanes, numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(kLanes))) {
      const __m512 bound =
          _mm512_fmadd_ps(reaches, _mm512_loadu_ps(farthest_.data() + c), _mm512_loadu_ps(products + c));
      const __mmask16 enough = _mm512_cmp_ps_mask(bound, wants, _CMP_GE_OQ);
      _mm512_mask_compressstoreu_epi32(cells + some, enough, numbers);
      some += __builtin_popcount(enough);
      most_of = _mm512_max_ps(most_of, bound);
    }
    best = _mm512_reduce_max_ps(most_of);
#else
    for (int32_t c = 0; c < count_; ++c) {
      cells[some] = c;
      const float bound = products[c] + reach * farthest_[at(c)];
      some += bound >= wanted;
      best = std::max(best, bound);
    }
#endif
    for (int32_t i = 0; i < kNear; ++i)  // they have been read
      some = static_cast<int32_t>(std::remove(cells, cells + some, near[i]) - cells);
    // The level at which there are about as many as may be read, by halving, as some of the cells tell; below `wanted`
    // nothing is of use.
    const int32_t every = some / kAsked + 1;
    float low = wanted, high = best;
    if (words_above(products, low, reach, cells, some, every) > most) {
      for (int32_t round = 0; round < kHalvings; ++round) {
        const float middle = 0.5f * (low + high);
        (words_above(products, middle, reach, cells, some, every) > most ? low : high) = middle;
      }
      low = high;
    }
    int32_t parts = 0;
    for (int32_t i = 0; i < some; ++i) {
      const int32_t c = cells[i], words = words_above(products, low, reach, c);
      found[parts] = words == kMany ? whole(c) : Part{begins_[at(c)], begins_[at(c)] + words};
      parts += words > 0;
    }
    return parts;
  }

  // The nearest cell of each word, and how far its centroid is.
  void assign(const float* words, int32_t n, int threads, int32_t* cell, float* distance) const {
    parallel_parts((n + kAtOnce - 1) / kAtOnce, threads, [&](int32_t begin, int32_t end) {
      for (int32_t part = begin; part < end; ++part) {
        check_interrupt();
        assign_some(words, part * kAtOnce, n, cell, distance);
      }
    });
  }

  // Which words each cell has, and the order that puts them together, those of a cell farthest first.
  void arrange(const std::vector<int32_t>& cell, const std::vector<float>& distance, std::vector<int32_t>& order) {
    order.resize(cell.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      if (cell[at(a)] != cell[at(b)]) return cell[at(a)] < cell[at(b)];
      return distance[at(a)] != distance[at(b)] ? distance[at(a)] > distance[at(b)] : a < b;
    });
    begins_.assign(at(count_) + 1, 0);
    for (const int32_t c : cell) ++begins_[at(c) + 1];
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    farthest_.assign(at(count_), 0.0f);
    beyond_.assign(at(count_) * kLevels, 0);
    for (int32_t c = 0; c < count_; ++c) {
      const auto [begin, end] = whole(c);
      if (begin == end) continue;
      // A cell's words may all lie on its centroid.
      farthest_[at(c)] = std::max(distance[at(order[at(begin)])], 1e-12f);
      for (int32_t i = begin; i < end; ++i)
        for (int32_t level = 0; level < kLevels; ++level)
          if (distance[at(order[at(i)])] * kLevels >= farthest_[at(c)] * static_cast<float>(level))
            beyond_[at(c) * kLevels + at(level)] = static_cast<uint16_t>(std::min(i + 1 - begin, kMany));
    }
  }

 private:
  static constexpr int32_t kSample = 16;  // words of the sample for each cell
  static constexpr int32_t kRounds = 3;
  static constexpr int32_t kLanes = 16, kAtOnce = 8;
  static constexpr int32_t kLevels = 16;      // of distance
  static constexpr int32_t kHalvings = 6;     // of a range of scores
  static constexpr int32_t kAsked = 192;      // cells that tell where to halve
  static constexpr int32_t kMany = 65'535;  // words that a level counts no further than

  static constexpr int32_t kReadAtLeast = 6144, kReadOf = 128, kMostDoublings = 5;
  static constexpr int32_t kProbes = 32;  // words that are asked for their neighbours
  static constexpr int32_t kNeighbours = 8;
  static constexpr float kFound = 0.97f;  // share of the neighbours that has to be found

  static size_t at(int32_t i) { return static_cast<size_t>(i); }

  float product(const float* a, const float* b) const {
    float sums[kLanes] = {};
    int32_t j = 0;
    for (; j + kLanes <= width_; j += kLanes)
      for (int32_t l = 0; l < kLanes; ++l) sums[l] += a[j + l] * b[j + l];
    for (; j < width_; ++j) sums[0] += a[j] * b[j];
    return std::accumulate(sums, sums + kLanes, 0.0f);
  }

  // Reads twice as much as long as too many neighbours of some words are missed. Several words are asked at a time,
  // because going through all words takes longer than multiplying them.
  void choose_limit(const float* words, int32_t n, float reach, int threads, const std::vector<int32_t>& order) {
    constexpr int32_t kTogether = 8;
    int32_t found[kProbes][kMostDoublings + 1];
    parallel_parts(kProbes / kTogether, threads, [&](int32_t begin, int32_t end) {
      std::vector<std::vector<float>> scores(kTogether, std::vector<float>(at(n)));
      for (int32_t some = begin; some < end; ++some) {
        const float* asked[kTogether];
        for (int32_t i = 0; i < kTogether; ++i)
          asked[i] = words + static_cast<size_t>((int64_t{some * kTogether + i} * 2 + 1) * n / (2 * kProbes)) * at(width_);
        for (int32_t place = 0; place < n; ++place) {
          if (place % 4096 == 0) check_interrupt();
          const float* word = words + at(order[at(place)]) * at(width_);
          for (int32_t i = 0; i < kTogether; ++i) scores[at(i)][at(place)] = product(asked[i], word);
        }
        for (int32_t i = 0; i < kTogether; ++i)
          count_found(asked[i], scores[at(i)], reach, found[some * kTogether + i]);
      }
    });
    for (; doublings_ < kMostDoublings; ++doublings_) {
      int32_t sum = 0;
      for (const auto& each : found) sum += each[doublings_];
      if (static_cast<float>(sum) >= kFound * kProbes * kNeighbours) break;
    }
  }

  // How many of the best scores, in cell order, a query reads with each number of doublings.
  void count_found(const float* asked, const std::vector<float>& scores, float reach, int32_t* found) const {
    std::vector<float> products(at(count_)), best(scores), read;
    std::vector<int32_t> cells(at(count_));
    std::vector<Part> parts(at(count_));
    std::nth_element(best.begin(), best.begin() + kNeighbours - 1, best.end(), std::greater<float>());
    const float needed = best[kNeighbours - 1];
    const float square = product(asked, asked);
    multiply(asked, 1, products.data());
    int32_t near[kNear];
    nearest(products.data(), near);
    auto count = [&](const Part& part) {
      return static_cast<int32_t>(std::count_if(scores.begin() + part.begin, scores.begin() + part.end,
                                                [&](float score) { return score >= needed; }));
    };
    int32_t in_near = 0;
    for (const int32_t c : near) {
      in_near += count(whole(c));
      read.insert(read.end(), scores.begin() + whole(c).begin, scores.begin() + whole(c).end);
    }
    float wanted = -INFINITY;
    if (read.size() >= kRank) {
      std::nth_element(read.begin(), read.begin() + kRank - 1, read.end(), std::greater<float>());
      wanted = read[kRank - 1];
    }
    for (int32_t doublings = 0; doublings <= kMostDoublings; ++doublings) {
      const int32_t most = std::max(kReadAtLeast, static_cast<int32_t>(scores.size()) / kReadOf) << doublings;
      const int32_t n = far(products.data(), near, wanted, reach * std::sqrt(square), most, cells.data(), parts.data());
      found[doublings] = in_near;
      for (int32_t i = 0; i < n; ++i) found[doublings] += count(parts[at(i)]);
      found[doublings] = std::min(found[doublings], kNeighbours);  // many may score alike
    }
  }

  // Words of a cell, or about as many of several, that may score `wanted` or more.
  int32_t words_above(const float* products, float wanted, float reach, int32_t c) const {
    const float most = reach * farthest_[at(c)];
    if (!(most > 0.0f)) return beyond_[at(c) * kLevels];  // no word is in it
    const float needed = (wanted - products[c]) * kLevels / most;  // of the farthest word's distance
    if (needed > static_cast<float>(kLevels)) return 0;
    const auto level = static_cast<int32_t>(std::max(needed, 0.0f));
    return beyond_[at(c) * kLevels + at(std::min(level, kLevels - 1))];
  }
  int64_t words_above(const float* products, float wanted, float reach, const int32_t* cells, int32_t count,
                      int32_t every) const {
    int64_t words = 0;
    for (int32_t i = 0; i < count; i += every) words += words_above(products, wanted, reach, cells[i]);
    return words * every;
  }

  void train(const float* words, int32_t n, int threads) {
    const int32_t size = std::min(n, kSample * count_);
    std::vector<float> sample(at(size) * at(width_));
    for (int32_t i = 0; i < size; ++i)
      std::copy_n(words + static_cast<size_t>(int64_t{i} * n / size) * at(width_), width_,
                  sample.data() + at(i) * at(width_));
    std::vector<float> means(at(count_) * at(width_));
    for (int32_t c = 0; c < count_; ++c)
      std::copy_n(sample.data() + static_cast<size_t>(int64_t{c} * size / count_) * at(width_), width_,
                  means.data() + at(c) * at(width_));
    set_centroids(means);
    std::vector<int32_t> cell(at(size));
    std::vector<float> distance(at(size));
    for (int32_t round = 0; round < kRounds; ++round) {
      assign(sample.data(), size, threads, cell.data(), distance.data());
      std::vector<double> sums(means.size(), 0.0);
      std::vector<int32_t> counts(at(count_), 0);
      for (int32_t i = 0; i < size; ++i) {
        ++counts[at(cell[at(i)])];
        double* sum = sums.data() + at(cell[at(i)]) * at(width_);
        for (int32_t j = 0; j < width_; ++j) sum[j] += double{sample[at(i) * at(width_) + at(j)]};
      }
      for (int32_t c = 0; c < count_; ++c)
        for (int32_t j = 0; counts[at(c)] > 0 && j < width_; ++j)  // one that no word is in stays where it is
          means[at(c) * at(width_) + at(j)] = static_cast<float>(sums[at(c) * at(width_) + at(j)] / counts[at(c)]);
      set_centroids(means);
    }
  }

  void set_centroids(const std::vector<float>& means) {
    centroids_.resize(means.size());
    halves_.assign(at(count_), 0.0f);
    for (int32_t c = 0; c < count_; ++c)
      for (int32_t j = 0; j < width_; ++j) {
        const float x = means[at(c) * at(width_) + at(j)];
        centroids_[(at(c / kLanes) * at(width_) + at(j)) * kLanes + at(c % kLanes)] = x;
        halves_[at(c)] += 0.5f * x * x;
      }
  }

  void assign_some(const float* words, int32_t first, int32_t n, int32_t* cell, float* distance) const {
    const float* word[kAtOnce];
    for (int32_t i = 0; i < kAtOnce; ++i) word[i] = words + at(std::min(first + i, n - 1)) * at(width_);
    float best[kAtOnce][kLanes];
    int32_t where[kAtOnce][kLanes];
    std::fill_n(&best[0][0], kAtOnce * kLanes, -INFINITY);
    std::fill_n(&where[0][0], kAtOnce * kLanes, 0);
    for (int32_t block = 0; block < count_ / kLanes; ++block) {
      float sum[kAtOnce][kLanes];
      for (int32_t i = 0; i < kAtOnce; ++i)
        for (int32_t l = 0; l < kLanes; ++l) sum[i][l] = -halves_[at(block * kLanes + l)];
      const float* c = centroids_.data() + at(block) * at(width_) * kLanes;
      for (int32_t j = 0; j < width_; ++j, c += kLanes)
        for (int32_t i = 0; i < kAtOnce; ++i)
          for (int32_t l = 0; l < kLanes; ++l) sum[i][l] += word[i][j] * c[l];
      for (int32_t i = 0; i < kAtOnce; ++i)
        for (int32_t l = 0; l < kLanes; ++l) {
          const bool better = sum[i][l] > best[i][l];
          best[i][l] = better ? sum[i][l] : best[i][l];
          where[i][l] = better ? block : where[i][l];
        }
    }
    for (int32_t i = 0; i < kAtOnce && first + i < n; ++i) {
      int32_t found = where[i][0] * kLanes;
      float most = best[i][0];
      for (int32_t l = 1; l < kLanes; ++l) {
        const int32_t c = where[i][l] * kLanes + l;
        if (best[i][l] > most || (best[i][l] == most && c < found)) most = best[i][l], found = c;
      }
      float square = 0.0f;
      for (int32_t j = 0; j < width_; ++j) square += word[i][j] * word[i][j];
      cell[first + i] = found;
      distance[first + i] = std::sqrt(std::max(0.0f, square - 2.0f * most));
    }
  }

  int32_t width_;
  int32_t count_ = 256;
  int32_t doublings_ = 0;  // of what a query may read
  std::vector<float> centroids_;  // [block of lanes][component][lane]
  std::vector<float> halves_;     // half the square of each
  std::vector<int32_t> begins_;   // of each cell in cell order, and the end
  std::vector<float> farthest_;   // distance of the first word of each cell
  std::vector<uint16_t> beyond_;  // [cell][level]: words at least that share of it away
};

}  // namespace sparsam::SPARSAM_ISA
