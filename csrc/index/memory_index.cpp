#include "index/memory_index.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "support/interrupt.h"

namespace sparsam {
namespace {

// Cleared indexes of episodes that ended: making one draws its random directions, which takes longer than clearing.
class IndexPool {
 public:
  static constexpr size_t kMost = 64;

  static std::unique_ptr<CandidateIndex> take(const IndexSettings& settings, int32_t rows, int32_t width) {
    Shelf& s = shelf();
    {
      const std::lock_guard<std::mutex> hold(s.lock);
      const auto at = std::find_if(s.kept.rbegin(), s.kept.rend(), [&](const Kept& kept) {
        return kept.index->capacity() == rows && kept.index->word_size() == width && kept.settings == settings;
      });
      if (at != s.kept.rend()) {
        auto found = std::move(at->index);
        s.kept.erase(std::next(at).base());
        return found;
      }
    }
    return make_index(settings, rows, width, nullptr);
  }

  static void give(const IndexSettings& settings, std::unique_ptr<CandidateIndex> index) {
    index->clear();
    index->bind(nullptr);
    Shelf& s = shelf();
    Kept oldest;  // freed outside the lock
    const std::lock_guard<std::mutex> hold(s.lock);
    if (s.kept.size() == kMost) {
      oldest = std::move(s.kept.front());
      s.kept.erase(s.kept.begin());
    }
    s.kept.push_back({settings, std::move(index)});
  }

 private:
  struct Kept {
    IndexSettings settings;
    std::unique_ptr<CandidateIndex> index;
  };
  struct Shelf {
    std::mutex lock;
    std::vector<Kept> kept;
  };
  static Shelf& shelf() {
    static Shelf* s = new Shelf;  // lives for ever: states may outlast static destructors
    return *s;
  }
};

// Notes the words that are there and those that no index can place; returns the rows of all others.
template <class Words>
std::vector<int32_t> placed(const Words& words, const std::vector<int32_t>& rows, bool unit, RowSet& present,
                            std::set<int32_t>& unplaced) {
  std::vector<int32_t> out;
  for (const int32_t row : rows) {
    if (words.norm(row) == 0) continue;
    present.insert(row);
    if (has_place(words.norm(row), unit))
      out.push_back(row);
    else
      unplaced.insert(row);
  }
  return out;
}

}  // namespace

template <class T>
MemoryIndex<T>::MemoryIndex(Memory<T>& memory, const IndexSettings& settings, bool unit, bool by_distance)
    : memory_(memory),
      settings_(with_distance(settings, by_distance)),
      unit_(unit),
      words_(memory, memory.width(), unit),
      word_(size_t(memory.width())) {
  memory_.follow(true);
}

template <class T>
MemoryIndex<T>::~MemoryIndex() {
  discard();
  memory_.follow(false);
}

template <class T>
bool MemoryIndex<T>::makes_a_value() {
  if (!makes_a_value_) {
    auto some = IndexPool::take(settings_, memory_.rows(), memory_.width());
    makes_a_value_ = some->is_value();
    IndexPool::give(settings_, std::move(some));
  }
  return *makes_a_value_;
}

template <class T>
IndexSettings MemoryIndex<T>::own_settings() {
  if (!memory_.has_initial() || makes_a_value()) return settings_;
  IndexSettings scan;
  scan.kind = "scan";
  scan.by_distance = settings_.by_distance;
  return scan;
}

template <class T>
bool MemoryIndex<T>::wants_exact() const {
  if (too_short_) return true;
  if (memory_.has_initial()) return memory_.rows() <= settings_.exact_until;
  const bool coded = unit_ && searches_codes(memory_.width());
  const int32_t most = !coded                                ? settings_.exact_until
                       : steps_ < kStepsOfALongCall ? settings_.exact_until_short
                                                             : settings_.exact_until_coded;
  return memory_.written().size() <= size_t(most);
}

template <class T>
void MemoryIndex<T>::discard() {
  if (index_ == nullptr) return;
  IndexPool::give(own_settings(), std::move(index_));
  base_ = nullptr;
  hidden_ = {};
  hidden_count_ = 0;
  present_.reset();
  unplaced_.clear();
}

template <class T>
void MemoryIndex<T>::prepare(int threads, int64_t steps) {
  steps_ = steps;
  const std::vector<int32_t> stale = memory_.take_stale();
  too_short_ = steps < kStepsWorthBuilding && memory_.written().size() > kQuicklyBuilt && !memory_.has_initial() &&
               !makes_a_value();
  if (wants_exact()) return discard();
  if (index_ != nullptr && !index_->is_value() && (changed_ || !stale.empty())) discard();
  if (index_ == nullptr) return build(threads);
  try {
    take_in_all(stale);
    index_->start(steps, threads);
  } catch (...) {
    discard();
    throw;
  }
}

template <class T>
void MemoryIndex<T>::wrote(const int32_t* rows, int count) {
  if (index_ == nullptr && !wants_exact()) return build(1);
  if (index_ == nullptr) return;
  // An index that was left halfway would be out of step for good: a later call builds it anew.
  try {
    for (int i = 0; i < count; ++i) take_in(rows[i]);
    index_->settle(1);
  } catch (...) {
    discard();
    throw;
  }
}

template <class T>
void MemoryIndex<T>::take_in(int32_t row) {
  changed_ = true;
  const bool was_present = present_->contains(row) && unplaced_.erase(row) == 0;
  if (!memory_.is_written(row)) {  // taken back to before its first write
    if (base_ == nullptr) {
      if (was_present) index_->remove(row);
      return present_->erase(row);
    }
    if (base_->index->contains(row)) {
      if (index_->contains(row)) index_->remove(row);
      uint64_t& bits = hidden_[size_t(row) / 64];
      hidden_count_ -= int32_t(bits >> (row % 64) & 1);
      bits &= ~(uint64_t{1} << (row % 64));
      return present_->insert(row);
    }
  }
  if (memory_.norm(row) == 0) {
    if (was_present) take_out(row);
    return present_->erase(row);
  }
  if (!has_place(memory_.norm(row), unit_)) {
    if (was_present) take_out(row);
    unplaced_.insert(row);
    return present_->insert(row);
  }
  words_.fetch(row, word_.data());
  if (was_present && (base_ == nullptr || index_->contains(row))) return index_->update(row, word_.data());
  index_->insert(row, word_.data());
  if (was_present)
    hide(row);
  else
    present_->insert(row);
}

// From the index, or out of sight in the base.
template <class T>
void MemoryIndex<T>::take_out(int32_t row) {
  if (base_ == nullptr || index_->contains(row)) return index_->remove(row);
  hide(row);
}

template <class T>
void MemoryIndex<T>::take_in_all(const std::vector<int32_t>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % 64 == 63) check_interrupt();
    take_in(rows[i]);
  }
}

template <class T>
void MemoryIndex<T>::build(int threads) {
  std::vector<int32_t> written = memory_.written();
  std::sort(written.begin(), written.end());
  if (memory_.has_initial()) base_ = base_of(*memory_.initial(), threads);
  index_ = IndexPool::take(own_settings(), memory_.rows(), memory_.width());
  index_->bind(&words_);
  try {
    if (base_ != nullptr) {
      hidden_ = LazyArray<uint64_t>((size_t(memory_.rows()) + 63) / 64);
      present_.emplace(base_->present);
      unplaced_ = base_->unplaced;
      take_in_all(written);
    } else {
      present_.emplace(memory_.rows());
      unplaced_.clear();
      const std::vector<int32_t> rows = placed(memory_, written, unit_, *present_, unplaced_);
      index_->build(rows.data(), static_cast<int32_t>(rows.size()), threads);
    }
    index_->start(steps_, threads);
  } catch (...) {
    discard();
    throw;
  }
  changed_ = false;
}

template <class T>
std::shared_ptr<const IndexedBase> MemoryIndex<T>::base_of(const InitialWords<T>& initial, int threads) const {
  constexpr size_t kMost = 4;  // of different settings over the same words
  const std::lock_guard<std::mutex> hold(initial.lock);
  for (const auto& kept : initial.indexes) {
    auto made = std::static_pointer_cast<const IndexedBase>(kept);
    if (made->unit == unit_ && made->settings == settings_) return made;
  }
  const SeenWords<T, InitialWords<T>> words(initial, initial.width, unit_);
  auto made = std::make_shared<IndexedBase>(settings_, unit_, initial.rows);
  std::vector<int32_t> every(size_t(initial.rows));
  std::iota(every.begin(), every.end(), 0);
  const std::vector<int32_t> rows = placed(initial, every, unit_, made->present, made->unplaced);
  made->index = make_index(settings_, initial.rows, initial.width, &words);
  made->index->build(rows.data(), static_cast<int32_t>(rows.size()), threads);
  made->index->freeze(threads);
  made->index->bind(nullptr);
  if (initial.indexes.size() == kMost) initial.indexes.erase(initial.indexes.begin());
  initial.indexes.push_back(made);
  return made;
}

template <class T>
void MemoryIndex<T>::propose(const T* queries, int32_t width, const T* norms, int heads, int32_t* out,
                             int32_t stride, int32_t* counts) {
  const size_t size = word_.size();
  queries_.resize(size * size_t(heads));
  for (int h = 0; h < heads; ++h) {
    const bool usable = norms[h] > 0 && std::isfinite(static_cast<float>(norms[h]));
    const T scale = !usable ? T(0) : unit_ ? T(1) / norms[h] : T(1);
    for (size_t j = 0; j < size; ++j)
      queries_[size_t(h) * size + j] = usable ? static_cast<float>(queries[size_t(h) * width + j] * scale) : 0.0f;
  }
  index_->query_all(queries_.data(), heads, out, stride, counts, nullptr);
  if (base_ == nullptr) return;
  const CandidateIndex& base = *base_->index;
  const int32_t most = base.max_candidates();
  base_rows_.resize(size_t(most) * size_t(heads));
  base_counts_.resize(size_t(heads));
  base.query_all(queries_.data(), heads, base_rows_.data(), most, base_counts_.data(), hidden_.data());
  for (int h = 0; h < heads; ++h) {
    std::copy_n(base_rows_.data() + h * most, base_counts_[size_t(h)], out + h * stride + counts[h]);
    counts[h] += base_counts_[size_t(h)];
  }
}

template class MemoryIndex<float>;
template class MemoryIndex<double>;

}  // namespace sparsam
