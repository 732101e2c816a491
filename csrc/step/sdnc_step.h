// One step of the SDNC's memory for one batch element: SAM's write, the links, and reads that mix what is found by
// content with what was written before and after the words read last (section D).
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "memory/free_allocation.h"
#include "memory/link_backward.h"
#include "memory/link_vectors.h"
#include "memory/link_update.h"
#include "memory/row_set.h"
#include "step/sam_step.h"

namespace sparsam::SPARSAM_ISA {

template <class T>
class SdncStep : public SamStep<T> {
 public:
  explicit SdncStep(const MemoryShape& shape)
      : SamStep<T>(shape),
        allocation_(shape),
        update_(shape.k_links, shape.max_writes()),
        slots_(shape.rows),
        written_weights_(shape.max_writes()),
        candidates_(shape.k * (1 + 2 * shape.k_links) + 1),
        candidate_weights_(this->zeroed(shape.k * (1 + 2 * shape.k_links) + kLanes<T>)),
        d_kept_(shape.k + 1),
        d_content_(shape.k),
        d_previous_(shape.reads()),
        d_written_(shape.max_writes()) {
    if (shape.link_gradients) links_backward_ = std::make_unique<LinkBackward<T>>(shape.rows, shape.k_links);
  }

  void forward(Timeline<T>& timeline, Journal<T>* journal, const StepTape<T>& tape, T* read) {
    const InterfaceView<T> request(tape.interface, this->layout_);
    UsageJournal<T>* const usage = journal ? journal->usage() : nullptr;
    if (s_.free_usage)
      this->begin(timeline, journal, request, tape, [&] {
        allocation_.allocate(*timeline.usage, usage, request.free_gates, tape.previous_rows, tape.previous_weights,
                             unused_.data(), tape.room);
      });
    else
      this->begin(timeline, journal, request, tape);
    average_writes();
    Links<T>& links = *timeline.links;
    update_(links, journal ? journal->links() : nullptr, touched_.size(), touched_.rows(), written_weights_.data());
    this->search(timeline, tape.content_rows, tape.scores);
    this->weigh(request, tape.scores, tape.content_weights);
    softmax_modes(request.read_modes);
    for (int h = 0; h < s_.heads; ++h) mix(links, h, request.read_modes + 3 * h, tape);
    this->gather(timeline.memory, tape.read_rows, tape.read_weights, read);
    if (s_.free_usage)
      allocation_.fill(*timeline.usage, usage, touched_.size(), touched_.rows(), written_weights_.data());
    else
      this->touch(timeline.ring, journal, tape.read_rows, tape.read_weights);
  }

  void backward(Timeline<T>& timeline, Journal<T>& journal, int64_t step, StateGradients<T>& d_state,
                const StepTape<T>& tape, const T* d_read, T* d_weights) {
    const InterfaceView<T> request(tape.interface, this->layout_);
    Links<T>& links = *timeline.links;
    this->begin_backward(journal, step, request, d_read);
    for (int h = 0; h < s_.heads; ++h) {
      const int at = h * s_.k;
      this->gather_backward(timeline.memory, d_state.memory, h, tape.read_rows + at, tape.read_weights + at,
                            d_weights + at, d_kept_.data() + 1);
      mix_backward(links, h, request.read_modes + 3 * h, tape, d_state.links.get());
      this->d_strength_[h] =
          this->content_backward(timeline.memory, d_state.memory, h, request.strength[h], tape.content_rows + at,
                                 tape.content_weights + at, tape.scores + at, d_content_.data());
    }
    this->strength_backward(request);
    journal.links()->undo(links, step);
    journal.words().undo(timeline.memory, step);
    if (s_.free_usage) {
      journal.usage()->undo(*timeline.usage, step);
      std::copy_n(tape.unused, s_.heads, unused_.data());
    } else {
      journal.ring().undo(timeline.ring, step);
      timeline.ring.first(s_.heads, unused_.data());
    }
    written_backward(timeline, *journal.links(), step, d_state, request, tape, d_weights);
    if (s_.free_usage)
      allocation_.backward(*timeline.usage, request.free_gates, tape.previous_rows, tape.previous_weights, unused_.data(),
                           this->d_room_.data(), d_weights);
    for (int i = 0; i < s_.reads(); ++i) d_weights[i] += d_previous_[i];
    journal.note_undone(step);
    this->end_backward(request);
  }

 private:
  using SamStep<T>::s_;
  using SamStep<T>::touched_;
  using SamStep<T>::unused_;

  // Of the links where they are differentiated, and of the writes. `unused_` are the rows erased.
  void written_backward(const Timeline<T>& timeline, const LinkJournal<T>& journal, int64_t step,
                        StateGradients<T>& d_state, const InterfaceView<T>& request, const StepTape<T>& tape,
                        T* d_weights) {
    if (d_state.links) {
      collect_writes(request, tape);
      (*links_backward_)(*timeline.links, journal, step, *d_state.links, touched_.size(), touched_.rows(),
                         written_weights_.data(), d_written_.data());
      for (int i = 0; i < touched_.size(); ++i) slots_.set(touched_.row(i), i);
      this->writes_backward(timeline.memory, d_state.memory, request, tape, d_weights,
                            [&](int32_t row) { return d_written_[slots_.find(row)] / s_.heads; });
      for (int i = 0; i < touched_.size(); ++i) slots_.clear(touched_.row(i));
    } else {
      this->writes_backward(timeline.memory, d_state.memory, request, tape, d_weights, [](int32_t) { return T(0); });
    }
  }

  void softmax_modes(T* modes) const {
    for (int h = 0; h < s_.heads; ++h) {
      T* x = modes + 3 * h;
      const T top = std::max({x[0], x[1], x[2]});
      for (int m = 0; m < 3; ++m) x[m] -= top;
    }
    for_each_vector<T>(3 * s_.heads, [&](int i, auto n) __attribute__((always_inline)) {
      store_some<T>(modes + i, exponential<T>(load_some(modes + i, n)), n);
    });
    for (int h = 0; h < s_.heads; ++h) {
      T* x = modes + 3 * h;
      const T total = x[0] + x[1] + x[2];
      for (int m = 0; m < 3; ++m) x[m] /= total;
    }
  }

  // w: the write weights of this step averaged over the heads
  void average_writes() {
    for (int i = 0; i < touched_.size(); ++i) written_weights_[i] = touched_.weights()[i] / s_.heads;
  }

  // The rows and weights that `write` wrote, again.
  void collect_writes(const InterfaceView<T>& request, const StepTape<T>& tape) {
    this->find_writes(request, tape);
    touched_.clear();
    touched_.add(s_.max_writes(), this->write_rows_.data(), this->write_weights_.data(), [](int32_t) {});
    average_writes();
  }

  // w^R = pi_b b + pi_c c + pi_f f with f(i) = sum_j w^R_{t-1}(j) P(j,i) and b(i) = sum_j w^R_{t-1}(j) N(j,i). Of all
  // rows above 0 and those found by content the K largest are kept.
  void mix(const Links<T>& links, int h, const T* modes, const StepTape<T>& tape) {
    const int first = h * s_.k;
#if SPARSAM_VECTOR_BYTES == 64
    if constexpr (sizeof(T) == 4)
      if (LinkReads::fits(s_.k, s_.k_links) && mix_content(links, first, modes, tape)) return;
#endif
    T* const weights = candidate_weights_.get();
    // No branch: which rows come again cannot be foreseen. Returns the number of candidates.
    auto add = [this, weights](int32_t n, int32_t row, T weight) __attribute__((always_inline)) {
      const int32_t found = slots_.find(row), slot = found < 0 ? n : found;
      slots_.set(row, slot);
      candidates_[slot] = row;
      weights[slot] += weight;
      return n + (found < 0);
    };
    auto follow = [this, &links, add](int32_t n, int64_t id, T weight) __attribute__((always_inline)) {
      const LinkRow<const T> row = links.row(id);
      for (int e = 0; e < s_.k_links && row.columns[e] != 0; ++e)
        n = add(n, row.columns[e] - 1, weight * row.weights[e]);
      return n;
    };
    int32_t n = 0;
    for (int i = first; i < first + s_.k; ++i)
      n = add(n, tape.content_rows[i], modes[kContent] * tape.content_weights[i]);  // distinct: the first K candidates
    for (int i = first; i < first + s_.k; ++i) {
      const int32_t row = tape.previous_rows[i];
      if (row < 0) continue;
      n = follow(n, links.predecessors(row), modes[kBackward] * tape.previous_weights[i]);
      n = follow(n, links.successors(row), modes[kForward] * tape.previous_weights[i]);
    }
    Best<T> best(s_.k, tape.read_rows + first, tape.read_weights + first);
    for (int i = 0; i < s_.k; ++i) best.offer(weights[i], candidates_[i]);
    for (int at = s_.k; at < n; at += kLanes<T>) {
      uint32_t left = at_least<T>(load(weights + at), splat(best.worst()));
      for (left &= (1u << std::min(kLanes<T>, n - at)) - 1; left != 0; left &= left - 1) {
        const int i = at + std::countr_zero(left);
        if (weights[i] > 0) best.offer(weights[i], candidates_[i]);
      }
    }
    for (int i = 0; i < n; ++i) {
      slots_.clear(candidates_[i]);
      weights[i] = 0;
    }
  }

#if SPARSAM_VECTOR_BYTES == 64
  // The same when links alone lead to nothing that could be among the K largest, so that the rows found by content are
  // those that are read; else false.
  bool mix_content(const Links<T>& links, int first, const T* modes, const StepTape<T>& tape) {
    reads_.begin(s_.k, tape.content_rows + first);
    for (int i = first; i < first + s_.k; ++i) {
      const int32_t row = tape.previous_rows[i];
      if (row < 0) continue;
      reads_.add(links.row(links.predecessors(row)), modes[kBackward] * tape.previous_weights[i]);
      reads_.add(links.row(links.successors(row)), modes[kForward] * tape.previous_weights[i]);
    }
    Best<T> best(s_.k, tape.read_rows + first, tape.read_weights + first);
    for (int i = 0; i < s_.k; ++i)
      best.offer(modes[kContent] * tape.content_weights[first + i] + reads_.sum(i), tape.content_rows[first + i]);
    return reads_.bound_of_others() < best.worst();
  }
#endif

  // From the gradients of the mixed weights that were kept (`d_kept_`) to those of the content weights
  // (`d_content_`), of the previous read weights (`d_previous_`), of the modes before their softmax, and of the links.
  void mix_backward(const Links<T>& links, int h, T* modes, const StepTape<T>& tape, LinkGradients<T>* d_links) {
    const int first = h * s_.k;
    T d_modes[3] = {0, 0, 0};
    for (int i = 0; i < s_.k; ++i) slots_.set(tape.read_rows[first + i], i);
    for (int i = 0; i < s_.k; ++i) {
      const T d_kept = d_kept_[slots_.find_plus_1(tape.content_rows[first + i])];
      d_content_[i] = modes[kContent] * d_kept;
      d_modes[kContent] += tape.content_weights[first + i] * d_kept;
    }
#if SPARSAM_VECTOR_BYTES == 64
    const bool in_vectors = sizeof(T) == 4 && LinkReads::fits(s_.k, s_.k_links);
    if (in_vectors) reads_.begin(s_.k, tape.read_rows + first);
#endif
    auto follow = [&](int64_t id, T scale) -> T {
      const LinkRow<const T> row = links.row(id);
      T sum = 0;
#if SPARSAM_VECTOR_BYTES == 64
      if constexpr (sizeof(T) == 4)
        if (in_vectors && !d_links) return reads_.weigh(row, d_kept_.data() + 1);
#endif
      for (int e = 0; e < s_.k_links && row.columns[e] != 0; ++e)  // d_kept_[0] = 0 is for rows that were not kept
        sum += row.weights[e] * d_kept_[slots_.find_plus_1(row.columns[e] - 1)];
      for (int e = 0; d_links && e < s_.k_links && row.columns[e] != 0; ++e) {
        const int32_t at = slots_.find_plus_1(row.columns[e] - 1);
        if (at > 0) d_links->row(id)[e] += scale * d_kept_[at];
      }
      return sum;
    };
    for (int i = first; i < first + s_.k; ++i) {
      const int32_t row = tape.previous_rows[i];
      d_previous_[i] = 0;
      if (row < 0) continue;
      const T weight = tape.previous_weights[i];
      const T d_backward = follow(links.predecessors(row), modes[kBackward] * weight);
      const T d_forward = follow(links.successors(row), modes[kForward] * weight);
      d_previous_[i] = modes[kBackward] * d_backward + modes[kForward] * d_forward;
      d_modes[kBackward] += weight * d_backward;
      d_modes[kForward] += weight * d_forward;
    }
    for (int i = 0; i < s_.k; ++i) slots_.clear(tape.read_rows[first + i]);
    T mean = 0;
    for (int m = 0; m < 3; ++m) mean += modes[m] * d_modes[m];
    for (int m = 0; m < 3; ++m) modes[m] *= d_modes[m] - mean;
  }

  static constexpr int kBackward = 0, kContent = 1, kForward = 2;
  FreeAllocation<T> allocation_;
  LinkUpdate<T> update_;
  std::unique_ptr<LinkBackward<T>> links_backward_;
#if SPARSAM_VECTOR_BYTES == 64
  LinkReads reads_{s_.k_links};
#endif
  RowSlots slots_;
  std::vector<T> written_weights_;
  std::vector<int32_t> candidates_;
  Recycled<T> candidate_weights_;  // zero between heads
  std::vector<T> d_kept_, d_content_, d_previous_, d_written_;
};

}  // namespace sparsam::SPARSAM_ISA
