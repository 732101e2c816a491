// Vectors of the width that this translation unit is compiled for, and the functions of the LSTM on them.
// Included once per instruction set: everything lives in a namespace of that set's name.
#pragma once

#include <cstdint>
#include <cstring>

#ifndef SPARSAM_ISA
#error "define SPARSAM_ISA (the namespace) and SPARSAM_VECTOR_BYTES before including simd.h"
#endif

namespace sparsam::SPARSAM_ISA {

template <class T>
struct Simd;

template <>
struct Simd<float> {
  typedef float V __attribute__((vector_size(SPARSAM_VECTOR_BYTES)));
  typedef int32_t I __attribute__((vector_size(SPARSAM_VECTOR_BYTES)));
  static constexpr int kMantissa = 23, kBias = 127, kTerms = 7;
  static constexpr float kTanhLimit = 9.5f, kExpLow = -87.0f, kExpHigh = 88.0f;
};

template <>
struct Simd<double> {
  typedef double V __attribute__((vector_size(SPARSAM_VECTOR_BYTES)));
  typedef int64_t I __attribute__((vector_size(SPARSAM_VECTOR_BYTES)));
  static constexpr int kMantissa = 52, kBias = 1023, kTerms = 13;
  static constexpr double kTanhLimit = 20.0, kExpLow = -708.0, kExpHigh = 709.0;
};

template <class T>
using Vec = typename Simd<T>::V;
template <class T>
constexpr int kLanes = SPARSAM_VECTOR_BYTES / sizeof(T);

template <class T>
inline Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
template <class T>
inline void store(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof(v));
}
template <class T>
inline Vec<T> splat(T x) {
  return x - Vec<T>{};
}
// The first n lanes; the others read as zero and are not written.
template <class T>
inline Vec<T> load_some(const T* p, int n) {
  Vec<T> v{};
  std::memcpy(&v, p, sizeof(T) * n);
  return v;
}
template <class T>
inline void store_some(T* p, Vec<T> v, int n) {
  std::memcpy(p, &v, sizeof(T) * n);
}

template <class T>
inline T sum(Vec<T> v) {
  // Halve until one lane is left; written over an array that the compiler keeps in registers.
  T lane[kLanes<T>];
  std::memcpy(lane, &v, sizeof(v));
  for (int n = kLanes<T> / 2; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) lane[i] += lane[i + n];
  return lane[0];
}

template <class T>
inline Vec<T> minimum(Vec<T> a, Vec<T> b) {
  return a < b ? a : b;
}
template <class T>
inline Vec<T> maximum(Vec<T> a, Vec<T> b) {
  return a > b ? a : b;
}

// e^x - 1 = 2^n (e^r - 1) + (2^n - 1) with x = n ln 2 + r, |r| <= ln 2 / 2, and e^r - 1 by its series: exact to rounding
// for small x too, where e^x - 1 computed from e^x is not.
template <class T>
struct Expm1 {
  Vec<T> scale, fraction;  // 2^n and e^r - 1
  explicit Expm1(Vec<T> x) {
    using I = typename Simd<T>::I;
    constexpr T kLog2E = T(1.44269504088896340736), kMagic = T(3LL << (Simd<T>::kMantissa - 1));
    constexpr T kLn2High = sizeof(T) == 4 ? T(0.693359375) : T(6.93145751953125e-1);
    constexpr T kLn2Low = sizeof(T) == 4 ? T(-2.12194440e-4) : T(1.42860682030941723212e-6);
    const Vec<T> shifted = x * splat<T>(kLog2E) + splat<T>(kMagic);  // rounds to the nearest integer
    const Vec<T> n = shifted - splat<T>(kMagic);
    const Vec<T> r = (x - n * splat<T>(kLn2High)) - n * splat<T>(kLn2Low);
    const I exponent = __builtin_convertvector(n, I) + Simd<T>::kBias;
    const I bits = exponent << Simd<T>::kMantissa;
    std::memcpy(&scale, &bits, sizeof(scale));
    // r + r^2/2! + r^3/3! + ... by Horner's rule, the reciprocal factorials folded at compile time.
    T factorial = 1;
    for (int i = 2; i <= Simd<T>::kTerms; ++i) factorial *= T(i);
    Vec<T> p = splat<T>(T(1) / factorial);
    for (int i = Simd<T>::kTerms - 1; i >= 1; --i) {
      factorial /= T(i + 1);
      p = p * r + splat<T>(T(1) / factorial);
    }
    fraction = p * r;
  }
};

template <class T>
inline Vec<T> exponential(Vec<T> x) {
  x = minimum<T>(maximum<T>(x, splat<T>(Simd<T>::kExpLow)), splat<T>(Simd<T>::kExpHigh));
  const Expm1<T> e(x);
  return e.scale * e.fraction + e.scale;
}

template <class T>
inline Vec<T> sigmoid(Vec<T> x) {
  return splat<T>(1) / (splat<T>(1) + exponential<T>(-x));
}

template <class T>
inline Vec<T> hyperbolic_tangent(Vec<T> x) {
  const Vec<T> limit = splat<T>(Simd<T>::kTanhLimit);
  x = minimum<T>(maximum<T>(x, -limit), limit);
  const Expm1<T> e(x + x);
  const Vec<T> m = e.scale * e.fraction + (e.scale - splat<T>(1));
  return m / (m + splat<T>(2));
}

// f over n numbers, in whole vectors and one partial one.
template <class T, class F>
inline void for_each_vector(int n, F&& f) {
  int i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) f(i, kLanes<T>);
  if (i < n) f(i, n - i);
}

// Widths of words are padded to whole cache lines, so these need no tails.
template <class T>
inline T dot(const T* a, const T* b, int width) {
  Vec<T> s{};
  for (int j = 0; j < width; j += kLanes<T>) s += load(a + j) * load(b + j);
  return sum<T>(s);
}
template <class T>
inline void add_scaled(T* out, T scale, const T* x, int width) {
  const Vec<T> s = splat(scale);
  for (int j = 0; j < width; j += kLanes<T>) store<T>(out + j, load(out + j) + s * load(x + j));
}

}  // namespace sparsam::SPARSAM_ISA
