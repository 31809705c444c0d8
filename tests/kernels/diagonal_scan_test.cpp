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
void expect_the_recurrence(int64_t length, int64_t modes, bool reversed, bool with_products,
                           double tolerance) {
  const int64_t width = modes + 3;
  auto a = numbers(modes, 1);
  for (auto& factor : a) factor *= 0.9 / std::abs(factor);
  const auto b = numbers(length * width, 2);
  const auto factors = pairs<T>(a), added = pairs<T>(b);
  const auto others = numbers(length * width, 3);
  const auto beside = pairs<T>(others);
  std::vector<T> out(added.size(), T(7));
  std::vector<double> products(static_cast<size_t>(2 * modes));
  diagonal_scan(DiagonalScan<T>{.factors = factors.data(),
                                .b = added.data(),
                                .out = out.data(),
                                .length = length,
                                .stride = 2 * width,
                                .modes = modes,
                                .reversed = reversed,
                                .others = with_products ? beside.data() : nullptr,
                                .products = with_products ? products.data() : nullptr});
  Numbers want(b.size(), {7, 7}), state(a.size()), sums(a.size());
  for (int64_t i = 0; i < length; ++i) {
    const int64_t t = reversed ? length - 1 - i : i, next = reversed ? t - 1 : t + 1;
    for (int64_t m = 0; m < modes; ++m) {
      want[t * width + m] = state[m] = a[m] * state[m] + b[t * width + m];
      if (with_products && i + 1 < length)
        sums[m] += state[m] * std::conj(others[next * width + m]);
    }
  }
  const auto expected = pairs<double>(want), expected_products = pairs<double>(sums);
  for (size_t i = 0; i < out.size(); ++i)
    ASSERT_NEAR(out[i], expected[i], tolerance) << "number " << i << ", length " << length;
  for (size_t i = 0; i < products.size(); ++i)
    ASSERT_NEAR(products[i], expected_products[i], 100 * tolerance) << "product " << i;
}

TEST(DiagonalScanKernel, IsTheRecurrence) {
  for (const bool reversed : {false, true})
    for (const bool with_products : {false, true})
      for (const int64_t length : {0, 1, 2, 100})
        for (const int64_t modes : {int64_t{1}, int64_t{5}, kScanModes}) {
          expect_the_recurrence<double>(length, modes, reversed, with_products, 1e-12);
          expect_the_recurrence<float>(length, modes, reversed, with_products, 1e-4);
        }
}

}  // namespace
}  // namespace longbow::kernels
