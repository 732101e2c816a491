// What a sequence did to one memory, step by step, so that it can be taken back newest first and applied again
// (section 3.4, supplementary figure 'bptt').
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "memory/links.h"
#include "memory/words.h"
#include "support/recycled.h"
#include "memory/ring.h"
#include "memory/usage_heap.h"

namespace sparsam {

// Fixed room per step: the old words of at most R(K+1) rows and at most R(2K+1) moves of the ring, independent of N.
// Undoing a step swaps the old words with those in the memory, so the same journal then holds what redoing needs.
template <class T>
class Journal {
 public:
  // `max_changes` of usage: 0 with the ring, which then has `max_moves` of its own.
  Journal(int64_t steps, int32_t max_writes, int32_t max_moves, int32_t width, int32_t k_links = 0,
          int32_t max_changes = 0)
      : steps_(steps),
        max_writes_(max_writes),
        max_moves_(max_moves),
        width_(width),
        heads_(recycled_array<Head>(steps)),
        rows_(recycled_array<int32_t>(steps * max_writes)),
        words_(recycled_array<T>(steps * max_writes * width)),
        norms_(recycled_array<T>(steps * max_writes)),
        moves_(recycled_array<Move>(steps * max_moves)),
        links_(k_links > 0 ? new LinkJournal<T>(steps, k_links) : nullptr),
        usage_bytes_(max_changes > 0 ? steps * UsageJournal<T>::bytes_per_step(max_changes) : 0),
        usage_(max_changes > 0 ? new UsageJournal<T>(steps, max_changes) : nullptr) {}

  int64_t size() const { return size_; }
  int64_t applied() const { return applied_; }  // steps that the memory has at present: the first so many
  static size_t bytes_per_step(int32_t max_writes, int32_t max_moves, int32_t width) {
    return sizeof(Head) + max_writes * (sizeof(int32_t) + sizeof(T) * (width + 1)) + max_moves * sizeof(Move);
  }
  size_t bytes() const {
    return steps_ * bytes_per_step(max_writes_, max_moves_, width_) + (links_ ? links_->used_bytes() : 0) + usage_bytes_;
  }
  LinkJournal<T>* links() { return links_.get(); }   // null for a memory without links
  UsageJournal<T>* usage() { return usage_.get(); }  // null with the ring

  // Recording: begin_step, then any number of save (before a row is written), then any number of moved.
  void begin_step(const Memory<T>& memory) {
    heads_[size_++] = {0, 0, static_cast<int32_t>(memory.written().size())};
    applied_ = size_;
    if (links_) links_->begin_step();
    if (usage_) usage_->begin_step();
  }
  void save(const Memory<T>& memory, int32_t row) {
    Head& head = heads_[size_ - 1];
    const int64_t at = (size_ - 1) * max_writes_ + head.writes++;
    rows_[at] = row;
    std::memcpy(words_.get() + at * width_, memory.word(row), sizeof(T) * width_);
    norms_[at] = memory.norm(row);
  }
  void moved(int32_t row, int32_t before) {
    Head& head = heads_[size_ - 1];
    moves_[(size_ - 1) * max_moves_ + head.moves++] = {row, before};
  }

  // Rows written in a step, in the order in which they were saved.
  int32_t writes(int64_t step) const { return heads_[step].writes; }
  const int32_t* rows(int64_t step) const { return rows_.get() + step * max_writes_; }

  void undo_ring(Ring& ring, int64_t step) const {
    const Move* moves = moves_.get() + step * max_moves_;
    for (int32_t i = heads_[step].moves; i-- > 0;) ring.undo(moves[i].row, moves[i].before);
  }
  void undo_words(Memory<T>& memory, int64_t step) {
    for (int32_t i = heads_[step].writes; i-- > 0;) swap_word(memory, step * max_writes_ + i);
    memory.unmark_to(heads_[step].written_before);
    applied_ = step;
  }
  void undo(Memory<T>& memory, Ring& ring, Links<T>* links, UsageHeap<T>* usage, int64_t step) {
    undo_ring(ring, step);
    if (usage_) usage_->undo(*usage, step);
    if (links_) links_->undo(*links, step);
    undo_words(memory, step);
  }
  void redo(Memory<T>& memory, Ring& ring, Links<T>* links, UsageHeap<T>* usage, int64_t step) {
    if (links_) links_->redo(*links, step);
    if (usage_) usage_->redo(*usage, step);
    for (int32_t i = 0; i < heads_[step].writes; ++i) {
      memory.mark_written(rows_[step * max_writes_ + i]);
      swap_word(memory, step * max_writes_ + i);
    }
    const Move* moves = moves_.get() + step * max_moves_;
    for (int32_t i = 0; i < heads_[step].moves; ++i) ring.move_to_back(moves[i].row);
    applied_ = step + 1;
  }

 private:
  struct Head {
    int32_t writes, moves, written_before;
  };
  struct Move {
    int32_t row, before;
  };
  void swap_word(Memory<T>& memory, int64_t at) {
    T* word = memory.word(rows_[at]);
    T* old = words_.get() + at * width_;
    for (int32_t j = 0; j < width_; ++j) std::swap(word[j], old[j]);
    std::swap(memory.norm(rows_[at]), norms_[at]);
    memory.note_swapped(rows_[at]);
  }

  int64_t steps_, size_ = 0, applied_ = 0;
  int32_t max_writes_, max_moves_, width_;
  Recycled<Head> heads_;
  Recycled<int32_t> rows_;
  Recycled<T> words_;
  Recycled<T> norms_;
  Recycled<Move> moves_;
  std::unique_ptr<LinkJournal<T>> links_;
  size_t usage_bytes_;
  std::unique_ptr<UsageJournal<T>> usage_;
};

}  // namespace sparsam
