// Versions of one memory. The buffer holds one version at a time; journals lead from each version to its neighbour on
// the way to that one, so that any version still referred to can be had back (Baker's rerooting of version arrays).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "memory/parts.h"

namespace sparsam {

template <class T>
struct Timeline {
  Timeline(const StoredShape& shape, std::shared_ptr<const InitialWords<T>> initial)
      : shape(shape),
        parts(make_parts<T>(shape, std::move(initial))),
        memory(*parts.words),
        ring(*parts.ring),
        links(parts.links.get()),
        usage(parts.usage.get()) {}

  const StoredShape shape;
  PartList<T, OwnedPart> parts;
  // The parts by name, for the steps.
  Memory<T>& memory;
  Ring& ring;
  Links<T>* const links;       // null for SAM
  UsageHeap<T>* const usage;  // null where the ring says which words are written anew
  std::unique_ptr<WordIndex> index;  // null when the last call asked for exact search
  std::atomic_flag busy;             // set while a call works on the buffer (Claim)
};

// One version. `toward` is null for the version that the buffer holds; every other version points to the neighbour
// nearer to it. Nothing points away from the buffer's version, so versions that nobody refers to free themselves and
// their journals. All but `shape` may be asked only while the timeline is claimed.
template <class T>
class Version : public std::enable_shared_from_this<Version<T>> {
 public:
  using Pointer = std::shared_ptr<Version>;

  explicit Version(std::shared_ptr<Timeline<T>> timeline) : shape_(timeline->shape), timeline_(std::move(timeline)) {}
  ~Version() {  // a long chain must not recurse
    Pointer next = std::move(toward_);
    while (next && next.use_count() == 1) next = std::move(next->toward_);
  }
  // A blank memory, or one that holds the given words.
  static Pointer fresh(const StoredShape& shape, std::shared_ptr<const InitialWords<T>> initial) {
    auto version = std::make_shared<Version>(std::make_shared<Timeline<T>>(shape, std::move(initial)));
    version->fresh_ = true;
    return version;
  }

  const StoredShape& shape() const { return shape_; }
  Timeline<T>& timeline() const { return *timeline_; }
  bool is_current() const { return toward_ == nullptr; }

  // May a sequence from here go without a journal? Then no other version shares the buffer, and this one can be made
  // anew.
  bool is_disposable() const { return fresh_ && timeline_.use_count() == 2; }  // one is the claim's
  // A sequence without a journal began here, and may have ended anywhere.
  void dispose() {
    const std::lock_guard<std::mutex> hold(making());
    initial_ = timeline_->memory.initial();
    timeline_ = nullptr;
  }

  // Bring the buffer to this version.
  void make_current() {
    std::vector<Pointer> path;  // from here to the buffer's version
    for (Pointer at = this->shared_from_this(); at; at = at->toward_) path.push_back(at);
    for (size_t i = path.size(); i-- > 1;) path[i - 1]->step_from(*path[i]);
  }

  // The version after a sequence that began here; this version must be current. Without a journal, a disposable one.
  Pointer advanced(std::shared_ptr<Journal<T>> journal) {
    auto after = std::make_shared<Version>(timeline_);
    if (journal)
      point_toward(after, std::move(journal), /*undo=*/true);
    else
      dispose();
    return after;
  }

  // Note that a backward pass has undone every step of the edge `before` -> this one, which is current.
  void note_undone(const Pointer& before) {
    auto journal = before->journal_;
    before->toward_ = nullptr;
    before->journal_ = nullptr;
    point_toward(before, std::move(journal), /*undo=*/false);
  }

 private:
  template <class>
  friend class Claim;

  static std::mutex& making() {
    static std::mutex lock;
    return lock;
  }
  // The timeline, a new one after `dispose`; `making` is locked.
  const std::shared_ptr<Timeline<T>>& renewed() {
    if (timeline_ == nullptr) timeline_ = std::make_shared<Timeline<T>>(shape_, std::exchange(initial_, nullptr));
    return timeline_;
  }
  void point_toward(const Pointer& neighbour, std::shared_ptr<Journal<T>> journal, bool undo) {
    toward_ = neighbour;
    journal_ = std::move(journal);
    undo_ = undo;
  }
  void step_from(Version& current) {
    if (undo_)
      for (int64_t step = journal_->size(); step-- > 0;) journal_->undo(timeline_->parts, step);
    else
      for (int64_t step = 0; step < journal_->size(); ++step) journal_->redo(timeline_->parts, step);
    current.point_toward(this->shared_from_this(), std::move(journal_), !undo_);
    toward_ = nullptr;
    journal_ = nullptr;
  }

  const StoredShape shape_;
  std::shared_ptr<Timeline<T>> timeline_;
  std::shared_ptr<const InitialWords<T>> initial_;  // after `dispose`
  bool fresh_ = false;                              // made blank, or from given words
  Pointer toward_;
  std::shared_ptr<Journal<T>> journal_;  // between this version and `toward_`
  bool undo_ = false;                    // undoing the journal leads from `toward_` here (else redoing does)
};

template <class T>
using Versions = std::vector<typename Version<T>::Pointer>;

// Claims buffers for one call, so that two threads with the same state get an error and not each other's words.
// A memory that occurs twice among the versions is claimed once.
template <class T>
class Claim {
 public:
  explicit Claim(const Versions<T>& versions) {
    const std::lock_guard<std::mutex> hold(Version<T>::making());
    for (const auto& version : versions) {
      const std::shared_ptr<Timeline<T>>& timeline = version->renewed();
      if (std::find(claimed_.begin(), claimed_.end(), timeline) != claimed_.end()) continue;
      if (timeline->busy.test_and_set()) {
        release();
        throw std::runtime_error("state: its memory is in use by another thread; give each thread a clone()");
      }
      claimed_.push_back(timeline);
    }
  }
  explicit Claim(Version<T>& version) : Claim(Versions<T>{version.shared_from_this()}) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() { release(); }

 private:
  void release() {
    for (const auto& timeline : claimed_) timeline->busy.clear();
    claimed_.clear();
  }
  std::vector<std::shared_ptr<Timeline<T>>> claimed_;
};

// A version of a new timeline with the same contents, at the cost of what was written and accessed.
template <class T>
typename Version<T>::Pointer copied(Version<T>& version) {
  version.make_current();
  Timeline<T>& from = version.timeline();
  auto to = std::make_shared<Timeline<T>>(from.shape, from.memory.initial());
  from.parts.each_with(to->parts, [](auto& part, auto& copy) { copy->copy_from(part); });
  return std::make_shared<Version<T>>(std::move(to));
}

// A version of a new timeline that holds what was saved; std::invalid_argument names what cannot be.
template <class T>
typename Version<T>::Pointer restored(const StoredShape& shape, std::shared_ptr<const InitialWords<T>> initial,
                                      const SavedMemory<T>& saved, const WordNorm<T>& norm) {
  auto timeline = std::make_shared<Timeline<T>>(shape, std::move(initial));
  if (!timeline->links && !(saved.link_ids.empty() && saved.link_columns.empty() && saved.link_weights.empty()))
    throw std::invalid_argument("link_ids: expected none, since this memory has no links");
  if (!timeline->usage && !(saved.usage_rows.empty() && saved.usage.empty()))
    throw std::invalid_argument("usage_rows: expected none, since this memory has a ring and no usage");
  timeline->parts.each([&](auto& part) { part.restore(saved, norm); });
  return std::make_shared<Version<T>>(std::move(timeline));
}

}  // namespace sparsam
