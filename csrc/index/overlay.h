// One index built over a pre-loaded memory, shared read-only by all elements of a batch, and what one element changed.
//
// Rows whose word changed or went away are hidden in the base; changed and new words go into an index of the same kind
// of the element's own. A row is visible in one of the two, so candidates stay distinct. It is a value if the two are.
//
// An own index with arrays by row (that is not a value) numbers its words as they come: rows lie scattered over the
// whole memory, and every first touch of a page would be a page fault (a tenth of a step at a million words).
//
// Memory: one bit per row of address space, pages only where rows were hidden, and the own index's words.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "support/lazy_array.h"
#include "index/candidate_index.h"

namespace sparsam {

class OverlayIndex final : public CandidateIndex {
 public:
  // The source is the element's memory: the own index reads it, the base reads no words in a query.
  // `own` is empty and of the base's kind.
  OverlayIndex(std::shared_ptr<const CandidateIndex> base, std::unique_ptr<CandidateIndex> own, const WordSource* source)
      : CandidateIndex(base->capacity(), base->word_size()), base_(std::move(base)), own_(std::move(own)),
        words_(this), hidden_((static_cast<size_t>(capacity_) + 63) / 64),
        numbered_(!own_->is_value()) {
    own_->bind(&words_);
    source_ = source;
  }

  OverlayIndex(std::shared_ptr<const CandidateIndex> base, const WordSource* source)
      : OverlayIndex(base, base->fresh(), source) {}

  // Hands out the element's own part for reuse; this index must not be used afterwards.
  std::unique_ptr<CandidateIndex> take_own() { return std::move(own_); }

  void bind(const WordSource* source) override { source_ = source; }

  void insert(int32_t row, const float* word) override {
    check_row(row);
    check_absent(row, contains(row));
    check_word(row, word);
    insert_own(row, word);
  }

  void remove(int32_t row) override {
    check_row(row);
    check_present(row, contains(row));
    if (!remove_own(row)) hide(row);
  }

  void update(int32_t row, const float* word) override {
    check_row(row);
    check_present(row, contains(row));
    check_word(row, word);
    const int32_t number = number_of(row);
    if (number >= 0) {
      own_->update(number, word);
    } else {
      insert_own(row, word);
      hide(row);
    }
  }

  // The row holds the base's word again (a write was taken back). False when there is no base word to go back to.
  bool restore(int32_t row) {
    check_row(row);
    if (!base_->contains(row) || detached_) return false;
    remove_own(row);
    uint64_t& bits = hidden_[static_cast<size_t>(row) / 64];
    hidden_count_ -= static_cast<int32_t>(bits >> (row % 64) & 1);
    bits &= ~(uint64_t{1} << (row % 64));
    return true;
  }

  bool contains(int32_t row) const override { return number_of(row) >= 0 || in_base(row); }
  int32_t size() const override { return own_->size() + (detached_ ? 0 : base_->size() - hidden_count_); }

  void clear() override {
    own_->clear();
    detach();
    insertions_ = 0;
  }

  int32_t max_candidates() const override {
    return std::min(capacity_, (detached_ ? 0 : base_->max_candidates()) + own_->max_candidates());
  }

  bool is_value() const override { return base_->is_value() && own_->is_value(); }
  void start(int64_t steps, int threads) override { own_->start(steps, threads); }
  void settle(int threads) override { own_->settle(threads); }

  int32_t query(const float* query, Scratch& scratch, int32_t* out) const override {
    int32_t count = 0;
    query_all(query, 1, scratch, out, max_candidates(), &count, nullptr);
    if (is_value()) std::sort(out, out + count);
    return count;
  }

  void query_all(const float* queries, int heads, Scratch& scratch, int32_t* out, int32_t stride, int32_t* counts,
                 const uint64_t*) const override {
    own_->query_all(queries, heads, scratch, out, stride, counts, nullptr);
    if (detached_) return;
    if (numbered_)
      for (int h = 0; h < heads; ++h)
        for (int32_t i = 0; i < counts[h]; ++i)
          out[h * stride + i] = row_of_[static_cast<size_t>(out[h * stride + i])];
    const int32_t most = base_->max_candidates();
    scratch.proposed.resize(static_cast<size_t>(most) * static_cast<size_t>(heads));
    scratch.counts.resize(static_cast<size_t>(heads));
    base_->query_all(queries, heads, scratch, scratch.proposed.data(), most, scratch.counts.data(), hidden_.data());
    for (int h = 0; h < heads; ++h) {
      std::copy_n(scratch.proposed.data() + h * most, scratch.counts[static_cast<size_t>(h)],
                  out + h * stride + counts[h]);
      counts[h] += scratch.counts[static_cast<size_t>(h)];
    }
  }

  void rows(std::vector<int32_t>& out) const override {
    const size_t before = out.size();
    own_->rows(out);
    if (detached_) return;
    for (size_t i = before; numbered_ && i < out.size(); ++i) out[i] = row_of_[static_cast<size_t>(out[i])];
    std::vector<int32_t> all;
    base_->rows(all);
    for (int32_t row : all)
      if (!is_hidden(row)) out.push_back(row);
  }

  void build(const int32_t* rows, int32_t n, int threads) override {
    const std::vector<int32_t> kept(rows, rows + n);
    detach();
    own_->build(kept.data(), n, threads);
    insertions_ = 0;
  }

  std::unique_ptr<CandidateIndex> clone() const override {
    auto copy = std::make_unique<OverlayIndex>(base_, source_);
    copy->own_ = own_->clone();
    copy->own_->bind(&copy->words_);
    copy->row_of_ = row_of_;
    copy->number_ = number_;
    copy->free_ = free_;
    for (size_t i = 0; i < hidden_.size(); ++i)
      if (hidden_[i] != 0) copy->hidden_[i] = hidden_[i];
    copy->hidden_count_ = hidden_count_;
    copy->detached_ = detached_;
    copy->insertions_ = insertions_;
    copy->rebuilds_ = rebuilds_;
    return copy;
  }

  std::unique_ptr<CandidateIndex> fresh() const override {
    auto empty = base_->fresh();
    empty->bind(source_);
    return empty;
  }

  // What the element added; the base is counted once, by whoever holds it.
  size_t bytes() const override { return own_->bytes() + static_cast<size_t>(hidden_count_) / 8; }

 private:
  // The own index's words, by its numbers.
  struct OwnWords final : WordSource {
    explicit OwnWords(const OverlayIndex* overlay) : overlay(overlay) {}
    void fetch(int32_t number, float* out) const override {
      overlay->check_source();
      overlay->source_->fetch(overlay->is_numbered() ? overlay->row_of_[static_cast<size_t>(number)] : number, out);
    }
    const OverlayIndex* overlay;
  };

  bool is_numbered() const { return numbered_ && !detached_; }
  // The row's number in the own index, -1 when it is not there. Otherwise rows are their own numbers.
  int32_t number_of(int32_t row) const {
    if (!is_numbered()) return own_->contains(row) ? row : -1;
    const auto at = number_.find(row);
    return at == number_.end() ? -1 : at->second;
  }
  void insert_own(int32_t row, const float* word) {
    if (!is_numbered()) return own_->insert(row, word);
    int32_t number = static_cast<int32_t>(row_of_.size());
    if (free_.empty()) {
      row_of_.push_back(row);
    } else {
      number = free_.back();
      row_of_[static_cast<size_t>(number)] = row;
      free_.pop_back();
    }
    number_[row] = number;
    own_->insert(number, word);
  }
  bool remove_own(int32_t row) {
    const int32_t number = number_of(row);
    if (number < 0) return false;
    own_->remove(number);
    if (is_numbered()) {
      number_.erase(row);
      free_.push_back(number);
    }
    return true;
  }
  bool is_hidden(int32_t row) const { return (hidden_[static_cast<size_t>(row) / 64] >> (row % 64) & 1) != 0; }
  bool in_base(int32_t row) const { return !detached_ && base_->contains(row) && !is_hidden(row); }
  void hide(int32_t row) {
    hidden_[static_cast<size_t>(row) / 64] |= uint64_t{1} << (row % 64);
    ++hidden_count_;
  }
  // The base stays held for its settings only.
  void detach() {
    own_->clear();
    detached_ = true;
    row_of_.clear();
    number_.clear();
    free_.clear();
    hidden_.reset();
    hidden_count_ = 0;
  }

  std::shared_ptr<const CandidateIndex> base_;
  std::unique_ptr<CandidateIndex> own_;
  OwnWords words_;
  std::vector<int32_t> row_of_;                  // by number
  std::unordered_map<int32_t, int32_t> number_;  // by row
  std::vector<int32_t> free_;                    // numbers that no row has
  LazyArray<uint64_t> hidden_;
  int32_t hidden_count_ = 0;
  const bool numbered_;
  bool detached_ = false;
};

}  // namespace sparsam
