#include "longbow/kernels/causal_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace longbow::kernels {
namespace {

struct Sizes {
  int64_t batch, length, p, q;
};

std::vector<double> numbers(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(count));
  for (auto& value : values) value = normal(generator);
  return values;
}

template <class T>
std::vector<T> as(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

// The definition, one pair of positions after the other.
std::vector<double> oracle(const Sizes& s, const std::vector<double>& x,
                           const std::vector<double>& y, const std::vector<double>& z,
                           bool reversed) {
  std::vector<double> out(z.size(), 0);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t t = 0; t < s.length; ++t)
      for (int64_t i = reversed ? t : 0; i < (reversed ? s.length : t + 1); ++i) {
        double dot = 0;
        for (int64_t f = 0; f < s.p; ++f)
          dot += x[(b * s.length + t) * s.p + f] * y[(b * s.length + i) * s.p + f];
        for (int64_t f = 0; f < s.q; ++f)
          out[(b * s.length + t) * s.q + f] += dot * z[(b * s.length + i) * s.q + f];
      }
  return out;
}

template <class T>
void expect_the_definition(const Sizes& s, bool reversed, double tolerance) {
  const auto x = numbers(s.batch * s.length * s.p, 1), y = numbers(s.batch * s.length * s.p, 2),
             z = numbers(s.batch * s.length * s.q, 3);
  const auto a = as<T>(x), b = as<T>(y), c = as<T>(z);
  std::vector<T> out(z.size(), static_cast<T>(NAN));
  causal_product(CausalProduct<T>{.x = a.data(),
                                  .y = b.data(),
                                  .z = c.data(),
                                  .out = out.data(),
                                  .batch = s.batch,
                                  .length = s.length,
                                  .p = s.p,
                                  .q = s.q,
                                  .reversed = reversed});
  const auto want = oracle(s, x, y, z, reversed);
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(out[i], want[i], tolerance * (1 + std::abs(want[i])))
        << "element " << i << ", length " << s.length;
}

const std::vector<Sizes> kSizes = {{1, 1, 1, 1},    {2, 31, 5, 3},  {1, 32, 8, 9},
                                   {3, 33, 17, 32}, {1, 67, 4, 65}, {2, 96, 33, 40}};

TEST(CausalProductKernel, IsTheDefinitionInFloat64) {
  for (const auto& sizes : kSizes)
    for (const bool reversed : {false, true}) expect_the_definition<double>(sizes, reversed, 1e-11);
}

TEST(CausalProductKernel, IsTheDefinitionInFloat32) {
  for (const auto& sizes : kSizes)
    for (const bool reversed : {false, true}) expect_the_definition<float>(sizes, reversed, 2e-3);
}

TEST(CausalProductKernel, AnEmptySequenceWritesNothing) {
  float out = 7;
  causal_product(CausalProduct<float>{.x = nullptr,
                                      .y = nullptr,
                                      .z = nullptr,
                                      .out = &out,
                                      .batch = 1,
                                      .length = 0,
                                      .p = 2,
                                      .q = 2,
                                      .reversed = false});
  EXPECT_EQ(out, 7);
}

}  // namespace
}  // namespace longbow::kernels
