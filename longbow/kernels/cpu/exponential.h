#pragma once
#include <numbers>

#include "longbow/kernels/cpu/machine.h"

namespace longbow::kernels {

// With n = round(x / ln 2) and r = x - n ln 2, exp(x) = 2^n exp(r), |r| <= ln 2 / 2, and exp(r) by
// its Taylor series, whose next term is below a rounding.
template <class T>
struct Series;
template <>
struct Series<float> {
  static constexpr int kTerms = 8, kMantissa = 23;
  static constexpr float kMagic = 0x1.8p23f, kLeast = -87.3f, kLargest = 88.3f;
  static constexpr float kHigh = 0x1.62e4p-1f, kLow = 0x1.7f7d1cp-20f;  // of ln 2
};
template <>
struct Series<double> {
  static constexpr int kTerms = 14, kMantissa = 52;
  static constexpr double kMagic = 0x1.8p52, kLeast = -708.3, kLargest = 709.4;
  static constexpr double kHigh = 0x1.62e42fefa38p-1, kLow = 0x1.ef35793c7673p-45;
};

// 1 / 0!, 1 / 1!, …
template <class T>
struct InverseFactorials {
  T of[Series<T>::kTerms];
  constexpr InverseFactorials() : of() {
    double value = 1;
    for (int i = 0; i < Series<T>::kTerms; value /= ++i) of[i] = static_cast<T>(value);
  }
};
template <class T>
constexpr InverseFactorials<T> kInverseFactorials;

// x becomes exp(x): 0 below the least normal number, the largest power that is finite above.
template <class M, class T>
[[gnu::always_inline]] inline void exponentiate(Vector<M, T>& x) {
  using S = Series<T>;
  using I = typename Lanes<M, T>::I;
  using V = Vector<M, T>;
  const V kept = x > S::kLargest ? V{} + S::kLargest : x;
  const V shifted = kept * std::numbers::log2e_v<T> + S::kMagic, n = shifted - S::kMagic;
  const V r = (kept - n * S::kHigh) - n * S::kLow;
  V sum = {};
#pragma GCC unroll 16
  for (int i = S::kTerms - 1; i >= 0; --i) sum = sum * r + kInverseFactorials<T>.of[i];
  // The lowest bits of `shifted` are n, and the exponent's lowest bit is the mantissa's next.
  const I power = __builtin_bit_cast(I, shifted) << S::kMantissa;
  const I scaled = __builtin_bit_cast(I, sum) + power;
  x = x < S::kLeast ? V{} : __builtin_bit_cast(V, scaled);
}

}  // namespace longbow::kernels
