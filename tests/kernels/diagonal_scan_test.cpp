#include "longbow/kernels/diagonal_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>
#include <vector>

namespace longbow::kernels {
namespace {

using Numbers = std::vector<std::complex<double>>;

Numbers numbers(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  Numbers values(static_cast<size_t>(count));
  for (auto& value : values) value = {normal(generator), normal(generator)};
  return values;
}

template <class T>
std::vector<T> pairs(const Numbers& values) {
  std::vector<T> result;
  for (const auto& value : values) {
    result.push_back(static_cast<T>(value.real()));
    result.push_back(static_cast<T>(value.imag()));
  }
  return result;
}

// Rows of `width` numbers, of which the first `modes` are scanned and the others left alone.
template <class T>
void expect_the_recurrence(int64_t length, int64_t modes, bool reversed, double tolerance) {
  const int64_t width = modes + 3;
  auto a = numbers(modes, 1);
  for (auto& factor : a) factor *= 0.9 / std::abs(factor);
  const auto b = numbers(length * width, 2);
  const auto factors = pairs<T>(a), added = pairs<T>(b);
  std::vector<T> out(added.size(), T(7));
  diagonal_scan(DiagonalScan<T>{.factors = factors.data(),
                                .b = added.data(),
                                .out = out.data(),
                                .length = length,
                                .stride = 2 * width,
                                .modes = modes,
                                .reversed = reversed});
  Numbers want(b.size(), {7, 7}), state(a.size());
  for (int64_t i = 0; i < length; ++i) {
    const int64_t t = reversed ? length - 1 - i : i;
    for (int64_t m = 0; m < modes; ++m)
      want[t * width + m] = state[m] = a[m] * state[m] + b[t * width + m];
  }
  const auto expected = pairs<double>(want);
  for (size_t i = 0; i < out.size(); ++i)
    ASSERT_NEAR(out[i], expected[i], tolerance) << "number " << i << ", length " << length;
}

TEST(DiagonalScanKernel, IsTheRecurrence) {
  for (const bool reversed : {false, true})
    for (const int64_t length : {0, 1, 2, 100})
      for (const int64_t modes : {int64_t{1}, int64_t{5}, kScanModes}) {
        expect_the_recurrence<double>(length, modes, reversed, 1e-12);
        expect_the_recurrence<float>(length, modes, reversed, 1e-4);
      }
}

}  // namespace
}  // namespace longbow::kernels
