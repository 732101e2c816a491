// The parts of a memory: words, ring, links and usage. This is the only list of them; journals, copies, export and
// restore go over it.
//
// A part P has
//   P::Journal(steps, shape)          what a sequence changed, with begin_step(part), undo(part, step),
//                                     redo(part, step) and bytes(); its own functions record a change
//   copy_from(other)                  into a blank part
//   save_to(saved), restore(saved)    its arrays in `SavedMemory`; restore checks all of them, and needs a blank part
//   ~P()                              hands its arrays, blank again, to the next memory of this size
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "memory/links.h"
#include "memory/ring.h"
#include "memory/usage_heap.h"
#include "memory/words.h"

namespace sparsam {

// One thing per part, null for a part that a memory does not have. Later parts may look at earlier ones.
template <class T, template <class> class Of>
struct PartList {
  Of<Memory<T>> words;
  Of<Ring> ring;
  Of<Links<T>> links;      // with K_L > 0
  Of<UsageHeap<T>> usage;  // with free usage

  template <template <class> class Other, class F>
  void each_with(PartList<T, Other>& other, F&& f) {
    if (words) f(*words, other.words);
    if (ring) f(*ring, other.ring);
    if (links) f(*links, other.links);
    if (usage) f(*usage, other.usage);
  }
  template <class F>
  void each(F&& f) {
    each_with(*this, [&](auto& part, auto&) { f(part); });
  }
};

template <class P>
using OwnedPart = std::unique_ptr<P>;
template <class P>
using OwnedJournal = std::unique_ptr<typename P::Journal>;

template <class T>
PartList<T, OwnedPart> make_parts(const StoredShape& shape, std::shared_ptr<const InitialWords<T>> initial) {
  PartList<T, OwnedPart> parts;
  parts.words = std::make_unique<Memory<T>>(shape.rows, shape.width, std::move(initial));
  parts.ring = std::make_unique<Ring>(shape.rows);
  if (shape.k_links > 0)
    parts.links = std::make_unique<Links<T>>(shape.rows, shape.k_links, parts.words->written());
  if (shape.free_usage) parts.usage = std::make_unique<UsageHeap<T>>(shape.rows);
  return parts;
}

// What a sequence did to one memory, step by step, so that it can be taken back newest first and applied again (section
// 3.4, supplementary figure 'bptt'): a journal for each part. It takes a fixed number of bytes per step, whatever N;
// links take theirs as they change.
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
