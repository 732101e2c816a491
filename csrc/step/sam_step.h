// One step of SAM's memory for one batch element, forward (write, then read) and backward.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "index/memory_search.h"
#include "memory/gradients.h"
#include "step/interface.h"
#include "step/sequence.h"
#include "step/step_rows.h"
#include "support/recycled.h"
#include "support/simd.h"

namespace sparsam::SPARSAM_ISA {

// Pointers into one step of a tape (`Tape`), for one batch element.
template <class T>
struct StepTape {
  T* interface;
  const int32_t* previous_rows;  // reads of the step before
  const T* previous_weights;
  int32_t* read_rows;
  T* read_weights;
  T* scores;
  int32_t* unused;  // null when it is not wanted; likewise the next two without links
  int32_t* content_rows;
  T* content_weights;
  T* room;  // null with the ring
};

// Gradients with respect to a batch element's memory and links, while they are accumulated.
template <class T>
struct StateGradients {
  explicit StateGradients(RowGradientBuffer<T>& memory) : memory(memory) {}
  RowGradientBuffer<T>& memory;
  std::unique_ptr<LinkGradients<T>> links;  // null when they are constants
};

// Scratch arrays for one step, reused over a whole sequence.
template <class T>
class SamStep {
 public:
  explicit SamStep(const MemoryShape& shape)
      : s_(shape),
        layout_(shape),
        stride_(padded_width<T>(shape.width)),
        touched_(shape.max_touched()),
        unused_(shape.heads),
        accessed_(shape.max_touched()),
        write_rows_(shape.max_writes() + StepRows<T>::kSome),
        write_weights_(shape.max_writes()),
        query_(zeroed(shape.heads * stride_)),
        add_(zeroed(shape.heads * stride_)),
        read_(zeroed(shape.heads * stride_)),
        d_query_(zeroed(shape.heads * stride_)),
        d_add_(zeroed(shape.heads * stride_)),
        norms_(shape.heads),
        d_scores_(shape.k),
        d_strength_(shape.heads),
        d_room_(shape.free_usage ? shape.heads : 0),
        erased_(shape.erase ? shape.reads() : 0),
        d_write_(shape.erase ? shape.reads() : 0) {}

  // `threads` threads may share a search, since they have nothing else to do.
  void share_search(int threads) { search_.share(threads); }
  // The interface vectors of the element that is stepped next, from that step on, where they are known.
  void expect(int place, const Coming<T>& coming) { search_.expect(place, coming); }

  // Steps 2 to 6 of SAM. The interface comes in before its activation and leaves after it; `read` (R, W) comes out.
  void forward(Timeline<T>& timeline, Journal<T>* journal, const StepTape<T>& tape, T* read) {
    const InterfaceView<T> request(tape.interface, layout_);
    begin(timeline, journal, request, tape);
    search(timeline, tape.read_rows, tape.scores);
    weigh(request, tape.scores, tape.read_weights);
    gather(timeline.memory, tape.read_rows, tape.read_weights, read);
    touch(timeline.ring, journal, tape.read_rows, tape.read_weights);
  }

  // The gradients of `forward` at journal step `step`, which is undone on the way. `d_read` (R, W) and `d_weights`
  // (R, K, of this step's read weights) come in; `d_weights` leaves as the gradient of the previous read weights and
  // `interface` as the gradient of its values before activation.
  void backward(Timeline<T>& timeline, Journal<T>& journal, int64_t step, StateGradients<T>& d_state,
                const StepTape<T>& tape, const T* d_read, T* d_weights) {
    const InterfaceView<T> request(tape.interface, layout_);
    begin_backward(journal, step, request, d_read);
    for (int h = 0; h < s_.heads; ++h) {
      const int at = h * s_.k;
      d_strength_[h] = read_backward(timeline.memory, d_state.memory, h, request.strength[h], tape.read_rows + at,
                                     tape.read_weights + at, tape.scores + at, d_weights + at);
    }
    strength_backward(request);
    journal.ring().undo(timeline.ring, step);
    timeline.ring.first(s_.heads, unused_.data());
    journal.words().undo(timeline.memory, step);
    writes_backward(timeline.memory, d_state.memory, request, tape, d_weights, [](int32_t) { return T(0); });
    journal.note_undone(step);
    end_backward(request);
  }

 protected:
  // Activates the interface and writes; find() sets `unused_`, the rows to write anew.
  template <class Find>
  void begin(Timeline<T>& timeline, Journal<T>* journal, const InterfaceView<T>& request, const StepTape<T>& tape,
             const Find& find) {
    activate(request);
    load_words(request);
    if (journal) journal->begin_step(timeline.parts);
    find();
    if (tape.unused) std::copy(unused_.begin(), unused_.end(), tape.unused);
    write(timeline.memory, journal, request, tape);
  }
  void begin(Timeline<T>& timeline, Journal<T>* journal, const InterfaceView<T>& request, const StepTape<T>& tape) {
    begin(timeline, journal, request, tape, [&] { timeline.ring.first(s_.heads, unused_.data()); });
  }

  void search(Timeline<T>& timeline, int32_t* rows, T* scores) {
    find_norms();
    search_.search({timeline.memory, s_.similarity, query_.get(), norms_.data(), s_.heads, s_.k, rows, scores},
                   index_of(timeline), touched_.rows(), touched_.size());
  }

  void find_norms() {  // of the queries
    for (int h = 0; h < s_.heads; ++h) norms_[h] = std::sqrt(dot(query(h), query(h), stride_));
  }

  void begin_backward(Journal<T>& journal, int64_t step, const InterfaceView<T>& request, const T* d_read) {
    journal.words().prefetch(step - 1);
    load_words(request);
    find_norms();
    for (int h = 0; h < s_.heads; ++h) copy_numbers(read_.get() + h * stride_, d_read + h * s_.width, s_.width);
    std::memset(d_query_.get(), 0, sizeof(T) * s_.heads * stride_);
    std::memset(d_add_.get(), 0, sizeof(T) * s_.heads * stride_);
  }

  // Of all heads' writes; `more(row)` is what else a write weight there gets. `unused_` are the rows written anew, and
  // `before` is the memory that the step began with.
  template <class More>
  void writes_backward(const Memory<T>& before, RowGradientBuffer<T>& d_memory, const InterfaceView<T>& request,
                       const StepTape<T>& tape, T* d_weights, const More& more) {
    if (s_.erase) erase_backward(before, d_memory, request, tape);
    for (int h = 0; h < s_.heads; ++h)
      write_backward(d_memory, h, request, tape, d_weights + h * s_.k, more);
    for (int n = 0; s_.erase && n < s_.reads(); ++n)
      if (const int32_t row = tape.previous_rows[n]; row >= 0 && d_memory.touched(row))
        add_scaled(d_memory.row(row), -erased_[n], d_memory.row(row), stride_);
    for (const int32_t row : unused_) d_memory.clear_row(row);  // what a word written anew held makes no difference
  }

  // Through M(i) prod_n (1 - e_n w_n), over the reads n of row i with write weights w_n: the gradients of the erase gates,
  // and in `d_write_` of those weights. `erased_` are the e_n w_n.
  void erase_backward(const Memory<T>& before, RowGradientBuffer<T>& d_memory, const InterfaceView<T>& request,
                      const StepTape<T>& tape) {
    for (int n = 0; n < s_.reads(); ++n) {
      const int h = n / s_.k;
      erased_[n] = request.erase[h] * request.write_gate[h] * request.interpolation[h] * tape.previous_weights[n];
      d_write_[n] = 0;
    }
    for (int h = 0; h < s_.heads; ++h) {
      const T gate = request.erase[h], kept = request.write_gate[h] * request.interpolation[h];
      T d_gate = 0;
      for (int n = h * s_.k; n < (h + 1) * s_.k; ++n) {
        const int32_t row = tape.previous_rows[n];
        if (row < 0 || !d_memory.touched(row) || std::find(unused_.begin(), unused_.end(), row) != unused_.end()) continue;
        T others = 1;
        for (int m = 0; m < s_.reads(); ++m)
          if (m != n && tape.previous_rows[m] == row) others *= 1 - erased_[m];
        const T d = -others * dot(d_memory.row(row), before.word(row), stride_);
        d_gate += d * kept * tape.previous_weights[n];
        d_write_[n] = d * gate;
      }
      request.erase[h] = d_gate * gate * (1 - gate);
    }
  }

  void end_backward(const InterfaceView<T>& request) {
    for (int h = 0; h < s_.heads; ++h) {
      copy_numbers<T>(request.query + h * s_.width, d_query_.get() + h * stride_, s_.width);
      copy_numbers<T>(request.write_word + h * s_.width, d_add_.get() + h * stride_, s_.width);
    }
  }

  // beta = 1 + softplus(x), so d beta / dx = sigmoid(x) = 1 - exp(1 - beta)
  void strength_backward(const InterfaceView<T>& request) const {
    for_each_vector<T>(s_.heads, [&](int h, auto n) __attribute__((always_inline)) {
      const Vec<T> beta = load_some(request.strength + h, n);
      store_some<T>(request.strength + h, -load_some(d_strength_.data() + h, n) * expm1<T>(splat<T>(1) - beta), n);
    });
  }

  static Recycled<T> zeroed(size_t n) {
    auto a = recycled_array<T>(n);
    std::memset(a.get(), 0, sizeof(T) * n);
    return a;
  }
  const T* query(int h) const { return query_.get() + h * stride_; }
  const T* add(int h) const { return add_.get() + h * stride_; }

  // beta = 1 + softplus, alpha and gamma = sigmoid
  void activate(const InterfaceView<T>& request) const {
    for_each_vector<T>(s_.heads, [&](int i, auto n) __attribute__((always_inline)) {
      store_some<T>(request.strength + i, splat<T>(1) + softplus<T>(load_some(request.strength + i, n)), n);
    });
    for_each_vector<T>(2 * s_.heads, [&](int i, auto n) __attribute__((always_inline)) {
      store_some<T>(request.write_gate + i, sigmoid<T>(load_some(request.write_gate + i, n)), n);
    });
    if (s_.erase)
      for_each_vector<T>(s_.heads, [&](int i, auto n) __attribute__((always_inline)) {
        store_some<T>(request.erase + i, sigmoid<T>(load_some(request.erase + i, n)), n);
      });
  }

  void load_words(const InterfaceView<T>& request) {
    for (int h = 0; h < s_.heads; ++h) {
      copy_numbers<T>(query_.get() + h * stride_, request.query + h * s_.width, s_.width);
      copy_numbers<T>(add_.get() + h * stride_, request.write_word + h * s_.width, s_.width);
    }
  }

  // The rows that this step writes and the weights of each: head by head those read before, -1 for none, and the one to
  // write anew.
  void find_writes(const InterfaceView<T>& request, const StepTape<T>& tape) {
    int n = 0;
    for (int h = 0; h < s_.heads; ++h) {
      const T keep = request.write_gate[h] * request.interpolation[h];
      for (int i = h * s_.k; i < (h + 1) * s_.k; ++i, ++n) {
        write_rows_[n] = tape.previous_rows[i];
        write_weights_[n] = keep * tape.previous_weights[i];
      }
      write_rows_[n] = unused_[h];
      write_weights_[n++] = fresh_weight(request, tape, h);
    }
  }
  // Of the row to write anew: alpha (1 - gamma), with usage as much of it as the row has room for.
  static T fresh_weight(const InterfaceView<T>& request, const StepTape<T>& tape, int h) {
    const T weight = request.write_gate[h] * (1 - request.interpolation[h]);
    return tape.room ? weight * tape.room[h] : weight;
  }

  // eq. lru_write_weights and sparse_write_suppl: every u_h is set to zero, then M += sum_h w^W_h a_h^T. With erase gates
  // the words read before are scaled by 1 - e_h w^W_h first.
  void write(Memory<T>& memory, Journal<T>* journal, const InterfaceView<T>& request, const StepTape<T>& tape) {
    find_writes(request, tape);
    touched_.clear();
    touched_.add(s_.max_writes(), write_rows_.data(), write_weights_.data(), [&](int32_t row) {
      if (journal) journal->words().save(memory, row);
      memory.mark_written(row);
      memory.note_changed(row);
    });
    for (int n = 0; s_.erase && n < s_.max_writes(); ++n) {
      if (write_rows_[n] < 0 || n % (s_.k + 1) == s_.k) continue;
      T* word = memory.word(write_rows_[n]);
      add_scaled(word, -request.erase[n / (s_.k + 1)] * write_weights_[n], word, stride_);
    }
    for (const int32_t row : unused_) std::memset(memory.word(row), 0, sizeof(T) * stride_);
    for (int n = 0; n < s_.max_writes(); ++n)
      if (write_rows_[n] >= 0) add_scaled(memory.word(write_rows_[n]), write_weights_[n], add(n / (s_.k + 1)), stride_);
    for (int i = 0; i < touched_.size(); ++i) {
      memory.clear_padding(touched_.row(i));
      const T* word = memory.word(touched_.row(i));
      memory.norm(touched_.row(i)) = std::sqrt(dot(word, word, stride_));
    }
  }

  // eq. content_based_read over the K rows found
  void weigh(const InterfaceView<T>& request, const T* scores, T* weights) const {
    for (int h = 0; h < s_.heads; ++h) {
      const T* score = scores + h * s_.k;
      T* weight = weights + h * s_.k;
      const T top = *std::max_element(score, score + s_.k);
      T total = 0;
      for_each_vector<T>(s_.k, [&](int i, auto n) __attribute__((always_inline)) {
        const Vec<T> e = exponential<T>((load_some(score + i, n) - splat(top)) * splat(request.strength[h]));
        store_some<T>(weight + i, e, n);
      });
      for (int i = 0; i < s_.k; ++i) total += weight[i];
      for (int i = 0; i < s_.k; ++i) weight[i] /= total;
    }
  }

  // eq. sparse_read_forward
  void gather(const Memory<T>& memory, const int32_t* rows, const T* weights, T* read) {
    for (int h = 0; h < s_.heads; ++h) {
      T* r = read_.get() + h * stride_;
      std::memset(r, 0, sizeof(T) * stride_);
      for (int i = h * s_.k; i < (h + 1) * s_.k; ++i) add_scaled(r, weights[i], memory.word(rows[i]), stride_);
      copy_numbers<T>(read + h * s_.width, r, s_.width);
    }
  }

  // U^(2): rows whose weights exceed delta go to the back of the ring, in ascending order.
  void touch(Ring& ring, Journal<T>* journal, const int32_t* rows, const T* weights) {
    std::copy_n(rows, s_.reads(), write_rows_.data());  // the tape ends where it ends, and whole vectors are compared
    touched_.add(s_.reads(), write_rows_.data(), weights, [](int32_t) {});
    const int n = touched_.accessed(T(s_.delta), accessed_.data());
    for (int i = 0; i < n; ++i) {
      const int32_t before = ring.move_to_back(accessed_[i]);
      if (journal) journal->ring().moved(accessed_[i], before);
    }
  }

  // Gradients through r_h = sum of weight * word, `d_weights` included, into `d_scores_`; then through the weights.
  T read_backward(const Memory<T>& memory, RowGradientBuffer<T>& d_memory, int h, T strength, const int32_t* rows,
                  const T* weights, const T* scores, const T* d_weights) {
    gather_backward(memory, d_memory, h, rows, weights, d_weights, d_scores_.data());
    return content_backward(memory, d_memory, h, strength, rows, weights, scores, d_scores_.data());
  }

  void gather_backward(const Memory<T>& memory, RowGradientBuffer<T>& d_memory, int h, const int32_t* rows,
                       const T* weights, const T* d_weights, T* out) const {
    const T* d_read = read_.get() + h * stride_;
    for (int i = 0; i < s_.k; ++i) {
      out[i] = d_weights[i] + dot(d_read, memory.word(rows[i]), stride_);
      add_scaled(d_memory.row(rows[i]), weights[i], d_read, stride_);
    }
  }

  // Through the softmax over the K rows found. Returns the gradient of the strength beta.
  T content_backward(const Memory<T>& memory, RowGradientBuffer<T>& d_memory, int h, T strength, const int32_t* rows,
                     const T* weights, const T* scores, const T* d_weights) {
    T mean = 0, d_strength = 0;
    for (int i = 0; i < s_.k; ++i) mean += weights[i] * d_weights[i];
    for (int i = 0; i < s_.k; ++i) {
      const T d_logit = weights[i] * (d_weights[i] - mean);
      d_strength += d_logit * scores[i];
      similarity_backward(h, memory.word(rows[i]), memory.norm(rows[i]), scores[i], strength * d_logit,
                          d_memory.row(rows[i]));
    }
    return d_strength;
  }

  void similarity_backward(int h, const T* word, T word_norm, T score, T d_score, T* d_word) {
    const T* q = query(h);
    T* d_q = d_query_.get() + h * stride_;
    if (s_.similarity == Similarity::kEuclidean) {  // -|q - m|^2
      for (int j = 0; j < stride_; j += kLanes<T>) {
        const Vec<T> d = splat<T>(2 * d_score) * (load(q + j) - load(word + j));
        store<T>(d_q + j, load(d_q + j) - d);
        store<T>(d_word + j, load(d_word + j) + d);
      }
      return;
    }
    // dot: the same with scale 1 and no normalising terms. cosine: s = q·m / D, D = |q||m| + eps, gives
    // ds/dq = (m - s |m|/|q| q) / D and ds/dm = (q - s |q|/|m| m) / D.
    T scale = d_score, along_q = 0, along_m = 0;
    if (s_.similarity == Similarity::kCosine) {
      const T query_norm = norms_[h];
      scale /= query_norm * word_norm + T(kCosineEpsilon);
      along_q = query_norm > 0 ? -scale * score * word_norm / query_norm : 0;
      along_m = word_norm > 0 ? -scale * score * query_norm / word_norm : 0;
    }
    for (int j = 0; j < stride_; j += kLanes<T>) {
      const Vec<T> qj = load(q + j), mj = load(word + j);
      store<T>(d_q + j, load(d_q + j) + splat(scale) * mj + splat(along_q) * qj);
      store<T>(d_word + j, load(d_word + j) + splat(scale) * qj + splat(along_m) * mj);
    }
  }

  // Gradients of a_h and the gates of head h; `d_weights` (K) leaves as the gradient of the previous read weights.
  template <class More>
  void write_backward(RowGradientBuffer<T>& d_memory, int h, const InterfaceView<T>& request, const StepTape<T>& tape,
                      T* d_weights, const More& more) {
    const int32_t* rows = tape.previous_rows + h * s_.k;
    const T* weights = tape.previous_weights + h * s_.k;
    const T alpha = request.write_gate[h], gamma = request.interpolation[h];
    T* d_add = d_add_.get() + h * stride_;
    T d_alpha = 0, d_gamma = 0;
    // The gradient of a write weight is a_h · dM(row); a row whose gradient nobody touched has none.
    auto through = [&](int32_t row, T weight) -> T {
      if (!d_memory.touched(row)) return more(row);
      const T* d_word = d_memory.row(row);
      add_scaled(d_add, weight, d_word, stride_);
      return dot(add(h), d_word, stride_) + more(row);
    };
    for (int i = 0; i < s_.k; ++i) {
      if (rows[i] < 0) {
        d_weights[i] = 0;
        continue;
      }
      T d = through(rows[i], alpha * gamma * weights[i]);
      if (s_.erase) d += d_write_[h * s_.k + i];
      d_alpha += gamma * weights[i] * d;
      d_gamma += alpha * weights[i] * d;
      d_weights[i] = alpha * gamma * d;
    }
    T d = through(unused_[h], fresh_weight(request, tape, h));  // of that weight, over alpha (1 - gamma)
    if (tape.room) {
      d_room_[h] = alpha * (1 - gamma) * d;
      d *= tape.room[h];
    }
    d_alpha += (1 - gamma) * d;
    d_gamma -= alpha * d;
    request.write_gate[h] = d_alpha * alpha * (1 - alpha);
    request.interpolation[h] = d_gamma * gamma * (1 - gamma);
  }

  const MemoryShape s_;
  const InterfaceLayout layout_;
  const int stride_;
  StepRows<T> touched_;
  std::vector<int32_t> unused_, accessed_, write_rows_;
  std::vector<T> write_weights_;
  Recycled<T> query_, add_, read_, d_query_, d_add_;
  std::vector<T> norms_, d_scores_, d_strength_, d_room_;
  std::vector<T> erased_, d_write_;  // (R, K), with erase gates
  MemorySearch<T> search_;
};

}  // namespace sparsam::SPARSAM_ISA
