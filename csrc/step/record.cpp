#include "step/record.h"

#include <algorithm>
#include <stdexcept>

#include "index/memory_index.h"
#include "memory/timeline.h"
#include "support/parallel.h"

namespace sparsam {

namespace {
size_t whole_lines(size_t bytes) { return (bytes + 127) / 64 * 64; }
}  // namespace

template <class T>
TapeArrays<T>::TapeArrays(const SequenceShape& s, int64_t steps, bool unused) {
  const size_t done = size_t(steps) * s.batch, states = size_t(steps + 1) * s.batch;
  const bool links = s.k_links > 0;
  interface = Numbers<T>(done * s.interface);
  tape.interface = interface.get();
  bytes = interface.size * sizeof(T);
  // One block for all, each on a line of its own with a line to spare, as `recycled_array` gives them: first its size.
  std::byte* at = nullptr;
  size_t total = 0;
  auto place = [&]<class U>(U*& to, size_t count, bool there = true) {
    if (!there) return;
    const size_t size = count * sizeof(U);
    if (at == nullptr) {
      total += whole_lines(size);
      bytes += size;
    } else {
      to = reinterpret_cast<U*>(at);
      at += whole_lines(size);
    }
  };
  auto place_all = [&] {
    place(tape.gates, done * s.gates);
    place(tape.cells, states * s.hidden, traits(s.controller).has_cell);
    place(tape.joint, states * s.joint);
    place(tape.read_weights, states * s.reads());
    place(tape.scores, done * s.reads());
    place(tape.content_weights, done * s.reads(), links);
    place(tape.room, done * s.heads, s.free_usage);
    place(tape.read_rows, states * s.reads());
    place(tape.unused, done * s.heads, unused || s.free_usage);
    place(tape.content_rows, done * s.reads(), links);
  };
  place_all();
  block = recycled_array<std::byte>(total);
  at = block.get();
  place_all();
}

template <class T>
size_t Record<T>::bytes() const {
  if (!recorded) return 0;
  size_t total = tape.bytes;
  for (const auto& journal : journals) total += journal->bytes();
  return total;
}

namespace {

// Takes back what is left of a sequence that ended by an exception.
template <class T>
void abandon(const Versions<T>& before, const std::vector<Timeline<T>*>& timelines,
             const std::vector<Journal<T>*>& journals) {
  for (size_t b = 0; b < journals.size(); ++b) {
    if (journals[b] == nullptr)
      before[b]->dispose();
    else
      for (int64_t step = journals[b]->applied(); step-- > 0;) journals[b]->undo(timelines[b]->parts, step);
  }
}

// Gives each batch element a buffer of its own, at its version.
template <class T>
void separate(Versions<T>& versions) {
  std::vector<Timeline<T>*> seen;
  for (auto& version : versions) {
    if (std::find(seen.begin(), seen.end(), &version->timeline()) != seen.end()) version = copied(*version);
    seen.push_back(&version->timeline());
  }
  for (const auto& version : versions) version->make_current();
}

template <class T>
void copy_or_zero(const T* from, T* to, size_t count) {  // null for zero
  if (from)
    std::copy_n(from, count, to);
  else
    std::fill_n(to, count, T(0));
}

template <class T>
struct Copier {
  const SequenceShape& s;
  const Tape<T>& tape;

  // f(array, numbers) for each array of a state: c_t, [h, r], and the rows and weights read.
  template <class F>
  void each_part(const F& f) const {
    if (tape.cells) f(tape.cells, s.hidden);
    f(tape.joint, s.joint);
    f(tape.read_rows, s.reads());
    f(tape.read_weights, s.reads());
  }

  void state_in(const ForwardCall<T>& call) const {
    if (tape.cells) std::copy_n(call.cell, int64_t(s.batch) * s.hidden, tape.cells);
    for (int b = 0; b < s.batch; ++b) {
      T* joint = tape.joint + int64_t(b) * s.joint;
      if (s.hidden > 0) std::copy_n(call.hidden + int64_t(b) * s.hidden, s.hidden, joint);
      copy_or_zero(call.read ? call.read + int64_t(b) * s.read_width() : nullptr, joint + s.hidden, s.read_width());
    }
    std::copy(call.rows.begin(), call.rows.end(), tape.read_rows);
    std::copy_n(call.read_weights, int64_t(s.batch) * s.reads(), tape.read_weights);
  }

  // The state after `done` steps of element b becomes the one that the next piece starts from.
  void carry(int b, int64_t done) const {
    if (done == 0) return;
    each_part([&](auto* array, int32_t n) { std::copy_n(array + (done * s.batch + b) * n, n, array + int64_t(b) * n); });
  }

  void state_out(int b, int64_t done, const StateArrays<T>& to) const {
    const int64_t from = done * s.batch + b;
    auto copy = [b](const auto* array, int64_t at, int64_t n, const auto& out) {
      if (out) std::copy_n(array + at, n, out.get() + b * n);
    };
    copy(tape.cells, from * s.hidden, s.hidden, to.cell);
    copy(tape.joint, from * s.joint, s.hidden, to.hidden);
    copy(tape.joint, from * s.joint + s.hidden, s.read_width(), to.read);
    copy(tape.read_rows, from * s.reads(), s.reads(), to.rows);
    copy(tape.read_weights, from * s.reads(), s.reads(), to.weights);
  }

  // Reads, and writes (eq. lru_write_weights), of the steps of a piece that begins at `begin`.
  void trace_out(int64_t begin, int64_t steps, const int64_t* lengths, const Trace<T>& to) const {
    const InterfaceLayout layout(s);
    for (int64_t t = 0; t < steps; ++t)
      for (int b = 0; b < s.batch; ++b) {
        const int64_t from = t * s.batch + b, at = begin * s.batch + from;
        int32_t* const read_rows = to.read_rows.get() + at * s.reads();
        T* const read_weights = to.read_weights.get() + at * s.reads();
        int32_t* write_row = to.write_rows.get() + at * s.max_writes();
        T* write_weight = to.write_weights.get() + at * s.max_writes();
        if (t >= lengths[b]) {
          std::fill_n(read_rows, s.reads(), -1);
          std::fill_n(read_weights, s.reads(), T(0));
          std::fill_n(write_row, s.max_writes(), -1);
          std::fill_n(write_weight, s.max_writes(), T(0));
          continue;
        }
        std::copy_n(tape.read_rows + (from + s.batch) * s.reads(), s.reads(), read_rows);
        std::copy_n(tape.read_weights + (from + s.batch) * s.reads(), s.reads(), read_weights);
        const InterfaceView<T> request(tape.interface + from * s.interface, layout);
        for (int h = 0; h < s.heads; ++h) {
          const T alpha = request.write_gate[h], gamma = request.interpolation[h];
          for (int64_t i = from * s.reads() + h * s.k, end = i + s.k; i < end; ++i) {
            *write_row++ = tape.read_rows[i];
            *write_weight++ = alpha * gamma * tape.read_weights[i];
          }
          *write_row++ = tape.unused[from * s.heads + h];
          *write_weight++ = alpha * (1 - gamma) * (tape.room ? tape.room[from * s.heads + h] : T(1));
        }
      }
  }
};

template <class T>
StateArrays<T> state_arrays(const SequenceShape& s) {
  StateArrays<T> out;
  if (traits(s.controller).blocks > 0) out.hidden = Numbers<T>(size_t(s.batch) * s.hidden);
  if (traits(s.controller).has_cell) out.cell = Numbers<T>(size_t(s.batch) * s.hidden);
  out.read = Numbers<T>(size_t(s.batch) * s.read_width());
  out.weights = Numbers<T>(size_t(s.batch) * s.reads());
  return out;
}

// The gradients of the final memories: what later calls left, and what the caller gives.
template <class T>
BatchRowGradients<T> final_gradients(const SequenceShape& s, const BackwardCall<T>& call) {
  BatchRowGradients<T> out;
  if (call.pending) out = call.pending->take(call.pass);
  if (out.empty())
    for (int b = 0; b < s.batch; ++b) out.push_back(std::make_unique<RowGradientBuffer<T>>(s.rows, s.width));
  if (out.size() != size_t(s.batch) || !out[0]->fits(s.rows, s.width))
    throw std::invalid_argument("pending: expected gradients of the memories that this call left");
  for (size_t b = 0; b < call.d_memory.size(); ++b) out[b]->add(call.d_memory[b]);
  return out;
}

template <class T>
Trace<T> trace_arrays(const SequenceShape& s) {
  const size_t done = size_t(s.steps) * s.batch;
  return {Numbers<int32_t>(done * s.reads()), Numbers<int32_t>(done * s.max_writes()), Numbers<T>(done * s.reads()),
          Numbers<T>(done * s.max_writes())};
}

}  // namespace

template <class T>
std::shared_ptr<Record<T>> run_forward(const ForwardCall<T>& call) {
  const SequenceShape& s = call.shape;
  auto result = std::make_shared<Record<T>>(s);
  result->lengths = call.lengths;
  result->recorded = call.record;
  Versions<T> before = call.versions;
  const Claim<T> claim(before);
  separate<T>(before);
  const int64_t piece = call.record ? s.steps : std::min(s.steps, kPiece);
  result->tape = TapeArrays<T>(s, piece, call.trace);
  result->out = Numbers<T>(size_t(s.steps) * s.batch * s.put_out());
  result->state = state_arrays<T>(s);
  result->state.rows = Numbers<int64_t>(size_t(s.batch) * s.reads());
  if (call.trace) result->trace = std::make_unique<Trace<T>>(trace_arrays<T>(s));
  std::vector<int64_t> lengths(s.batch);  // in a piece
  SequenceForward<T> f{{s, call.weights, nullptr, lengths.data(), result->tape.tape, {}, {}}, nullptr};
  const Copier<T> copier{s, f.tape};
  copier.state_in(call);
  try {
    for (int b = 0; b < s.batch; ++b) {
      f.timelines.push_back(&before[b]->timeline());
      result->journals.push_back(call.record || !before[b]->is_disposable()
                                     ? std::make_shared<Journal<T>>(call.lengths[b], s, f.timelines[b]->parts)
                                     : nullptr);
      f.journals.push_back(result->journals[b].get());
      use_index(*f.timelines[b], s, call.threads, call.lengths[b]);
    }
    for (int64_t begin = 0;; begin += piece) {
      const int64_t steps = std::min(piece, s.steps - begin);
      for (int b = 0; b < s.batch; ++b) lengths[b] = std::clamp<int64_t>(call.lengths[b] - begin, 0, steps);
      f.shape.steps = steps;
      f.x = call.x + begin * s.batch * s.inputs;
      f.out = result->out.get() + begin * s.batch * s.put_out();
      if (steps > 0) sequence_kernels<T>().forward(f, call.threads);
      if (call.trace) copier.trace_out(begin, steps, lengths.data(), *result->trace);
      if (begin + steps >= s.steps) break;
      for (int b = 0; b < s.batch; ++b) copier.carry(b, lengths[b]);
    }
  } catch (...) {
    abandon<T>(before, f.timelines, f.journals);
    throw;
  }
  for (int b = 0; b < s.batch; ++b) {
    copier.state_out(b, lengths[b], result->state);
    result->after.push_back(before[b]->advanced(result->journals[b]));
  }
  if (call.record) {
    result->before = std::move(before);
  } else {
    result->tape = {};
    result->journals.clear();
  }
  return result;
}

template <class T>
std::shared_ptr<Gradients<T>> run_backward(Record<T>& record, BackwardCall<T>&& call) {
  if (!record.recorded) throw std::runtime_error("record: this forward pass recorded nothing for a backward pass");
  const Claim<T> claim(record.after);
  if (record.used.exchange(true)) throw std::runtime_error("record: its backward pass has run already");
  const SequenceShape& s = record.shape;
  auto result = std::make_shared<Gradients<T>>(s);
  const bool controls = traits(s.controller).blocks > 0;
  const size_t batch = size_t(s.batch);
  Parameters<T*> gradients;
  auto make = [](const char*, int64_t rows, int64_t columns, Numbers<T>& numbers, T*& pointer) {
    if (rows > 0) numbers = Numbers<T>(size_t(rows * std::max<int64_t>(columns, 1)));
    pointer = numbers.get();
  };
  result->parameters.each(s, make, gradients);
  if (controls && call.needs_x) result->x = Numbers<T>(size_t(s.steps) * batch * s.inputs);
  result->state = state_arrays<T>(s);
  std::vector<T> d_joint(batch * s.joint, T(0));
  for (size_t b = 0; b < batch; ++b) {
    if (call.d_hidden) std::copy_n(call.d_hidden + b * s.hidden, s.hidden, d_joint.data() + b * s.joint);
    if (call.d_read)
      std::copy_n(call.d_read + b * s.read_width(), s.read_width(), d_joint.data() + b * s.joint + s.hidden);
  }
  if (result->state.cell) copy_or_zero(call.d_cell, result->state.cell.get(), batch * s.hidden);
  copy_or_zero(call.d_weights, result->state.weights.get(), batch * s.reads());
  BatchRowGradients<T> d_memory = final_gradients(s, call);
  const TapeArrays<T> tape = std::move(record.tape);  // freed at the end
  record.tape = {};
  SequenceBackward<T> f{{s, call.weights, call.x, record.lengths.data(), tape.tape, {}, {}},
                        call.d_out,
                        d_joint.data(),
                        result->state.cell.get(),
                        result->state.weights.get(),
                        {},
                        std::move(call.d_links),
                        gradients,
                        result->x.get(),
                        call.clip};
  for (int b = 0; b < s.batch; ++b) {
    record.after[b]->make_current();
    f.timelines.push_back(&record.after[b]->timeline());
    f.journals.push_back(record.journals[b].get());
    f.d_memory.push_back(d_memory[b].get());
  }
  auto note_undone = [&] {
    for (int b = 0; b < s.batch; ++b) record.after[b]->note_undone(record.before[b]);
  };
  try {
    sequence_kernels<T>().backward(f, call.threads);
  } catch (...) {
    abandon<T>(record.before, f.timelines, f.journals);
    note_undone();
    throw;
  }
  note_undone();
  if (!controls && call.needs_x) result->x = tape.interface;
  for (size_t b = 0; b < batch; ++b) {
    const T* joint = d_joint.data() + b * s.joint;
    if (result->state.hidden) std::copy_n(joint, s.hidden, result->state.hidden.get() + b * s.hidden);
    std::copy_n(joint + s.hidden, s.read_width(), result->state.read.get() + b * s.read_width());
  }
  if (call.needs_memory && call.source)
    call.source->leave(call.pass, std::move(d_memory));
  else if (call.needs_memory)
    for (const auto& one : d_memory) result->memory.push_back(one->extracted());
  // Buffers go back blank, which is much to clear for a large batch and one thread.
  parallel_parts(s.batch, s.batch < 32 ? 1 : call.threads, [&](int32_t begin, int32_t end) {
    for (int32_t b = begin; b < end && size_t(b) < d_memory.size(); ++b) d_memory[b].reset();
  });
  result->links = std::move(f.d_links);
  return result;
}

template struct TapeArrays<float>;
template struct TapeArrays<double>;
template struct Record<float>;
template struct Record<double>;
template std::shared_ptr<Record<float>> run_forward(const ForwardCall<float>&);
template std::shared_ptr<Record<double>> run_forward(const ForwardCall<double>&);
template std::shared_ptr<Gradients<float>> run_backward(Record<float>&, BackwardCall<float>&&);
template std::shared_ptr<Gradients<double>> run_backward(Record<double>&, BackwardCall<double>&&);

}  // namespace sparsam
