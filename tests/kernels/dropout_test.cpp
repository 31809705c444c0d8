#include "longbow/kernels/dropout.h"

#include <gtest/gtest.h>

#include <vector>

#include "longbow/kernels/philox_rounds.h"

namespace longbow::kernels {
namespace {

template <class T>
void expect_dropped(Element type) {
  const int64_t key[] = {7, 2};
  std::vector<T> x(2051), y(2051, -1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i + 1);
  dropout({.type = type,
           .key = key,
           .site = 3,
           .x = x.data(),
           .y = y.data(),
           .first = 8,
           .count = 2050,
           .rate = 0.5});
  for (int64_t i = 0; i < 2050; ++i) {
    const auto word = philox_site(7, 2, 3, (8 + i) / 4).word[(8 + i) % 4];
    EXPECT_EQ(y[i], philox_unit(word) >= 0.5F ? 2 * x[i] : 0) << i;
  }
  EXPECT_EQ(y.back(), -1) << "behind the last one nothing is written";
}

TEST(DropoutKernel, DropsByThePhiloxWordOfEachElement) {
  expect_dropped<float>(Element::float32);
  expect_dropped<double>(Element::float64);
}

}  // namespace
}  // namespace longbow::kernels
