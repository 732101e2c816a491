// Reads a list of codes for queries: all of it, or some parts, offering every word to the best so far.
#pragma once

#include <algorithm>
#include <limits>

#include "index/candidate_index.h"
#include "index/cells.h"
#include "index/code_list.h"

namespace sparsam::SPARSAM_ISA {

class CodeReader {
 public:
  using Head = BestCodes;

  // Words whose bit is set in `hidden_rows` (by row) or `hidden_places` (by place) are passed over; either may be null.
  CodeReader(const CodeList& list, const uint64_t* hidden_rows, const uint64_t* hidden_places)
      : list_(list), hidden_rows_(hidden_rows), hidden_places_(hidden_places) {}

  static bool is_set(const uint64_t* bits, int32_t i) {
    return bits != nullptr && (bits[static_cast<size_t>(i) / 64] >> (i % 64) & 1) != 0;
  }

  // Offers the words of one in `every` stretches of blocks to the heads; shorter stretches where not all are asked for.
  // The heads' queries in 8 bits are in scratch.bytes, and scratch.least has room for a number of each.
  void scan(Head* best, int heads, CandidateIndex::Scratch& scratch, int32_t every) const {
    const NoteScores note = note_scores();
    const int32_t blocks = list_.blocks(), stretch = every == 1 ? kAtOnce : 1;
    int32_t* least = scratch.least.data();
    for (int32_t from = 0; from < blocks; from += stretch * every) {
      const int32_t to = std::min(blocks, from + stretch);
      CodeList::Bounds b = list_.bounds(from);
      for (int32_t block = from + 1; block < to; ++block) b.include(list_.bounds(block));
      for (int h = 0; h < heads; ++h) least[h] = least_sum(best[h], b);
      note(list_.quarters(4 * from, 4 * (to - from)), heads, scratch.bytes.data(), least, best);
      for (int h = 0; h < heads; ++h)
        if (best[h].noted_count > Head::kNoted - kAtOnce * kBlockWords || !best[h].has_bound()) take_noted(best[h]);
    }
    for (int h = 0; h < heads; ++h) take_noted(best[h]);
  }

  // Offers the words of some parts to one head, whose query in 8 bits is `bytes`.
  void read(Head& head, const Cells::Part* parts, int32_t count, const int8_t* bytes) const {
    constexpr int32_t kAhead = 6;  // parts on their way from memory
    const NoteScores note = note_scores();
    for (int32_t i = 0; i < count; ++i) {
      if (i + kAhead < count) list_.prefetch(parts[i + kAhead].begin, parts[i + kAhead].end);
      const int32_t last = (parts[i].end + kQuarterWords - 1) / kQuarterWords;
      for (int32_t quarter = parts[i].begin / kQuarterWords; quarter < last; quarter += 4 * kAtOnce) {
        const int32_t before = head.noted_count, quarters = std::min(4 * kAtOnce, last - quarter);
        CodeList::Bounds b = list_.bounds(quarter / 4);
        for (int32_t block = quarter / 4 + 1; block <= (quarter + quarters - 1) / 4; ++block) b.include(list_.bounds(block));
        const int32_t least = least_sum(head, b);
        note(list_.quarters(quarter, quarters), 1, bytes, &least, &head);
        drop_others(head, before, parts[i]);
        if (head.noted_count > Head::kNoted - kAtOnce * kBlockWords) take_noted(head);
      }
    }
    take_noted(head);
  }

 private:
  static constexpr int32_t kAtOnce = 16;  // blocks that share a bound

  // The first and the last quarter of a part have words of others, which were noted since there were `before`.
  static void drop_others(Head& head, int32_t before, const Cells::Part& part) {
    int32_t end = head.noted_count, begin = before;
    while (end > before && head.noted_places[end - 1] >= part.end) --end;
    while (begin < end && head.noted_places[begin] < part.begin) ++begin;
    if (begin > before) {
      std::copy(head.noted_places + begin, head.noted_places + end, head.noted_places + before);
      std::copy(head.noted_scores + begin, head.noted_scores + end, head.noted_scores + before);
    }
    head.noted_count = before + end - begin;
  }

  // The least sum with which a word of a block could be taken.
  static int32_t least_sum(const Head& head, const CodeList::Bounds& b) {
    const float wanted = head.worst() - b.most_bias;
    const float over = wanted > 0.0f ? b.over_most : b.over_least;
    if (over == 0.0f) return std::numeric_limits<int32_t>::min() + 1;
    // Rounding must not lose a word: 2 is more than it can amount to in sums of 16 bits.
    const float sum = (wanted * over - head.base) * head.over_unit - 2.0f;
    return static_cast<int32_t>(std::min(std::max(sum, -1e5f), 1e5f));
  }

  void take_noted(Head& head) const {
    const int32_t* rows = list_.rows().data();
    for (int32_t i = 0; i < head.noted_count; ++i) __builtin_prefetch(rows + head.noted_places[i]);
    for (int32_t i = 0; i < head.noted_count; ++i) {
      const int32_t place = head.noted_places[i];
      if (place >= list_.size()) break;  // what lies beyond the last word
      const float score = head.noted_scores[i];
      if (head.would_take(score, rows[place]) && !is_set(hidden_rows_, rows[place]) && !is_set(hidden_places_, place))
        head.take(score, rows[place]);
    }
    head.noted_count = 0;
  }

  const CodeList& list_;
  const uint64_t* hidden_rows_;
  const uint64_t* hidden_places_;
};

}  // namespace sparsam::SPARSAM_ISA
