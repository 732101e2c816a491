// Vectors of the width that this translation unit is compiled for, and the functions of the LSTM on them.
// Included once per instruction set: everything lives in a namespace of that set's name.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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
// The first n lanes; the others read as zero and are not written. A call of memcpy, which a length that varies would be,
// takes longer than all that is done with these numbers.
template <class T>
inline Vec<T> load_some(const T* p, int n) {
  if (n == kLanes<T>) return load(p);
#if SPARSAM_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4)
    return _mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p);
  else
    return _mm512_maskz_loadu_pd(__mmask8((1u << n) - 1), p);
#else
  Vec<T> v{};
  std::memcpy(&v, p, sizeof(T) * n);
  return v;
#endif
}
template <class T>
inline void store_some(T* p, Vec<T> v, int n) {
  if (n == kLanes<T>) return store<T>(p, v);
#if SPARSAM_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), v);
  else
    _mm512_mask_storeu_pd(p, __mmask8((1u << n) - 1), v);
#else
  std::memcpy(p, &v, sizeof(T) * n);
#endif
}

// v as it is, rounded: the compiler does not make one operation of what made it and what takes it.
template <class V>
inline V rounded(V v) {
#if defined(__x86_64__)
  asm("" : "+x"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#endif
  return v;
}

// Lane i of the result is a[i] + a[i ^ d] where bit d of i is clear, and b[i] + b[i ^ d] where it is set.
template <class T, int d, int... i>
inline Vec<T> fold_lanes(Vec<T> a, Vec<T> b, std::integer_sequence<int, i...>) {
  constexpr int L = kLanes<T>;
  return __builtin_shufflevector(a, b, (i & d ? i + L : i)...) +
         __builtin_shufflevector(a, b, (i & d ? (i ^ d) + L : i ^ d)...);
}
template <class T, int d>
inline Vec<T> fold(Vec<T> a, Vec<T> b) {
  return fold_lanes<T, d>(a, b, std::make_integer_sequence<int, kLanes<T>>{});
}

// The sums of as many vectors as there are lanes, sum i in lane i. The vectors are used up.
template <class T, int d = kLanes<T> / 2>
inline Vec<T> sums(Vec<T>* v) {
#pragma GCC unroll 8
  for (int j = 0; j < d; ++j) v[j] = fold<T, d>(v[j], v[j + d]);
  if constexpr (d == 1)
    return v[0];
  else
    return sums<T, d / 2>(v);
}

// Exchanges the halves of a 2 x 2 block matrix of vectors at lane distance d; over all d this transposes.
template <class T, int d, int... i>
inline void exchange(Vec<T>& a, Vec<T>& b, std::integer_sequence<int, i...>) {
  constexpr int L = kLanes<T>;
  const Vec<T> low = __builtin_shufflevector(a, b, (i & d ? (i ^ d) + L : i)...);
  b = __builtin_shufflevector(a, b, (i & d ? i + L : i ^ d)...);
  a = low;
}
template <class T, int d = kLanes<T> / 2>
inline void transpose(Vec<T>* v) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i)
    if ((i & d) == 0) exchange<T, d>(v[i], v[i + d], std::make_integer_sequence<int, kLanes<T>>{});
  if constexpr (d > 1) transpose<T, d / 2>(v);
}

template <class T, int d = kLanes<T> / 2>
inline T sum(Vec<T> v) {
  v = fold<T, d>(v, v);
  if constexpr (d == 1)
    return v[0];
  else
    return sum<T, d / 2>(v);
}

// Where `a` is not a number, so is the result: a limit on `a` must not make a number of it.
template <class T>
inline Vec<T> minimum(Vec<T> a, Vec<T> b) {
  return b < a ? b : a;
}
template <class T>
inline Vec<T> maximum(Vec<T> a, Vec<T> b) {
  return b > a ? b : a;
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
inline Vec<T> expm1(Vec<T> x) {
  x = minimum<T>(maximum<T>(x, splat<T>(Simd<T>::kExpLow)), splat<T>(Simd<T>::kExpHigh));
  const Expm1<T> e(x);
  return e.scale * e.fraction + (e.scale - splat<T>(1));
}

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

// log(1 + e^x) = max(x, 0) + log(1 + y) with y = e^-|x|, and log(1 + y) = 2 artanh(y / (2 + y)) by its series: the
// argument is at most 1/3.
template <class T>
inline Vec<T> softplus(Vec<T> x) {
  constexpr int kArtanhTerms = sizeof(T) == 4 ? 8 : 18;
  const Vec<T> y = exponential<T>(minimum<T>(x, -x)), s = y / (y + splat<T>(2)), square = s * s;
  Vec<T> p = splat<T>(T(1) / (2 * kArtanhTerms - 1));
  for (int i = kArtanhTerms - 1; i >= 1; --i) p = p * square + splat<T>(T(1) / (2 * i - 1));
  return maximum<T>(x, Vec<T>{}) + splat<T>(2) * s * p;
}

// f over n numbers, in whole vectors and one partial one. `f` takes the offset and a number of lanes; mark it inline, so
// that the number is a constant in the loop.
template <class T, class F>
inline void for_each_vector(int n, F&& f) {
  int i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) f(i, std::integral_constant<int, kLanes<T>>{});
  if (i < n) f(i, n - i);
}

// f with a number from 1 to Most as a constant, std::integral_constant<int, n>.
template <int Most, class F>
inline void with_constant(int n, F&& f) {
  if constexpr (Most > 1)
    if (n < Most) return with_constant<Most - 1>(n, f);
  f(std::integral_constant<int, Most>{});
}

// Copies n numbers, few enough that a call would count.
template <class T>
inline void copy_numbers(T* to, const T* from, int n) {
  for_each_vector<T>(n, [&](int i, auto some) __attribute__((always_inline)) {
    store_some<T>(to + i, load_some(from + i, some), some);
  });
}

// Bit i is set where lane i of a is at least lane i of b.
template <class T>
inline uint32_t at_least(Vec<T> a, Vec<T> b) {
#if SPARSAM_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4)
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
  else
    return _mm512_cmp_pd_mask(a, b, _CMP_GE_OQ);
#elif SPARSAM_VECTOR_BYTES == 32
  if constexpr (sizeof(T) == 4)
    return static_cast<uint32_t>(_mm256_movemask_ps((__m256)(a >= b)));
  else
    return static_cast<uint32_t>(_mm256_movemask_pd((__m256d)(a >= b)));
#else
  uint32_t bits = 0;
  for (int i = 0; i < kLanes<T>; ++i) bits |= uint32_t(a[i] >= b[i]) << i;
  return bits;
#endif
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
