// A forest of randomized k-d trees, searched best bin first with one budget over all trees.
//
// Silpa-Anan and Hartley 2008, 'Optimised KD-trees for fast image descriptor matching'; Muja and Lowe 2014 (FLANN).
// Each tree (kd_tree.h) sees the words in axes of its own; a branch not taken goes into a heap, common to all trees,
// under a bound on its squared distance. `checks` is the budget: the number of leaves visited, and the
// most words proposed, the nearest by sketch among those in the leaves (a leaf is one cache line, bucket.h).
//
// Memory per indexed word and tree: 4 bytes for its place, and a leaf (64 bytes) and two nodes (32 bytes) for every
// 4 to 5 words, about 26 bytes in all; nothing for rows that are not indexed.
#pragma once

#include <algorithm>

#include "index/projection.h"
#include "index/bucket.h"
#include "support/parallel.h"
#include "index/kd_tree.h"

namespace sparsam::SPARSAM_ISA {

struct KDForestSettings {
  int32_t trees = 4;
  int32_t checks = 128;
  int32_t leaf = kBucketEntries;  // words in a leaf before it is split
  uint64_t seed = 0;
};

class KDForest final : public CandidateIndex {
 public:
  static constexpr int32_t kMaxTrees = 32;

  KDForest(int32_t capacity, int32_t word_size, const KDForestSettings& settings, const WordSource* source = nullptr)
      : CandidateIndex(capacity, word_size), settings_(settings) {
    source_ = source;
    projection_ = CentredProjection(word_size, kSketchBits, settings_.seed);
    slots_ = LazyArray<int32_t>(at(capacity) * at(settings_.trees));
    SplitMix seeds(settings_.seed);
    for (int32_t t = 0; t < settings_.trees; ++t)
      trees_.emplace_back(capacity, word_size, settings_.leaf, settings_.trees, t, seeds.next());
    stride_ = at(trees_[0].rotated_size());
  }

  void put(int32_t row, const float* word) override {
    const Placed placed(*this, word);
    for (int32_t t = 0; t < settings_.trees; ++t)
      trees_[at(t)].insert(placed.leaves[t], row, rotated_.data() + at(t) * stride_, placed.sketch, slots_, source_);
    if (++size_ == kDense) expect_dense();
    watch_centre(placed.projections);
  }

  void take(int32_t row) override {
    for (const KDTree& tree : trees_) tree.prefetch_block(row, slots_);
    for (KDTree& tree : trees_) tree.remove(row, slots_);
    --size_;
  }

  void replace(int32_t row, const float* word) override {
    for (const KDTree& tree : trees_) tree.prefetch_block(row, slots_);
    const Placed placed(*this, word);
    for (int32_t t = 0; t < settings_.trees; ++t) {
      KDTree& tree = trees_[at(t)];
      if (tree.keep(row, placed.leaves[t], placed.sketch, slots_)) continue;
      tree.remove(row, slots_);  // may move the leaf just found, so it is looked up again
      const float* rotated = rotated_.data() + at(t) * stride_;
      tree.insert(tree.descend(rotated), row, rotated, placed.sketch, slots_, source_);
    }
    watch_centre(placed.projections);
  }

  bool contains(int32_t row) const override {
    return row >= 0 && row < capacity_ && slots_[at(row) * at(settings_.trees)] != 0;
  }
  int32_t size() const override { return size_; }

  void clear() override {
    slots_.reset();
    for (KDTree& tree : trees_) tree.clear();
    size_ = 0;
    insertions_ = 0;
    projection_.forget();
  }

  int32_t max_candidates() const override { return std::min(settings_.checks, capacity_); }

  int32_t propose(const float* query, int32_t* out) const override {
    if (size_ <= max_candidates()) {
      int32_t n = 0;
      trees_[0].each_row([&](int32_t row) { out[n++] = row; });
      return n;
    }
    BucketScratch& scratch = own_scratch<BucketScratch>();
    auto& heap = scratch.heap;
    heap.clear();
    const int32_t budget = settings_.checks;
    scratch.visits.resize(at(budget));
    const uint32_t sketch = sketch_of(query);
    scratch.numbers.resize(at(settings_.trees) * stride_);
    rotate(query, scratch.numbers.data());
    int32_t visits = 0, lanes = std::min(settings_.trees, budget);
    Branch lane[kMaxTrees];
    for (int32_t t = 0; t < lanes; ++t) lane[t] = {0.0f, 0, t};
    for (;;) {
      descend_lanes(scratch.numbers.data(), lane, lanes, heap);
      for (int32_t i = 0; i < lanes; ++i) {
        const KDTree& tree = trees_[at(lane[i].tag)];
        const int32_t block = tree.nodes()[lane[i].where].down;
        __builtin_prefetch(&tree.pool()[block]);
        scratch.visits[at(visits++)] = {block, lane[i].tag, 0};
      }
      lanes = std::min({kLanes, budget - visits, static_cast<int32_t>(heap.size())});
      if (lanes == 0) break;
      for (int32_t i = 0; i < lanes; ++i) lane[i] = heap_pop(heap);
    }
    const size_t needed = at(visits) * kScanned + 1;
    if (scratch.found.size() < needed) scratch.found.resize(needed);
    Found* end = scratch.found.data();
    for (int32_t i = 0; i < visits; ++i)
      end = scan_chain(trees_[at(scratch.visits[at(i)].table)].pool(), scratch.visits[at(i)].block, sketch, 0, end);
    return propose_nearest(scratch, static_cast<size_t>(end - scratch.found.data()), max_candidates(), out);
  }

  void rows(std::vector<int32_t>& out) const override {
    trees_[0].each_row([&](int32_t row) { out.push_back(row); });
  }

  void fill(const int32_t* rows, int32_t n, int threads) override {
    LazyArray<float> words(at(n) * at(word_size_));
    if (n >= kDense) words.expect_dense();
    std::vector<uint32_t> sketches(at(n));
    projection_.centre_on(rows, n, word_size_, *source_);
    fetch_all(rows, n, threads, [&] {
      return [&](int32_t i, const float* word) {
        std::copy_n(word, word_size_, words.data() + at(i) * at(word_size_));
        sketches[at(i)] = sketch_of(word);
      };
    });
    if (n >= kDense) expect_dense();
    parallel_parts(settings_.trees, threads, [&](int32_t begin, int32_t end) {
      for (int32_t t = begin; t < end; ++t) trees_[at(t)].build(rows, words.data(), sketches.data(), n, slots_);
    });
    size_ = n;
  }

  size_t bytes() const override {
    size_t sum = at(size_) * trees_.size() * sizeof(int32_t) + projection_.bytes();
    for (const KDTree& tree : trees_) sum += tree.bytes();
    return sum;
  }

 private:
  static constexpr int32_t kSketchBits = 32;
  static constexpr int32_t kLanes = 8;  // best bins opened at a time, so that their cache misses overlap

  // Where a word goes; `rotated_` is the word as each tree sees it.
  struct Placed {
    Placed(KDForest& forest, const float* word) {
      forest.rotated_.resize(forest.trees_.size() * forest.stride_);
      forest.rotate(word, forest.rotated_.data());
      forest.descend(forest.rotated_.data(), leaves);
      forest.projection_.project(word, projections);
      sketch = Projection::signs(projections, kSketchBits);
    }
    int32_t leaves[kMaxTrees];
    float projections[kSketchBits];
    uint32_t sketch;
  };

  void expect_dense() {
    slots_.expect_dense();
    for (KDTree& tree : trees_) tree.expect_dense();
  }

  uint32_t sketch_of(const float* word) const {
    float projections[kSketchBits];
    projection_.project(word, projections);
    return Projection::signs(projections, kSketchBits);
  }

  // Trees need no centre, sketches do.
  void watch_centre(const float* projections) {
    if (!projection_.watch(projections, size_, projection_.padded())) return;
    std::vector<int32_t> present;
    rows(present);
    std::vector<float> word(at(word_size_));
    for (int32_t row : present) {
      source_->fetch(row, word.data());
      const uint32_t sketch = sketch_of(word.data());
      for (KDTree& tree : trees_) tree.set_sketch(row, sketch, slots_);
    }
  }

  void rotate(const float* word, float* out) const {
    for (size_t t = 0; t < trees_.size(); ++t) trees_[t].rotate(word, out + t * stride_);
  }

  // All trees one level at a time: their cache misses overlap.
  void descend(const float* words, int32_t* leaves) const {
    std::fill(leaves, leaves + settings_.trees, 0);
    for (bool moving = true; moving;) {
      moving = false;
      for (int32_t t = 0; t < settings_.trees; ++t) {
        const KDTree::Node& n = trees_[at(t)].nodes()[leaves[t]];
        if (n.dim == KDTree::kLeaf) continue;
        leaves[t] = n.down + (words[at(t) * stride_ + at(n.dim)] >= n.split);
        __builtin_prefetch(trees_[at(t)].nodes() + leaves[t]);
        moving = true;
      }
    }
  }

  // From each lane's node to a leaf, the branches not taken into the heap; again level by level.
  void descend_lanes(const float* rotated, Branch* lane, int32_t lanes, std::vector<Branch>& heap) const {
    for (bool moving = true; moving;) {
      moving = false;
      for (int32_t i = 0; i < lanes; ++i) {
        const KDTree::Node* nodes = trees_[at(lane[i].tag)].nodes();
        const KDTree::Node& n = nodes[lane[i].where];
        if (n.dim == KDTree::kLeaf) continue;
        const float gap = rotated[at(lane[i].tag) * stride_ + at(n.dim)] - n.split;
        const int32_t near = n.down + (gap >= 0.0f);
        heap_push(heap, {lane[i].key + gap * gap, near ^ 1, lane[i].tag});
        lane[i].where = near;
        __builtin_prefetch(nodes + near);
        moving = true;
      }
    }
  }

  KDForestSettings settings_;
  size_t stride_ = 0;      // floats of a word as one tree sees it
  CentredProjection projection_;  // for the sketch
  LazyArray<int32_t> slots_;
  std::vector<KDTree> trees_;
  std::vector<float> rotated_;  // the word being placed, as each tree sees it
  int32_t size_ = 0;
};

}  // namespace sparsam::SPARSAM_ISA
