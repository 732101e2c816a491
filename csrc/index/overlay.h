// One index built over a pre-loaded memory, shared read-only by all elements of a batch, and what one element changed.
//
// Rows whose word changed or went away are hidden in the base; changed and new words go into an index of the element's
// own. A row is visible in one of the two, so candidates stay distinct. The base does not change, so that the whole is a
// value if the own index is one; and that should keep no array by row, since rows lie scattered over the whole memory and
// every first touch of a page is a page fault (a tenth of a step at a million words).
//
// Memory: one bit per row of address space, pages only where rows were hidden, and the own index's words.
#pragma once

#include <algorithm>
#include <utility>

#include "support/lazy_array.h"
#include "index/candidate_index.h"

namespace sparsam {

class OverlayIndex final : public CandidateIndex {
 public:
  // The source is the element's memory: the own index reads it, the base reads no words in a query. `own` is empty.
  OverlayIndex(std::shared_ptr<const CandidateIndex> base, std::unique_ptr<CandidateIndex> own, const WordSource* source)
      : CandidateIndex(base->capacity(), base->word_size()), base_(std::move(base)), own_(std::move(own)),
        hidden_((static_cast<size_t>(capacity_) + 63) / 64) {
    bind(source);
  }

  OverlayIndex(std::shared_ptr<const CandidateIndex> base, const WordSource* source)
      : OverlayIndex(base, base->fresh(), source) {}

  // Hands out the element's own part for reuse; this index must not be used afterwards.
  std::unique_ptr<CandidateIndex> take_own() { return std::move(own_); }

  void bind(const WordSource* source) override {
    source_ = source;
    own_->bind(source);
  }

  void insert(int32_t row, const float* word) override {
    check_row(row);
    check_absent(row, contains(row));
    check_word(row, word);
    own_->insert(row, word);
  }

  void remove(int32_t row) override {
    check_row(row);
    check_present(row, contains(row));
    if (own_->contains(row))
      own_->remove(row);
    else
      hide(row);
  }

  void update(int32_t row, const float* word) override {
    check_row(row);
    check_present(row, contains(row));
    check_word(row, word);
    if (own_->contains(row)) {
      own_->update(row, word);
    } else {
      own_->insert(row, word);
      hide(row);
    }
  }

  // The row holds the base's word again (a write was taken back). False when there is no base word to go back to.
  bool restore(int32_t row) {
    check_row(row);
    if (!base_->contains(row) || detached_) return false;
    if (own_->contains(row)) own_->remove(row);
    uint64_t& bits = hidden_[static_cast<size_t>(row) / 64];
    hidden_count_ -= static_cast<int32_t>(bits >> (row % 64) & 1);
    bits &= ~(uint64_t{1} << (row % 64));
    return true;
  }

  bool contains(int32_t row) const override { return own_->contains(row) || in_base(row); }
  int32_t size() const override { return own_->size() + (detached_ ? 0 : base_->size() - hidden_count_); }

  void clear() override {
    own_->clear();
    detach();
    insertions_ = 0;
  }

  int32_t max_candidates() const override {
    return std::min(capacity_, (detached_ ? 0 : base_->max_candidates()) + own_->max_candidates());
  }

  bool is_value() const override { return own_->is_value(); }
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
    own_->rows(out);
    if (detached_) return;
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
    auto copy = std::make_unique<OverlayIndex>(base_, own_->clone(), source_);
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
    hidden_.reset();
    hidden_count_ = 0;
  }

  std::shared_ptr<const CandidateIndex> base_;
  std::unique_ptr<CandidateIndex> own_;
  LazyArray<uint64_t> hidden_;
  int32_t hidden_count_ = 0;
  bool detached_ = false;
};

}  // namespace sparsam
