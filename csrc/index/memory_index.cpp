#include "index/memory_index.h"

#include <cmath>
#include <stdexcept>
#include <string>

#include "index/overlay.h"

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
      for (size_t i = s.kept.size(); i-- > 0;) {
        const CandidateIndex& index = *s.kept[i].index;
        if (index.capacity() != rows || index.word_size() != width || !(s.kept[i].settings == settings)) continue;
        auto found = std::move(s.kept[i].index);
        s.kept.erase(s.kept.begin() + static_cast<std::ptrdiff_t>(i));
        return found;
      }
    }
    return make_index(settings, rows, width, nullptr);
  }

  static void give(const IndexSettings& settings, std::unique_ptr<CandidateIndex> index) {
    index->clear();
    index->bind(nullptr);
    Shelf& s = shelf();
    std::unique_ptr<CandidateIndex> oldest;  // freed outside the lock
    const std::lock_guard<std::mutex> hold(s.lock);
    if (s.kept.size() == kMost) {
      oldest = std::move(s.kept.front().index);
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

}  // namespace

template <class T>
MemoryIndex<T>::MemoryIndex(Memory<T>& memory, const IndexSettings& settings, bool unit)
    : memory_(memory),
      settings_(settings),
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
bool MemoryIndex<T>::wants_exact() const {
  const size_t looked_at = memory_.has_initial() ? size_t(memory_.rows()) : memory_.written().size();
  return looked_at <= size_t(settings_.exact_until);
}

template <class T>
void MemoryIndex<T>::discard() {
  if (index_ == nullptr) return;
  if (auto* overlay = dynamic_cast<OverlayIndex*>(index_.get())) index_ = overlay->take_own();
  IndexPool::give(settings_, std::move(index_));
  index_ = nullptr;
  present_.reset();
}

template <class T>
void MemoryIndex<T>::prepare(int threads) {
  const std::vector<int32_t> stale = memory_.take_stale();
  if (wants_exact()) return discard();
  if (index_ == nullptr) return build(threads);
  for (const int32_t row : stale) take_in(row);
}

template <class T>
void MemoryIndex<T>::wrote(const int32_t* rows, int count) {
  if (index_ != nullptr) {
    for (int i = 0; i < count; ++i) take_in(rows[i]);
  } else if (!wants_exact()) {
    build(1);
  } else {
    for (int i = 0; i < count; ++i)
      if (!is_finite(rows[i]))
        throw std::invalid_argument("the word of row " + std::to_string(rows[i]) + " holds NaN or infinity");
  }
}

template <class T>
bool MemoryIndex<T>::is_finite(int32_t row) const {
  return std::isfinite(memory_.norm(row));
}

template <class T>
void MemoryIndex<T>::take_in(int32_t row) {
  const bool was_present = present_->contains(row);
  if (!memory_.is_written(row)) {  // taken back to before its first write
    if (memory_.has_initial()) {
      auto* overlay = dynamic_cast<OverlayIndex*>(index_.get());
      if (overlay != nullptr && overlay->restore(row)) return present_->insert(row);
    } else {
      if (was_present) index_->remove(row);
      return present_->erase(row);
    }
  }
  if (!is_finite(row))
    throw std::invalid_argument("the word of row " + std::to_string(row) + " holds NaN or infinity");
  if (memory_.norm(row) == 0) {
    if (was_present) index_->remove(row);
    return present_->erase(row);
  }
  words_.fetch(row, word_.data());
  if (was_present) {
    index_->update(row, word_.data());
  } else {
    index_->insert(row, word_.data());
    present_->insert(row);
  }
}

template <class T>
void MemoryIndex<T>::build(int threads) {
  auto own = IndexPool::take(settings_, memory_.rows(), memory_.width());
  if (memory_.has_initial()) {
    const auto base = base_of(*memory_.initial(), threads);
    index_ = std::make_unique<OverlayIndex>(base->index, std::move(own), &words_);
    present_.emplace(base->present);
    try {
      for (const int32_t row : memory_.written()) take_in(row);
    } catch (...) {
      discard();
      throw;
    }
    return;
  }
  own->bind(&words_);
  present_.emplace(memory_.rows());
  std::vector<int32_t> rows;
  for (const int32_t row : memory_.written()) {
    if (memory_.norm(row) == 0) continue;
    rows.push_back(row);
    present_->insert(row);
  }
  own->build(rows.data(), static_cast<int32_t>(rows.size()), threads);
  index_ = std::move(own);
}

template <class T>
std::shared_ptr<const IndexedBase> MemoryIndex<T>::base_of(const InitialWords<T>& initial, int threads) const {
  constexpr size_t kMost = 4;  // of different settings over the same words
  const std::lock_guard<std::mutex> hold(initial.lock);
  for (const auto& made : initial.indexes)
    if (made->unit == unit_ && made->settings == settings_) return made;
  const SeenWords<T, InitialWords<T>> words(initial, initial.width, unit_);
  RowSet present(initial.rows);
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < initial.rows; ++row) {
    if (initial.norm(row) == 0) continue;
    rows.push_back(row);
    present.insert(row);
  }
  auto index = make_index(settings_, initial.rows, initial.width, &words);
  index->build(rows.data(), static_cast<int32_t>(rows.size()), threads);
  index->bind(nullptr);
  auto made = std::make_shared<IndexedBase>(IndexedBase{settings_, unit_, std::move(index), present});
  if (initial.indexes.size() == kMost) initial.indexes.erase(initial.indexes.begin());
  initial.indexes.push_back(made);
  return made;
}

template <class T>
int32_t MemoryIndex<T>::propose(const T* query, T norm, CandidateIndex::Scratch& scratch, int32_t* out) {
  const T scale = unit_ ? T(1) / norm : T(1);
  for (size_t j = 0; j < word_.size(); ++j) word_[j] = static_cast<float>(query[j] * scale);
  return index_->query(word_.data(), scratch, out);
}

template class MemoryIndex<float>;
template class MemoryIndex<double>;

}  // namespace sparsam
