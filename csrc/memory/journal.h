// What a sequence did to one memory, step by step, so that it can be taken back newest first and applied again
// (section 3.4, supplementary figure 'bptt').
#pragma once

#include <cstdint>
#include <memory>

#include "memory/parts.h"

namespace sparsam {

// A journal for each part. It takes a fixed number of bytes per step, whatever N; links take theirs as they change.
template <class T>
class Journal {
 public:
  Journal(int64_t steps, const MemoryShape& shape, PartList<T, OwnedPart>& parts) {
    parts.each_with(journals_, [&]<class P>(P&, OwnedJournal<P>& journal) {
      journal = std::make_unique<typename P::Journal>(steps, shape);
    });
  }

  int64_t size() const { return size_; }
  int64_t applied() const { return applied_; }  // the memory has the first `applied` steps at present
  size_t bytes() {
    size_t total = 0;
    journals_.each([&](const auto& journal) { total += journal.bytes(); });
    return total;
  }

  WordJournal<T>& words() { return *journals_.words; }
  RingJournal& ring() { return *journals_.ring; }
  LinkJournal<T>* links() { return journals_.links.get(); }   // null for a memory without links
  UsageJournal<T>* usage() { return journals_.usage.get(); }  // null with the ring

  void begin_step(PartList<T, OwnedPart>& parts) {
    parts.each_with(journals_, [](auto& part, auto& journal) { journal->begin_step(part); });
    applied_ = ++size_;
  }
  void undo(PartList<T, OwnedPart>& parts, int64_t step) {
    parts.each_with(journals_, [&](auto& part, auto& journal) { journal->undo(part, step); });
    applied_ = step;
  }
  void redo(PartList<T, OwnedPart>& parts, int64_t step) {
    parts.each_with(journals_, [&](auto& part, auto& journal) { journal->redo(part, step); });
    applied_ = step + 1;
  }
  // A backward pass has undone this step part by part, since each is needed at another time.
  void note_undone(int64_t step) { applied_ = step; }

 private:
  int64_t size_ = 0, applied_ = 0;
  PartList<T, OwnedJournal> journals_;
};

}  // namespace sparsam
