// One randomized k-d tree: the shape, and which rows lie in which leaf.
//
// The tree turns the words into axes of its own by a random rotation. Trees that split on the same axes fail on the
// same queries: at a million words of width 32, four trees and 32 checks, top-1 recall is 0.93 with the rotations and
// 0.89 without. A node splits at the median of an axis drawn from those of largest variance.
//
// Words enter and leave one by one: a leaf that overflows is split, a leaf that empties takes its parent with it, so
// no leaf is empty and a search is never longer than its budget. Equal words cannot be split and form a chain of
// blocks, of which a visit reads the first few (bucket.h).
#pragma once

#include <limits>

#include "index/bucket.h"
#include "index/projection.h"
#include "support/interrupt.h"

namespace sparsam::SPARSAM_ISA {

class KDTree {
 public:
  struct Node {
    float split;   // left is below it
    int32_t dim;   // component compared; kLeaf in a leaf
    int32_t down;  // first of the two children, which lie side by side; in a leaf the first block, 0 in an empty tree
    int32_t up;    // parent
  };
  static constexpr int32_t kLeaf = -1;

  KDTree(int32_t capacity, int32_t word_size, int32_t leaf, int32_t stride, int32_t offset, uint64_t seed)
      : word_size_(word_size), leaf_(leaf), stride_(at(stride)), offset_(at(offset)), seed_(seed), random_(seed),
        rotation_(word_size, word_size, seed), nodes_(2 * at(capacity) + 4), pool_(1, capacity + 1) {
    nodes_[0].dim = kLeaf;
  }

  const Node* nodes() const { return nodes_.data(); }
  const BucketPool& pool() const { return pool_; }

  // The word as this tree sees it: in axes of its own, so that the trees err independently.
  int32_t rotated_size() const { return rotation_.padded(); }
  void rotate(const float* word, float* out) const { rotation_.project(word, out); }

  int32_t descend(const float* word, int32_t node = 0) const {
    while (nodes_[at(node)].dim != kLeaf) {
      const Node& n = nodes_[at(node)];
      node = n.down + (word[n.dim] >= n.split);
    }
    return node;
  }

  // `word` is rotated already. `slots` is where all trees keep the rows' slots: this one's at row * stride + offset.
  void insert(int32_t node, int32_t row, const float* word, uint32_t sketch, LazyArray<int32_t>& slots,
              const WordSource* source) {
    const int32_t head = nodes_[at(node)].down;
    if (head == 0) {
      slot(slots, row) = chain_insert(pool_, give_block(node), row, sketch);
    } else if (pool_[head].next == 0 && pool_[head].count() < leaf_) {
      slot(slots, row) = chain_insert(pool_, head, row, sketch);
    } else {
      split_leaf(node, row, word, sketch, slots, source);
    }
  }

  void remove(int32_t row, LazyArray<int32_t>& slots) {
    const int32_t taken = slot(slots, row), block = block_of(taken);
    slot(slots, row) = 0;
    pool_[block].row_plus_one[entry_of(taken)] = 0;
    if (!pool_[block].empty()) return;
    if (pool_[block].prev > 0) {
      chain_unlink(pool_, block);
      return;
    }
    const int32_t node = owner(block), next = pool_[block].next;
    pool_.release(block);
    if (next != 0) {
      own(node, next);
    } else {
      cut(node);
    }
  }

  // Rewrites the sketch of a row that stays in its leaf; false when it does not.
  bool keep(int32_t row, int32_t node, uint32_t sketch, const LazyArray<int32_t>& slots) {
    const int32_t taken = slots[at(row) * stride_ + offset_], block = block_of(taken);
    if (nodes_[at(node)].down != block || pool_[block].next != 0) return false;
    pool_[block].sketch[entry_of(taken)] = sketch;
    return true;
  }

  void set_sketch(int32_t row, uint32_t sketch, const LazyArray<int32_t>& slots) {
    const int32_t taken = slots[at(row) * stride_ + offset_];
    pool_[block_of(taken)].sketch[entry_of(taken)] = sketch;
  }

  void prefetch_block(int32_t row, const LazyArray<int32_t>& slots) const {
    __builtin_prefetch(&pool_[block_of(slots[at(row) * stride_ + offset_])], 1);
  }

  void clear() {
    nodes_.reset();
    nodes_[0].dim = kLeaf;
    pool_.reset();
    used_nodes_ = 2;
    free_pair_ = 0;
    random_ = SplitMix(seed_);
  }

  // Everything from scratch: the i-th word_size floats of `plain` are the word of rows[i].
  void build(const int32_t* rows, const float* plain, const uint32_t* sketches, int32_t n, LazyArray<int32_t>& slots) {
    LazyArray<float> rotated(at(n) * at(word_size_) + at(rotated_size()));
    if (n >= kDense) rotated.expect_dense();
    // Rotated words are padded: each overwrites the padding of the one before.
    for (int32_t i = 0; i < n; ++i) {
      if (i % 1024 == 0) check_interrupt();
      rotate(plain + at(i) * at(word_size_), rotated.data() + at(i) * at(word_size_));
    }
    const float* words = rotated.data();
    std::vector<int32_t> order(at(n));
    for (int32_t i = 0; i < n; ++i) order[at(i)] = i;
    struct Range {
      int32_t node, begin, end;
    };
    std::vector<Range> todo;
    if (n > 0) todo.push_back({0, 0, n});
    while (!todo.empty()) {
      check_interrupt();
      const Range range = todo.back();
      todo.pop_back();
      int32_t* first = order.data() + range.begin;
      const int32_t count = range.end - range.begin;
      const int32_t below = count <= leaf_ ? 0 : part(first, count, words, nodes_[at(range.node)]);
      if (below == 0) {
        const int32_t head = give_block(range.node);
        for (int32_t i = 0; i < count; ++i)
          slot(slots, rows[first[i]]) = chain_insert(pool_, head, rows[first[i]], sketches[first[i]]);
        continue;
      }
      const int32_t children = make_children(range.node);
      todo.push_back({children + 1, range.begin + below, range.end});
      todo.push_back({children, range.begin, range.begin + below});
    }
  }

  template <class Use>
  void each_row(const Use& use) const {
    std::vector<int32_t> todo{0};
    while (!todo.empty()) {
      const Node& node = nodes_[at(todo.back())];
      todo.pop_back();
      if (node.dim != kLeaf) {
        todo.push_back(node.down + 1);
        todo.push_back(node.down);
        continue;
      }
      for (int32_t block = node.down; block != 0; block = pool_[block].next)
        for (int32_t e = 0; e < kBucketEntries; ++e)
          if (pool_[block].row_plus_one[e] != 0) use(pool_[block].row_plus_one[e] - 1);
    }
  }

  void expect_dense() {
    nodes_.expect_dense();
    pool_.expect_dense();
  }

  size_t bytes() const { return at(used_nodes_) * sizeof(Node) + at(pool_.used()) * sizeof(Bucket); }

 private:
  static constexpr int32_t kBroadest = 5;  // components of largest variance, of which one is drawn
  static constexpr int32_t kSample = 48;   // words that variance and median are estimated from
  static constexpr int32_t kAhead = 16;    // words fetched ahead while parting them

  static size_t at(int32_t i) { return static_cast<size_t>(i); }
  int32_t& slot(LazyArray<int32_t>& slots, int32_t row) const { return slots[at(row) * stride_ + offset_]; }

  // A leaf and its first block know each other; the block keeps its node as a negative link.
  int32_t owner(int32_t block) const { return -pool_[block].prev - 1; }
  void own(int32_t node, int32_t block) {
    nodes_[at(node)].dim = kLeaf;
    nodes_[at(node)].down = block;
    pool_[block].prev = -node - 1;
  }
  int32_t give_block(int32_t node) {
    const int32_t block = pool_.allocate();
    own(node, block);
    return block;
  }

  int32_t make_children(int32_t node) {
    int32_t children = free_pair_;
    if (children != 0) {
      free_pair_ = nodes_[at(children)].down;
    } else {
      children = used_nodes_;
      used_nodes_ += 2;
    }
    nodes_[at(children)] = {0.0f, kLeaf, 0, node};
    nodes_[at(children) + 1] = {0.0f, kLeaf, 0, node};
    nodes_[at(node)].down = children;
    return children;
  }

  // Takes an emptied leaf out: its sibling, whatever it is, moves up into the parent's place.
  void cut(int32_t node) {
    if (node == 0) {
      nodes_[0] = {0.0f, kLeaf, 0, 0};
      return;
    }
    const int32_t parent = nodes_[at(node)].up, sibling = node ^ 1, pair = node & ~1;
    const int32_t above = nodes_[at(parent)].up;
    nodes_[at(parent)] = nodes_[at(sibling)];
    nodes_[at(parent)].up = above;
    const int32_t down = nodes_[at(parent)].down;
    if (nodes_[at(parent)].dim == kLeaf) {
      own(parent, down);
    } else {
      nodes_[at(down)].up = parent;
      nodes_[at(down) + 1].up = parent;
    }
    nodes_[at(pair)].down = free_pair_;
    free_pair_ = pair;
  }

  // A value with `low` below it and `high` not.
  static float between(float low, float high) {
    const float middle = 0.5f * low + 0.5f * high;
    return middle > low && middle <= high ? middle : high;
  }

  // A component drawn from the broadest of n <= kSample words, or kLeaf when all words are equal.
  int32_t draw_dim(const float* const* words, int32_t n) {
    moments_.assign(2 * at(word_size_), 0.0f);
    float* __restrict sums = moments_.data();
    float* __restrict squares = sums + word_size_;
    const float* __restrict origin = words[0];  // differences: equal components have a spread of exactly 0
    for (int32_t i = 1; i < n; ++i) {
      const float* __restrict word = words[i];
      for (int32_t d = 0; d < word_size_; ++d) {
        const float x = word[d] - origin[d];
        sums[d] += x;
        squares[d] += x * x;
      }
    }
    float broadest[kBroadest];
    int32_t dims[kBroadest], kept = 0;
    const float share = 1.0f / static_cast<float>(n);
    for (int32_t d = 0; d < word_size_; ++d) {
      const float spread = squares[d] - sums[d] * sums[d] * share;
      if (kept == kBroadest && !(spread > broadest[kBroadest - 1])) continue;
      // A word that is not finite was not announced yet (see candidate_index.h) and is no ground to split on.
      if (!(spread > 0.0f && spread < std::numeric_limits<float>::infinity())) continue;
      int32_t i = kept < kBroadest ? kept++ : kBroadest - 1;
      for (; i > 0 && spread > broadest[i - 1]; --i) {
        broadest[i] = broadest[i - 1];
        dims[i] = dims[i - 1];
      }
      broadest[i] = spread;
      dims[i] = d;
    }
    return kept == 0 ? kLeaf : dims[random_.below(kept)];
  }

  // The split nearest the median that has values on both sides; `values` are not all equal.
  static float median_split(float* values, int32_t n) {
    std::sort(values, values + n);
    const int32_t middle = n / 2;
    for (int32_t off = 0;; ++off) {
      if (middle - off > 0 && values[middle - off - 1] < values[middle - off])
        return between(values[middle - off - 1], values[middle - off]);
      if (middle + off < n && values[middle + off - 1] < values[middle + off])
        return between(values[middle + off - 1], values[middle + off]);
    }
  }

  // A full leaf becomes two. A chain holds equal words: another equal one joins it, a different one is split off alone.
  void split_leaf(int32_t node, int32_t row, const float* word, uint32_t sketch, LazyArray<int32_t>& slots,
                  const WordSource* source) {
    const int32_t head = nodes_[at(node)].down;
    const Bucket old = pool_[head];
    const bool is_chain = old.next != 0;
    const float* words[kBucketEntries + 1];
    float values[kBucketEntries + 1];
    int32_t entries[kBucketEntries + 1], n = 0;
    fetched_.resize(at(kBucketEntries + 1) * at(rotated_size()));
    float* plain = fetched_.data() + at(kBucketEntries) * at(rotated_size());
    for (int32_t e = 0; e < kBucketEntries && !(is_chain && n == 1); ++e) {
      if (old.row_plus_one[e] == 0) continue;
      float* to = fetched_.data() + at(n) * at(rotated_size());
      source->fetch(old.row_plus_one[e] - 1, plain);
      rotate(plain, to);
      entries[n] = e;
      words[n++] = to;
    }
    words[n] = word;
    const int32_t dim = draw_dim(words, n + 1);
    if (dim == kLeaf) {  // all equal
      slot(slots, row) = chain_insert(pool_, head, row, sketch);
      return;
    }
    for (int32_t i = 0; i <= n; ++i) values[i] = words[i][dim];
    const float split = median_split(values, n + 1);
    nodes_[at(node)].dim = dim;
    nodes_[at(node)].split = split;
    const int32_t children = make_children(node);
    const bool above = word[dim] >= split, head_above = is_chain && !above;
    own(children + head_above, head);
    int32_t heads[2] = {head, head};
    heads[!head_above] = give_block(children + !head_above);
    if (!is_chain) {
      for (int32_t e = 0; e < kBucketEntries; ++e) pool_[head].row_plus_one[e] = 0;
      for (int32_t i = 0; i < n; ++i) {
        const int32_t moved = old.row_plus_one[entries[i]] - 1;
        slot(slots, moved) = chain_insert(pool_, heads[words[i][dim] >= split], moved, old.sketch[entries[i]]);
      }
    }
    slot(slots, row) = chain_insert(pool_, heads[above], row, sketch);
  }

  // Chooses a split of the words order[0, n) and parts them; returns how many lie below, 0 when all words are equal.
  int32_t part(int32_t* order, int32_t n, const float* words, Node& node) {
    auto word = [&](int32_t i) { return words + at(order[i]) * at(word_size_); };
    const float* sample[kSample] = {};
    float values[kSample];
    const int32_t sampled = std::min(n, kSample);
    for (int32_t i = 0; i < sampled; ++i) sample[i] = word(n <= kSample ? i : random_.below(n));
    node.dim = draw_dim(sample, sampled);
    if (node.dim != kLeaf) {
      for (int32_t i = 0; i < sampled; ++i) values[i] = sample[i][node.dim];
      node.split = median_split(values, sampled);
    } else {  // a sample of equal words: is there another one?
      const float* one = word(0);
      int32_t i = 1, d = 0;
      for (; i < n; ++i) {
        for (d = 0; d < word_size_ && word(i)[d] == one[d];) ++d;
        if (d < word_size_) break;
      }
      if (i == n) return 0;
      node.dim = d;
      node.split = between(std::min(one[d], word(i)[d]), std::max(one[d], word(i)[d]));
    }
    const int32_t dim = node.dim;
    const float split = node.split;
    int32_t below = 0;
    for (int32_t i = 0; i < n; ++i) {  // branchless: the comparison is a coin flip
      if (i + kAhead < n) __builtin_prefetch(words + at(order[i + kAhead]) * at(word_size_) + dim);
      const int32_t here = order[i];
      const bool left = words[at(here) * at(word_size_) + at(dim)] < split;
      order[i] = order[below];
      order[below] = here;
      below += left;
    }
    return below < n ? below : 0;  // n only for numbers near overflow
  }

  int32_t word_size_;
  int32_t leaf_;
  size_t stride_;
  size_t offset_;
  uint64_t seed_;
  SplitMix random_;
  Projection rotation_;
  LazyArray<Node> nodes_;
  BucketPool pool_;
  int32_t used_nodes_ = 2;  // 0 is the root, 1 unused, so that pairs start at even numbers
  int32_t free_pair_ = 0;
  std::vector<float> fetched_;  // words of a leaf that is split
  std::vector<float> moments_;
};

}  // namespace sparsam::SPARSAM_ISA
