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

#include <memory>
#include <utility>

#include "memory/link_journal.h"
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

}  // namespace sparsam
