// A forest of randomized k-d trees, searched best bin first with one budget over all trees.
//
// Silpa-Anan and Hartley 2008, 'Optimised KD-trees for fast image descriptor matching'; Muja and Lowe 2014 (FLANN).
// Each tree splits on a component drawn from those of largest variance; a branch not taken goes into a heap, common to
// all trees, under a bound on its squared distance. `checks` is the budget: so many leaves are visited, and at most so
// many words proposed, the nearest by sketch among those in the leaves (a leaf is one cache line, ann_bucket.h).
//
// Words enter and leave one by one: a leaf that overflows is split, a leaf that empties takes its parent with it, so
// no leaf is empty and a search is never longer than its budget. Equal words cannot be split and form a chain of
// blocks, of which a visit reads the first few.
//
// Memory per indexed word and tree: 4 bytes for its place, and a leaf (64 bytes) and two nodes (32 bytes) for every
// 4 to 5 words, about 26 bytes in all; nothing for rows that are not indexed.
#pragma once

#include <limits>

#include "ann_bucket.h"
#include "ann_heap.h"
#include "ann_parallel.h"
#include "ann_projection.h"

namespace sparsam {

struct KDForestSettings {
  int32_t trees = 4;
  int32_t checks = 32;
  int32_t leaf = kBucketEntries;  // words in a leaf before it is split
  uint64_t seed = 0;
};

// One tree: the shape, and which rows lie in which leaf.
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
        nodes_(2 * at(capacity) + 4), pool_(1, capacity + 1) {
    nodes_[0].dim = kLeaf;
  }

  const Node* nodes() const { return nodes_.data(); }
  const BucketPool& pool() const { return pool_; }

  int32_t descend(const float* word, int32_t node = 0) const {
    while (nodes_[at(node)].dim != kLeaf) {
      const Node& n = nodes_[at(node)];
      node = n.down + (word[n.dim] >= n.split);
    }
    return node;
  }

  // `slots` is where all trees keep the rows' slots: this one's at row * stride + offset.
  void insert(int32_t node, int32_t row, const float* word, uint32_t sketch, LazyArray<int32_t>& slots,
              const WordSource* source) {
    const int32_t head = nodes_[at(node)].down;
    if (head == 0) {
      slot(slots, row) = chain_insert(pool_, give_block(node), row, sketch);
    } else if (pool_[head].next == 0 && pool_[head].count() < leaf_) {
      slot(slots, row) = chain_insert(pool_, head, row, sketch);
    } else if (pool_[head].next == 0) {
      split_full(node, row, word, sketch, slots, source);
    } else {
      split_chain(node, row, word, sketch, slots, source);
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

  // Everything from scratch: words[i] (word_size floats each) is the word of rows[i].
  void build(const int32_t* rows, const float* words, const uint32_t* sketches, int32_t n, LazyArray<int32_t>& slots) {
    std::vector<int32_t> order(at(n));
    for (int32_t i = 0; i < n; ++i) order[at(i)] = i;
    struct Range {
      int32_t node, begin, end;
    };
    std::vector<Range> todo;
    if (n > 0) todo.push_back({0, 0, n});
    while (!todo.empty()) {
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

  void copy_from(const KDTree& other) {
    std::memcpy(nodes_.data(), other.nodes_.data(), at(other.used_nodes_) * sizeof(Node));
    pool_.copy_from(other.pool_, 0);
    used_nodes_ = other.used_nodes_;
    free_pair_ = other.free_pair_;
    random_ = other.random_;
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

  void split_full(int32_t node, int32_t row, const float* word, uint32_t sketch, LazyArray<int32_t>& slots,
                  const WordSource* source) {
    const int32_t head = nodes_[at(node)].down;
    const Bucket old = pool_[head];
    const float* words[kBucketEntries + 1];
    float values[kBucketEntries + 1];
    int32_t entries[kBucketEntries + 1], n = 0;
    fetched_.resize(at(kBucketEntries) * at(word_size_));
    for (int32_t e = 0; e < kBucketEntries; ++e) {
      if (old.row_plus_one[e] == 0) continue;
      float* to = fetched_.data() + at(n) * at(word_size_);
      source->fetch(old.row_plus_one[e] - 1, to);
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
    for (int32_t e = 0; e < kBucketEntries; ++e) pool_[head].row_plus_one[e] = 0;
    own(children, head);
    const int32_t heads[2] = {head, give_block(children + 1)};
    for (int32_t i = 0; i < n; ++i) {
      const int32_t moved = old.row_plus_one[entries[i]] - 1;
      slot(slots, moved) = chain_insert(pool_, heads[words[i][dim] >= split], moved, old.sketch[entries[i]]);
    }
    slot(slots, row) = chain_insert(pool_, heads[word[dim] >= split], row, sketch);
  }

  // A chain holds equal words: another equal one joins it, a different one is split off alone.
  void split_chain(int32_t node, int32_t row, const float* word, uint32_t sketch, LazyArray<int32_t>& slots,
                   const WordSource* source) {
    const int32_t head = nodes_[at(node)].down;
    fetched_.resize(at(kBucketEntries) * at(word_size_));
    int32_t entry = 0;
    while (pool_[head].row_plus_one[entry] == 0) ++entry;
    source->fetch(pool_[head].row_plus_one[entry] - 1, fetched_.data());
    const float* words[2] = {fetched_.data(), word};
    const int32_t dim = draw_dim(words, 2);
    if (dim == kLeaf) {
      slot(slots, row) = chain_insert(pool_, head, row, sketch);
      return;
    }
    const bool above = word[dim] > words[0][dim];
    nodes_[at(node)].dim = dim;
    nodes_[at(node)].split = above ? between(words[0][dim], word[dim]) : between(word[dim], words[0][dim]);
    const int32_t children = make_children(node);
    own(children + !above, head);
    slot(slots, row) = chain_insert(pool_, give_block(children + above), row, sketch);
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
    return below;
  }

  int32_t word_size_;
  int32_t leaf_;
  size_t stride_;
  size_t offset_;
  uint64_t seed_;
  SplitMix random_;
  LazyArray<Node> nodes_;
  BucketPool pool_;
  int32_t used_nodes_ = 2;  // 0 is the root, 1 unused, so that pairs start at even numbers
  int32_t free_pair_ = 0;
  std::vector<float> fetched_;  // words of a leaf that is split
  std::vector<float> moments_;
};

class KDForest final : public CandidateIndex {
 public:
  static constexpr int32_t kMaxTrees = 32;

  KDForest(int32_t capacity, int32_t word_size, const KDForestSettings& settings, const WordSource* source = nullptr)
      : CandidateIndex(capacity, word_size), settings_(checked(settings)) {
    source_ = source;
    projection_ = Projection(word_size, kSketchBits, settings_.seed);
    slots_ = LazyArray<int32_t>(at(capacity) * at(settings_.trees));
    SplitMix seeds(settings_.seed);
    for (int32_t t = 0; t < settings_.trees; ++t)
      trees_.emplace_back(capacity, word_size, settings_.leaf, settings_.trees, t, seeds.next());
  }

  void insert(int32_t row, const float* word) override {
    check_row(row);
    check_absent(row, contains(row));
    check_word(row, word);
    check_source();
    int32_t leaves[kMaxTrees];
    descend(word, leaves);
    const uint32_t sketch = sketch_of(word);
    for (int32_t t = 0; t < settings_.trees; ++t) trees_[at(t)].insert(leaves[t], row, word, sketch, slots_, source_);
    if (++size_ == kDense) expect_dense();
    count_insertion();
  }

  void remove(int32_t row) override {
    check_row(row);
    check_present(row, contains(row));
    for (const KDTree& tree : trees_) tree.prefetch_block(row, slots_);
    for (KDTree& tree : trees_) tree.remove(row, slots_);
    --size_;
  }

  void update(int32_t row, const float* word) override {
    check_row(row);
    check_present(row, contains(row));
    check_word(row, word);
    check_source();
    for (const KDTree& tree : trees_) tree.prefetch_block(row, slots_);
    int32_t leaves[kMaxTrees];
    descend(word, leaves);
    const uint32_t sketch = sketch_of(word);
    for (int32_t t = 0; t < settings_.trees; ++t) {
      KDTree& tree = trees_[at(t)];
      if (tree.keep(row, leaves[t], sketch, slots_)) continue;
      tree.remove(row, slots_);  // may move the leaf just found, so it is looked up again
      tree.insert(tree.descend(word), row, word, sketch, slots_, source_);
    }
    count_insertion();
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
  }

  int32_t max_candidates() const override { return std::min(settings_.checks, capacity_); }

  int32_t query(const float* query, Scratch& scratch, int32_t* out) const override {
    if (size_ <= max_candidates()) {
      int32_t n = 0;
      trees_[0].each_row([&](int32_t row) { out[n++] = row; });
      return n;
    }
    auto& heap = scratch.heap;
    heap.clear();
    const int32_t budget = settings_.checks;
    scratch.visits.resize(at(budget));
    const uint32_t sketch = sketch_of(query);
    int32_t visits = 0, lanes = std::min(settings_.trees, budget);
    Branch lane[kMaxTrees];
    for (int32_t t = 0; t < lanes; ++t) lane[t] = {0.0f, 0, t};
    for (;;) {
      descend_lanes(query, lane, lanes, heap);
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
    const size_t room = at(visits) * kScanned + 1;
    if (scratch.found.size() < room) scratch.found.resize(room);
    Scratch::Found* end = scratch.found.data();
    for (int32_t i = 0; i < visits; ++i)
      end = scan_chain(trees_[at(scratch.visits[at(i)].table)].pool(), scratch.visits[at(i)].block, sketch, 0, end);
    return propose_nearest(scratch, static_cast<size_t>(end - scratch.found.data()), max_candidates(), out);
  }

  void rows(std::vector<int32_t>& out) const override {
    trees_[0].each_row([&](int32_t row) { out.push_back(row); });
  }

  void build(const int32_t* rows, int32_t n, int threads) override {
    check_source();
    clear();
    for (int32_t i = 0; i < n; ++i) {
      check_row(rows[i]);
      check_absent(rows[i], contains(rows[i]));
      slots_[at(rows[i]) * at(settings_.trees)] = -1;
    }
    LazyArray<float> words(at(n) * at(word_size_));
    if (n >= kDense) words.expect_dense();
    std::vector<uint32_t> sketches(at(n));
    try {
      parallel_parts(n, threads, [&](int32_t begin, int32_t end) {
        for (int32_t i = begin; i < end; ++i) {
          float* word = words.data() + at(i) * at(word_size_);
          source_->fetch(rows[i], word);
          check_word(rows[i], word);
          sketches[at(i)] = sketch_of(word);
        }
      });
    } catch (...) {
      clear();
      throw;
    }
    if (n >= kDense) expect_dense();
    parallel_parts(settings_.trees, threads, [&](int32_t begin, int32_t end) {
      for (int32_t t = begin; t < end; ++t) trees_[at(t)].build(rows, words.data(), sketches.data(), n, slots_);
    });
    size_ = n;
  }

  std::unique_ptr<CandidateIndex> clone() const override {
    auto copy = std::make_unique<KDForest>(capacity_, word_size_, settings_, source_);
    trees_[0].each_row([&](int32_t row) {
      for (size_t t = 0; t < trees_.size(); ++t)
        copy->slots_[at(row) * trees_.size() + t] = slots_[at(row) * trees_.size() + t];
    });
    for (size_t t = 0; t < trees_.size(); ++t) copy->trees_[t].copy_from(trees_[t]);
    copy->size_ = size_;
    copy->insertions_ = insertions_;
    copy->rebuilds_ = rebuilds_;
    return copy;
  }

  std::unique_ptr<CandidateIndex> fresh() const override {
    return std::make_unique<KDForest>(capacity_, word_size_, settings_, source_);
  }

  size_t bytes() const override {
    size_t sum = at(size_) * trees_.size() * sizeof(int32_t) + projection_.bytes();
    for (const KDTree& tree : trees_) sum += tree.bytes();
    return sum;
  }

  const KDForestSettings& settings() const { return settings_; }

 private:
  static constexpr int32_t kSketchBits = 32;
  static constexpr int32_t kLanes = 8;  // best bins opened at a time, so that their cache misses overlap

  static size_t at(int32_t i) { return static_cast<size_t>(i); }

  static KDForestSettings checked(const KDForestSettings& s) {
    auto within = [](const char* name, int32_t value, int32_t low, int32_t high) {
      if (value < low || value > high)
        throw std::invalid_argument(std::string(name) + " must be in " + std::to_string(low) + ".." +
                                    std::to_string(high) + ", got " + std::to_string(value));
    };
    within("trees", s.trees, 1, kMaxTrees);
    within("checks", s.checks, 1, std::numeric_limits<int32_t>::max());
    within("leaf", s.leaf, 1, kBucketEntries);
    return s;
  }

  void expect_dense() {
    slots_.expect_dense();
    for (KDTree& tree : trees_) tree.expect_dense();
  }

  uint32_t sketch_of(const float* word) const {
    float projections[kSketchBits];
    projection_.project(word, projections);
    return Projection::signs(projections, kSketchBits);
  }

  // All trees one level at a time: their cache misses overlap.
  void descend(const float* word, int32_t* leaves) const {
    std::fill(leaves, leaves + settings_.trees, 0);
    for (bool moving = true; moving;) {
      moving = false;
      for (int32_t t = 0; t < settings_.trees; ++t) {
        const KDTree::Node& n = trees_[at(t)].nodes()[leaves[t]];
        if (n.dim == KDTree::kLeaf) continue;
        leaves[t] = n.down + (word[n.dim] >= n.split);
        __builtin_prefetch(trees_[at(t)].nodes() + leaves[t]);
        moving = true;
      }
    }
  }

  // From each lane's node to a leaf, the branches not taken into the heap; again level by level.
  void descend_lanes(const float* query, Branch* lane, int32_t lanes, std::vector<Branch>& heap) const {
    for (bool moving = true; moving;) {
      moving = false;
      for (int32_t i = 0; i < lanes; ++i) {
        const KDTree::Node* nodes = trees_[at(lane[i].tag)].nodes();
        const KDTree::Node& n = nodes[lane[i].where];
        if (n.dim == KDTree::kLeaf) continue;
        const float gap = query[n.dim] - n.split;
        const int32_t near = n.down + (gap >= 0.0f);
        heap_push(heap, {lane[i].key + gap * gap, near ^ 1, lane[i].tag});
        lane[i].where = near;
        __builtin_prefetch(nodes + near);
        moving = true;
      }
    }
  }

  KDForestSettings settings_;
  Projection projection_;
  LazyArray<int32_t> slots_;
  std::vector<KDTree> trees_;
  int32_t size_ = 0;
};

}  // namespace sparsam
