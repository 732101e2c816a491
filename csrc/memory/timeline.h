// Versions of one memory. The buffer holds one version at a time; journals lead from each version to its neighbour on
// the way to that one, so that any version still referred to can be had back (Baker's rerooting of version arrays).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "memory/journal.h"
#include "index/memory_index.h"

namespace sparsam {

template <class T>
struct Timeline {
  Timeline(int32_t rows, int32_t width, std::shared_ptr<const InitialWords<T>> initial, int32_t k_links = 0,
           bool free_usage = false)
      : memory(rows, width, std::move(initial)), ring(rows) {
    if (k_links > 0) links = std::make_unique<Links<T>>(rows, k_links);
    if (free_usage) usage = std::make_unique<UsageHeap<T>>(rows);
  }
  ~Timeline() {
    if (links) links->recycle(memory.written());
  }
  int32_t k_links() const { return links ? links->k() : 0; }
  Memory<T> memory;
  Ring ring;
  std::unique_ptr<MemoryIndex<T>> index;  // null when the last search was exact
  std::unique_ptr<Links<T>> links;  // null for SAM
  std::unique_ptr<UsageHeap<T>> usage;  // null where the ring says which words are written anew
  std::atomic_flag busy;  // set while a call works on the buffer
};

// One version. `toward` is null for the version that the buffer holds; every other version points to the neighbour
// nearer to it. Nothing points away from the buffer's version, so versions that nobody refers to free themselves and
// their journals.
template <class T>
class Version : public std::enable_shared_from_this<Version<T>> {
 public:
  using Pointer = std::shared_ptr<Version>;

  explicit Version(std::shared_ptr<Timeline<T>> timeline) : timeline_(std::move(timeline)) {}
  ~Version() {  // a long chain must not recurse
    Pointer next = std::move(toward_);
    while (next && next.use_count() == 1) next = std::move(next->toward_);
  }

  Timeline<T>& timeline() const { return *timeline_; }
  const std::shared_ptr<Timeline<T>>& shared_timeline() const { return timeline_; }
  bool is_current() const { return toward_ == nullptr; }

  // Bring the buffer to this version.
  void make_current() {
    std::vector<Pointer> path;  // from here to the buffer's version
    for (Pointer at = this->shared_from_this(); at; at = at->toward_) path.push_back(at);
    for (size_t i = path.size(); i-- > 1;) path[i - 1]->step_from(*path[i]);
  }

  // The version after a sequence that began here, as `journal` records; this version must be current.
  Pointer advanced(std::shared_ptr<Journal<T>> journal) {
    auto after = std::make_shared<Version>(timeline_);
    if (journal) point_toward(after, std::move(journal), /*undo=*/true);
    return after;
  }

  // Note that a backward pass has undone every step of the edge `before` -> this one, which is current.
  void note_undone(const Pointer& before) {
    auto journal = before->journal_;
    before->toward_ = nullptr;
    before->journal_ = nullptr;
    point_toward(before, std::move(journal), /*undo=*/false);
  }

  const std::shared_ptr<Journal<T>>& journal() const { return journal_; }

 private:
  void point_toward(const Pointer& neighbour, std::shared_ptr<Journal<T>> journal, bool undo) {
    toward_ = neighbour;
    journal_ = std::move(journal);
    undo_ = undo;
  }
  void step_from(Version& current) {
    Memory<T>& memory = timeline_->memory;
    Ring& ring = timeline_->ring;
    Links<T>* links = timeline_->links.get();
    UsageHeap<T>* usage = timeline_->usage.get();
    if (undo_)
      for (int64_t step = journal_->size(); step-- > 0;) journal_->undo(memory, ring, links, usage, step);
    else
      for (int64_t step = 0; step < journal_->size(); ++step) journal_->redo(memory, ring, links, usage, step);
    current.point_toward(this->shared_from_this(), std::move(journal_), !undo_);
    toward_ = nullptr;
    journal_ = nullptr;
  }

  std::shared_ptr<Timeline<T>> timeline_;
  Pointer toward_;
  std::shared_ptr<Journal<T>> journal_;  // between this version and `toward_`
  bool undo_ = false;                    // undoing the journal leads from `toward_` here (else redoing does)
};

// A version of a new timeline with the same words, ring, links and usage, at the cost of what was written and accessed.
template <class T>
typename Version<T>::Pointer copied(Version<T>& version) {
  version.make_current();
  const Timeline<T>& from = version.timeline();
  auto to = std::make_shared<Timeline<T>>(from.memory.rows(), from.memory.width(), from.memory.initial(),
                                          from.k_links(), from.usage != nullptr);
  for (const int32_t row : from.memory.written()) {
    to->memory.mark_written(row);
    std::memcpy(to->memory.word(row), from.memory.word(row), sizeof(T) * from.memory.width());
    to->memory.norm(row) = from.memory.norm(row);
  }
  for (const int32_t row : from.ring.recency()) to->ring.move_to_back(row);
  if (from.links) copy_links(*from.links, *to->links, from.memory.written());
  if (from.usage)
    for (const auto& [usage, row] : from.usage->entries()) to->usage->set(row, usage);
  return std::make_shared<Version<T>>(std::move(to));
}

}  // namespace sparsam
