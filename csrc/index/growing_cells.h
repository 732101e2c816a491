// Cells over a memory that goes on changing, for the length of one call of the engine.
//
// Centroids must follow the words, and then what is proposed depends on when they were chosen. A state has to stay a
// value all the same, so they are chosen from the words that a long call finds, in order of rows, and again when these
// have doubled: what is proposed depends on the state and on the call's input, never on earlier calls. A short call
// does without, because placing all words takes as long as some hundred scans of them.
//
// Words written since lie in a list of their own, `late`, all of which is read; their old codes are hidden. When there
// are many they are placed in the cells too, which keeps the centroids.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "index/candidate_index.h"
#include "index/cells.h"
#include "index/code_list.h"

namespace sparsam::SPARSAM_ISA {

class GrowingCells {
 public:
  static constexpr int32_t kFewestBehind = 16'384;  // changes before they are placed, at least

  // Over the words of `list`, which is put in the order of cells. No row is hidden, none is late.
  GrowingCells(CodeList& list, const WordSource& source, int32_t width, float reach, int threads)
      : late_(list.codes()), width_(width), chosen_for_(list.size()) {
    std::vector<int32_t> order(at(list.size())), cell_order;
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return list.rows()[at(a)] < list.rows()[at(b)]; });
    std::vector<float> words(order.size() * at(width));
    for (size_t i = 0; i < order.size(); ++i)
      source.fetch(list.rows()[at(order[i])], words.data() + i * at(width));
    cells_ = std::make_unique<Cells>(words.data(), list.size(), width, reach, threads, cell_order, kWords, &cell_,
                                     &distance_);
    for (int32_t& place : cell_order) place = order[at(place)];
    list.join(late_, cell_order);
    hidden_.assign(order.size() / 64 + 1, 0);
  }

  const Cells& cells() const { return *cells_; }
  CodeList& late() { return late_; }
  const CodeList& late() const { return late_; }
  const uint64_t* hidden() const { return hidden_.data(); }  // by place in the list
  bool is_hidden(int32_t place) const { return (hidden_[at(place) / 64] >> (place % 64) & 1) != 0; }
  int32_t hidden_count() const { return hidden_count_; }
  void hide(int32_t place) {
    hidden_[at(place) / 64] |= uint64_t{1} << (place % 64);
    ++hidden_count_;
  }

  // Have so many words come or changed that they should be placed? So many that other centroids are due?
  bool is_behind(int32_t listed) const { return late_.size() + hidden_count_ >= kFewestBehind + listed / 64; }
  bool is_outgrown(int32_t size) const { return size / 2 >= chosen_for_ || size < chosen_for_ / 4; }

  // Places the late words; no row is hidden or late afterwards.
  void catch_up(CodeList& list, const WordSource& source, int threads) {
    const int32_t before = list.size(), late = late_.size();
    std::vector<float> words(at(late) * at(width_));
    for (int32_t i = 0; i < late; ++i) source.fetch(late_.rows()[at(i)], words.data() + at(i) * at(width_));
    std::vector<int32_t> new_cell(at(late));
    std::vector<float> new_distance(at(late));
    cells_->assign(words.data(), late, threads, new_cell.data(), new_distance.data());
    std::vector<int32_t> from, cell, order;
    std::vector<float> distance;
    const size_t left = at(before - hidden_count_ + late);
    from.reserve(left), cell.reserve(left), distance.reserve(left);
    for (int32_t i = 0; i < before; ++i) {
      if (is_hidden(i)) continue;
      from.push_back(i), cell.push_back(cell_[at(i)]), distance.push_back(distance_[at(i)]);
    }
    for (int32_t i = 0; i < late; ++i)
      from.push_back(before + i), cell.push_back(new_cell[at(i)]), distance.push_back(new_distance[at(i)]);
    cells_->arrange(cell, distance, order);
    cell_.resize(left), distance_.resize(left);
    for (size_t i = 0; i < left; ++i) {
      cell_[i] = cell[at(order[i])], distance_[i] = distance[at(order[i])];
      order[i] = from[at(order[i])];
    }
    list.join(late_, order);
    late_.clear();
    hidden_.assign(left / 64 + 1, 0);
    hidden_count_ = 0;
  }

  // Puts what is late back into the list, in no order, and takes out what is hidden.
  void dissolve(CodeList& list) {
    std::vector<int32_t> order;
    for (int32_t i = 0; i < list.size(); ++i)
      if (!is_hidden(i)) order.push_back(i);
    for (int32_t i = 0; i < late_.size(); ++i) order.push_back(list.size() + i);
    list.join(late_, order);
  }

  size_t bytes() const {
    return cells_->bytes() + late_.bytes() + hidden_.size() * sizeof(uint64_t) +
           cell_.size() * (sizeof(int32_t) + sizeof(float));
  }

 private:
  static constexpr int32_t kWords = 1024;  // in a cell, on average
  static size_t at(int32_t i) { return static_cast<size_t>(i); }

  CodeList late_;
  int32_t width_;
  int32_t chosen_for_;  // words that there were then
  std::unique_ptr<Cells> cells_;
  std::vector<int32_t> cell_;     // by place in the list
  std::vector<float> distance_;   // from the centroid, likewise
  std::vector<uint64_t> hidden_;
  int32_t hidden_count_ = 0;
};

}  // namespace sparsam::SPARSAM_ISA
