// Gradients of memories that wait for their call: sums of several futures, one backward pass apart from the other.
#include <memory>

#include "check.h"
#include "memory/gradients.h"

using namespace sparsam;

namespace {

constexpr int32_t kRows = 20, kWidth = 3, kBatch = 2;

// One row of each element has this gradient.
BatchRowGradients<double> with(int32_t row, double value) {
  BatchRowGradients<double> out;
  for (int b = 0; b < kBatch; ++b) {
    out.push_back(std::make_unique<RowGradientBuffer<double>>(kRows, kWidth));
    for (int32_t j = 0; j < kWidth; ++j) out[size_t(b)]->row(row)[j] = value + b;
  }
  return out;
}

void check_futures_add_up() {
  PendingGradients<double> pending;
  CHECK(pending.take(1).empty());
  pending.leave(1, with(4, 1.0));
  pending.leave(1, with(4, 10.0));
  pending.leave(1, with(7, 5.0));
  CHECK(pending.size() == 1);
  const BatchRowGradients<double> found = pending.take(1);
  CHECK(found.size() == kBatch && pending.size() == 0);
  CHECK(found[0]->row(4)[0] == 11.0 && found[1]->row(4)[2] == 13.0 && found[0]->row(7)[1] == 5.0);
  CHECK(!found[0]->touched(5) && found[0]->fits(kRows, kWidth) && !found[0]->fits(kRows, kWidth + 1));
}

void check_passes_are_apart() {
  PendingGradients<double> pending;
  for (int64_t pass = 0; pass < 30; ++pass) pending.leave(pass, with(1, double(pass)));  // none of them arrives
  CHECK(pending.size() <= 8);
  pending.leave(30, with(2, 1.0));
  const BatchRowGradients<double> found = pending.take(30);
  CHECK(found[0]->row(2)[0] == 1.0 && !found[0]->touched(1));
  CHECK(pending.take(30).empty() && pending.take(3).empty());
}

void check_batches_fit() {
  PendingGradients<double> pending;
  pending.leave(1, with(1, 1.0));
  BatchRowGradients<double> one = with(1, 1.0);
  one.pop_back();
  bool refused = false;
  try {
    pending.leave(1, std::move(one));
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  CHECK(refused);
}

}  // namespace

int main() {
  check_futures_add_up();
  check_passes_are_apart();
  check_batches_fit();
  return 0;
}
