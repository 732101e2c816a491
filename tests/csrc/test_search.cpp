// Exact search with a coarse copy of the words against scoring every word: the same rows and the same bits, whatever was
// written, changed and taken back. CMakeLists.txt compiles it for AVX-512 where the compiler has that.
#if defined(__AVX512F__)
#define SPARSAM_ISA searched_avx512
#define SPARSAM_VECTOR_BYTES 64
#else
#define SPARSAM_ISA searched_baseline
#define SPARSAM_VECTOR_BYTES 16
#endif
#include "index/exact_search.h"
#include "index/look_ahead.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "check.h"

using namespace sparsam;
using namespace sparsam::SPARSAM_ISA;

namespace {

template <class T>
struct Case {
  Case(int seed, int32_t rows, int32_t width, int heads, int k, double coarse)
      : random(seed), heads(heads), k(k), coarse(coarse), memory(rows, width) {}

  T number() {
    const double x = normal(random);
    return T(coarse > 0 ? std::round(x / coarse) * coarse : x);
  }
  void write(int32_t row, T scale) {
    memory.mark_written(row);
    memory.note_changed(row);
    T* word = memory.word(row);
    for (int32_t j = 0; j < memory.width(); ++j) word[j] = scale * number();
    memory.norm(row) = std::sqrt(dot(word, word, memory.stride()));
  }
  // As a journal does: the word is what it was before, zero, and the row no longer counts as written.
  void take_back(int count) {
    const std::vector<int32_t> written = memory.written();
    for (size_t i = written.size() - count; i < written.size(); ++i) {
      std::memset(memory.word(written[i]), 0, sizeof(T) * memory.stride());
      memory.norm(written[i]) = 0;
      memory.note_changed(written[i]);
    }
    memory.unmark_to(written.size() - count);
  }
  Queries<T> asking(const T* queries, const T* norms, int32_t* rows, T* scores) const {
    return {memory, Similarity::kCosine, queries, norms, heads, k, rows, scores};
  }
  // Every word by itself, ties to the lowest row, scores that are not numbers never.
  void expected(const T* queries, const T* norms, int32_t* rows, T* scores) {
    for (int h = 0; h < heads; ++h) {
      Best<T> best(k, rows + h * k, scores + h * k);
      const T* query = queries + h * memory.stride();
      for (int32_t row = 0; row < memory.rows(); ++row) {
        const T score = RowBlock<T>(memory, &row, 1).scores(Similarity::kCosine, query, norms[h])[0];
        if (score == score) best.offer(score, row);
      }
      fill_up(best, memory, Similarity::kCosine, query, norms[h]);
    }
  }
  // Steps whose queries are all known at the first of them; each writes some words before it asks.
  void compare_ahead(int steps) {
#if SPARSAM_VECTOR_BYTES == 64
    const int64_t stride = heads * memory.width() + 3;
    std::vector<T> interface(size_t(steps * stride));
    for (T& x : interface) x = number();
    LookAhead<T> ahead;
    std::vector<int32_t> rows(heads * k), wanted(heads * k);
    std::vector<T> queries(size_t(heads) * memory.stride() + 16, T(0)), norms(heads);
    std::vector<T> scores(heads * k), wanted_scores(heads * k);
    for (int t = 0; t < steps; ++t) {
      const int32_t old = memory.written()[random() % memory.written().size()];
      const int32_t some[] = {old, int32_t(random() % memory.rows()), old};  // one twice
      for (const int32_t row : some) write(row, T(1));
      const T* asked = interface.data() + t * stride;
      for (int h = 0; h < heads; ++h) {
        T* const query = queries.data() + h * memory.stride();
        std::copy_n(asked + h * memory.width(), memory.width(), query);
        norms[h] = std::sqrt(dot(query, query, memory.stride()));
      }
      if (t % 3 == 1) {  // what was just written is what is asked for
        std::copy_n(queries.data(), memory.stride(), memory.word(some[1]));
        memory.norm(some[1]) = norms[0];
      }
      if (t % 11 == 5) memory.word(old)[0] = memory.norm(old) = std::numeric_limits<T>::quiet_NaN();
      const Queries<T> step = asking(queries.data(), norms.data(), rows.data(), scores.data());
      ahead.expect({asked, stride, steps - t});
      if (!ahead.serves(step)) continue;
      ahead.note(some, 3);
      ahead.search(step);
      expected(queries.data(), norms.data(), wanted.data(), wanted_scores.data());
      CHECK(rows == wanted);
      CHECK(std::memcmp(scores.data(), wanted_scores.data(), sizeof(T) * scores.size()) == 0);
      ++asked_ahead;
    }
#else
    (void)steps;
#endif
  }
  void compare(T query_scale) {
    std::vector<T> queries(size_t(heads) * memory.stride() + 16, T(0)), norms(heads);
    for (int h = 0; h < heads; ++h) {
      T* query = queries.data() + h * memory.stride();
      for (int32_t j = 0; j < memory.width(); ++j) query[j] = query_scale * number();
      norms[h] = std::sqrt(dot(query, query, memory.stride()));
    }
    std::vector<int32_t> rows(heads * k), wanted(heads * k);
    std::vector<T> scores(heads * k), wanted_scores(heads * k);
    exact.search(asking(queries.data(), norms.data(), rows.data(), scores.data()));
    expected(queries.data(), norms.data(), wanted.data(), wanted_scores.data());
    CHECK(rows == wanted);
    CHECK(std::memcmp(scores.data(), wanted_scores.data(), sizeof(T) * scores.size()) == 0);
  }

  std::mt19937 random;
  std::normal_distribution<double> normal;
  int heads, k;
  double coarse;  // numbers are multiples of this, for ties; 0 for any
  Memory<T> memory;
  ExactSearch<T> exact;
  int asked_ahead = 0;
};

template <class T>
void queries_known_before() {
  int seed = 100;
  for (const int32_t width : {3, 32, 64})
    for (const int heads : {1, 2, 3})
      for (const int k : {1, 4}) {
        ++seed;
        const bool many = seed % 7 == 0;  // more than one pass holds
        const int32_t rows = many ? 9000 : 1500, words = many ? 8500 : 1100;
        Case<T> c(seed, rows, width, heads, k, seed % 2 ? 0.5 : 0);
        for (int32_t i = 0; i < words; ++i) c.write((i * 37) % rows, T(1));
        c.compare_ahead(14);
        c.compare(T(1));  // and the coarse copy is in step again
#if SPARSAM_VECTOR_BYTES == 64
        if (__builtin_cpu_supports("avx512vnni")) CHECK(c.asked_ahead == (heads > 2 ? 0 : 13));
#endif
      }
}

template <class T>
void like_scoring_all() {
  const double coarse[] = {0, 1, 0.25};
  int seed = 0;
  for (const int32_t width : {1, 5, 8, 32, 40, 100})
    for (const int heads : {1, 4, 6})
      for (const int k : {1, 4, 17}) {
        ++seed;
        Case<T> c(seed, 700, width, heads, k, coarse[seed % 3]);
        const T scales[] = {T(1), T(1e-3), T(1), T(1e3)};
        for (int32_t i = 0; i < 650; ++i) {
          c.write((i * 37) % 700, scales[i % 4]);
          if (i % 130 == 100) c.compare(T(1));
        }
        for (int round = 0; round < 3; ++round) {  // words change, the latest are taken back, others come
          for (int i = 0; i < 20; ++i) c.write(c.memory.written()[c.random() % c.memory.written().size()], T(0.5));
          c.compare(T(0.3));
          c.take_back(75);
          c.compare(T(0.3));
          for (int32_t row = 0; row < 40; ++row) c.write(699 - row * 2, T(1));
        }
        c.compare(T(1));
        for (int32_t row = 0; row < 700; ++row) c.write(row, T(1));  // no blank word is left
        c.compare(T(1));
      }
}

// Words and queries at the ends of what numbers can hold, and beyond.
template <class T>
void odd_numbers() {
  const T odd[] = {T(0), std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(), T(1e-30), T(1e30),
                   std::numeric_limits<T>::denorm_min(), T(1e-9), T(1e9)};
  for (const T query_scale : {T(1), T(0), T(1e-20), T(1e-7), T(1e7)}) {
    Case<T> c(99, 500, 16, 4, 4, 0);
    for (int32_t row = 0; row < 300; ++row) c.write(row, row % 3 == 0 ? odd[row / 3 % 8] : T(1));
    c.compare(query_scale);
    c.compare(query_scale);
  }
}

// More words than one pass holds: later ones are told by a bound alone. The words of each third lie around a direction of
// its own, so that what a word has to reach rises late for some queries; some are no numbers, some have no codes.
template <class T>
void many_words() {
  int seed = 200;
  for (const int32_t width : {12, 32})
    for (const int heads : {1, 4, 6})
      for (const int k : {1, 4, 17}) {
        constexpr int32_t kRows = 9001, kWords = 8987;
        Case<T> c(++seed, kRows, width, heads, k, seed % 3 ? 0 : 0.5);
        const T odd[] = {std::numeric_limits<T>::quiet_NaN(), T(1e30), T(1e-30)};
        for (int32_t i = 0; i < kWords; ++i) {
          const int32_t row = i * 37 % kRows;
          c.write(row, i % 1000 == 999 ? odd[i / 1000 % 3] : T(1));
          if (seed % 2 == 0 && i % 1000 != 999) {
            c.memory.word(row)[i / 3000] += T(4);
            c.memory.norm(row) = std::sqrt(dot(c.memory.word(row), c.memory.word(row), c.memory.stride()));
          }
        }
        c.compare(T(1));
        c.compare(T(1e-3));
        for (int i = 0; i < 50; ++i) c.write(c.memory.written()[c.random() % kWords], T(1));
        c.compare(T(1));
      }
}

// Words close to each other, where bounds tell little apart.
template <class T>
void alike() {
  Case<T> c(7, 2000, 32, 4, 4, 0);
  for (int32_t row = 0; row < 1500; ++row) {
    c.write(row, T(1e-4));
    T* word = c.memory.word(row);
    for (int32_t j = 0; j < 32; ++j) word[j] += T(1);
    c.memory.norm(row) = std::sqrt(dot(word, word, c.memory.stride()));
  }
  for (int i = 0; i < 5; ++i) c.compare(T(1));
}

// Arrays of a memory are handed on as zero bytes, whatever was written, searched and taken back in it.
template <class T>
void leaves_zeros() {
  constexpr int32_t kRows = 7001;  // a size that no other array here has
  {
    Case<T> c(3, kRows, 16, 2, 3, 0);
    for (int32_t row = 0; row < 200; ++row) c.write(row, T(1));
    c.compare(T(1));
    c.take_back(200);
  }
  for (int i = 0; i < 3; ++i) {
    const LazyArray<uint64_t> again(kRows);  // of the bytes that the marks took, and with double the norms
    for (size_t row = 0; row < kRows; ++row) CHECK(again[row] == 0);
  }
}

}  // namespace

int main() {
#if defined(__AVX512F__)
  if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw")))
    return 0;
#endif
  queries_known_before<float>();
  queries_known_before<double>();
  like_scoring_all<float>();
  like_scoring_all<double>();
  odd_numbers<float>();
  odd_numbers<double>();
  many_words<float>();
  many_words<double>();
  alike<float>();
  alike<double>();
  leaves_zeros<float>();
  leaves_zeros<double>();
}
