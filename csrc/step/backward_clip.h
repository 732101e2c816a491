// What a step hands back to [h, r] of the step before, limited to so many times the largest number that came from outside:
// out of the outputs of this and later steps, and of the final state. Off, gradients are exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace sparsam::SPARSAM_ISA {

template <class T>
class BackwardClip {
 public:
  BackwardClip(double times, int elements, int joint)
      : times_(T(times)), joint_(joint), largest_(on() ? elements : 0), given_(on() ? size_t(elements) * joint : 0) {}
  bool on() const { return times_ > 0; }
  // Room for what [h, r] of an element gets from its output, zeroed.
  T* room(int element) {
    T* row = given_.data() + size_t(element) * joint_;
    std::fill_n(row, joint_, T(0));
    return row;
  }
  void note(int element, const T* from_outside) {
    T& largest = largest_[element];
    for (int j = 0; j < joint_; ++j) largest = std::max(largest, std::abs(from_outside[j]));  // a NaN is passed over
  }
  void note_and_add(int element, T* to) {
    const T* row = given_.data() + size_t(element) * joint_;
    note(element, row);
    for (int j = 0; j < joint_; ++j) to[j] += row[j];
  }
  // Nothing is limited before anything came from outside; a NaN stays one.
  void limit(int element, T* handed_back) const {
    const T most = times_ * largest_[element];
    if (!(most > 0)) return;
    for (int j = 0; j < joint_; ++j) {
      const T x = handed_back[j];
      handed_back[j] = x > most ? most : x < -most ? -most : x;
    }
  }

 private:
  T times_;
  int joint_;
  std::vector<T> largest_, given_;
};

}  // namespace sparsam::SPARSAM_ISA
