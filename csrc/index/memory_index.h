// A memory's approximate index, kept in step with every write.
//
// The index holds the words that are not zero. All zero words are alike (as all blank ones are), so the first K rows
// that are not in the index stand for them, as in exact search. A word that no index can place, since it or its length
// is not finite, stays outside and is scored each time.
//
// A forward pass tells the index of each write. A backward pass searches nothing, so that taking writes back, or
// applying them again, only marks rows (Memory::follow), and the next forward pass takes the marked rows in.
//
// A state is a value: what a call answers depends on the state's words and the call's input, never on what was run
// before. An index that is a value by itself (CandidateIndex::is_value) just goes on. Any other is built anew, over the
// words of that moment in order of rows, by a call that finds it changed since it was built; a call of few steps that
// finds many words searches exactly instead, which takes less time than building.
//
// Episodes that start from the same pre-loaded words share one index of those, the base (kept with the InitialWords),
// which does not change: rows whose word changed or went away are hidden in it, and the words that an episode writes
// lie in an index of its own that is a value. A row is visible in one of the two, so candidates stay distinct. The own
// index should keep no array by row, since rows lie scattered over the whole memory and every first touch of a page is
// a page fault (a tenth of a step at a million words).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "index/candidate_index.h"
#include "index/index_settings.h"
#include "memory/row_set.h"
#include "memory/timeline.h"
#include "support/lazy_array.h"

namespace sparsam {

// Whether an index can hold a word of this norm, or leaves it out as zero.
template <class T>
bool has_place(T norm, bool unit) {
  return norm == 0 || (unit ? std::isfinite(norm) && std::isfinite(1 / norm) : std::isfinite(static_cast<float>(norm)));
}

// The words of a memory as the similarity sees them: of unit length for cosine, as they stand otherwise.
template <class T, class Words>  // Words: a Memory or InitialWords
class SeenWords final : public WordSource {
 public:
  SeenWords(const Words& words, int32_t width, bool unit) : words_(words), width_(width), unit_(unit) {}
  void fetch(int32_t row, float* out) const override {
    const T *word = words_.word(row), norm = words_.norm(row);
    // A rebuild may ask for a word that was erased or spoiled a moment ago and is about to leave the index.
    if (norm == 0 || !has_place(norm, unit_)) return void(std::fill_n(out, width_, 0.0f));
    const T scale = unit_ ? T(1) / norm : T(1);
    for (int32_t j = 0; j < width_; ++j) out[j] = static_cast<float>(word[j] * scale);
  }

 private:
  const Words& words_;
  int32_t width_;
  bool unit_;
};

// The index of a pre-loaded memory.
struct IndexedBase final : WordIndex {
  IndexedBase(const IndexSettings& settings, bool unit, int32_t rows) : settings(settings), unit(unit), present(rows) {}
  IndexSettings settings;
  bool unit;
  std::unique_ptr<CandidateIndex> index;
  RowSet present;              // rows with a word
  std::set<int32_t> unplaced;  // those of them that are not in the index
};

template <class T>
class MemoryIndex final : public WordIndex {
 public:
  // `unit`: words are compared by direction alone; `by_distance`: by their distance.
  MemoryIndex(Memory<T>& memory, const IndexSettings& settings, bool unit, bool by_distance = false);
  ~MemoryIndex() override;
  MemoryIndex(const MemoryIndex&) = delete;
  MemoryIndex& operator=(const MemoryIndex&) = delete;

  bool is(const IndexSettings& settings, bool unit, bool by_distance = false) const {
    return settings_ == with_distance(settings, by_distance) && unit_ == unit;
  }

  // Before a forward pass of so many steps: build the index, or take in the rows that were taken back or applied again.
  void prepare(int threads, int64_t steps);
  // After a step's writes: these rows have new words and norms.
  void wrote(const int32_t* rows, int count);

  // Whether search is exact because there are few words. Then nothing below may be called.
  bool is_exact() const { return index_ == nullptr; }
  int32_t max_candidates() const {
    return std::min(memory_.rows(), index_->max_candidates() + (base_ ? base_->index->max_candidates() : 0));
  }
  // Rows that may be among the most similar ones to queries that are finite and not zero; query h begins at
  // queries + h * width. Those for head h go to out + h * stride, their number to counts[h].
  void propose(const T* queries, int32_t width, const T* norms, int heads, int32_t* out, int32_t stride, int32_t* counts);
  // Rows of words that the index cannot place, ascending.
  const std::set<int32_t>& unplaced() const { return unplaced_; }
  // The first row from `from` on whose word is zero.
  int32_t first_blank(int32_t from) const { return present_->first_absent(from); }

  int32_t size() const { return index_->size() + (base_ ? base_->index->size() - hidden_count_ : 0); }  // words in it
  // What answers now: "linear" while search is exact, else the name of the kind.
  const std::string& used() const {
    static const std::string linear = "linear";
    return is_exact() ? linear : settings_.kind;
  }

 private:
  // Calls of fewer steps than this that find more words than that build no index which is not a value.
  static constexpr int64_t kStepsWorthBuilding = 64;
  static constexpr size_t kQuicklyBuilt = 1024;

  bool wants_exact() const;
  bool makes_a_value();
  IndexSettings own_settings();  // of `index_`
  static IndexSettings with_distance(IndexSettings settings, bool by_distance) {
    settings.by_distance = by_distance;
    return settings;
  }
  void build(int threads);
  void take_in(int32_t row);
  void take_in_all(const std::vector<int32_t>& rows);
  void take_out(int32_t row);
  void hide(int32_t row) {
    hidden_[size_t(row) / 64] |= uint64_t{1} << (row % 64);
    ++hidden_count_;
  }
  void discard();
  std::shared_ptr<const IndexedBase> base_of(const InitialWords<T>& initial, int threads) const;

  Memory<T>& memory_;
  const IndexSettings settings_;
  const bool unit_;
  SeenWords<T, Memory<T>> words_;
  std::unique_ptr<CandidateIndex> index_;  // null while search is exact; with a base, of the words written over it
  std::shared_ptr<const IndexedBase> base_;  // null without pre-loaded words, and while search is exact
  LazyArray<uint64_t> hidden_;               // rows that are hidden in the base, a bit each
  int32_t hidden_count_ = 0;
  std::optional<RowSet> present_;          // rows in the index or unplaced
  std::set<int32_t> unplaced_;
  bool changed_ = false;                   // since it was built
  int64_t steps_ = 0;                      // of the forward pass
  bool too_short_ = false;                 // the forward pass, for building an index
  std::optional<bool> makes_a_value_;      // once it is known
  std::vector<float> word_;
  std::vector<float> queries_;
  std::vector<int32_t> base_rows_, base_counts_;  // what the base proposes
};

// The index of a memory, null where the last call asked for exact search.
template <class T>
MemoryIndex<T>* index_of(const Timeline<T>& timeline) {
  return static_cast<MemoryIndex<T>*>(timeline.index.get());
}

// Gives a memory the index that a forward pass of so many steps asks for, ready to use; none for exact search.
template <class T>
void use_index(Timeline<T>& timeline, const SearchedShape& shape, int threads, int64_t steps) {
  if (shape.index == nullptr) {
    timeline.index.reset();
    return;
  }
  const bool unit = shape.similarity == Similarity::kCosine, by_distance = shape.similarity == Similarity::kEuclidean;
  const MemoryIndex<T>* index = index_of(timeline);
  if (index == nullptr || !index->is(*shape.index, unit, by_distance))
    timeline.index = std::make_unique<MemoryIndex<T>>(timeline.memory, *shape.index, unit, by_distance);
  index_of(timeline)->prepare(threads, steps);
}

extern template class MemoryIndex<float>;
extern template class MemoryIndex<double>;

}  // namespace sparsam
