#include "longbow/kernels/cpu/tile_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/kernels/machines.h"

namespace longbow::kernels {
namespace {

template <class T>
std::vector<T> numbers(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values(static_cast<size_t>(count));
  for (auto& value : values) value = static_cast<T>(normal(generator));
  return values;
}

struct Sizes {
  int64_t rows, columns, depth;
};

template <class M, class T>
void expect_the_definition(const Sizes& s, bool transposed, bool add, double tolerance) {
  const int64_t wide = padded<T>(s.columns);
  const auto a = numbers<T>(s.rows * s.depth, 1), b = numbers<T>(s.depth * wide, 2);
  const auto before = numbers<T>(s.rows * wide, 3);
  auto out = before;
  const int64_t a_row = transposed ? 1 : s.depth, a_step = transposed ? s.rows : 1;
  tile_product<M, T>({.rows = s.rows,
                      .columns = s.columns,
                      .depth = s.depth,
                      .a = a.data(),
                      .a_row = a_row,
                      .a_step = a_step,
                      .b = b.data(),
                      .b_row = wide,
                      .out = out.data(),
                      .out_row = wide,
                      .add = add});
  for (int64_t i = 0; i < s.rows; ++i)
    for (int64_t j = 0; j < s.columns; ++j) {
      double want = add ? before[i * wide + j] : 0, size = 1;
      for (int64_t l = 0; l < s.depth; ++l) {
        const double term = static_cast<double>(a[i * a_row + l * a_step]) * b[l * wide + j];
        want += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(out[i * wide + j], want, tolerance * size)
          << i << ", " << j << " of " << s.rows << " x " << s.columns << " x " << s.depth;
    }
}

const std::vector<Sizes> kSizes = {{1, 1, 1},    {7, 5, 3},    {8, 16, 9},  {9, 17, 64},
                                   {64, 64, 64}, {13, 48, 65}, {6, 100, 1}, {3, 31, 0}};

TEST(TileProduct, IsTheDefinitionOnEveryMachine) {
  on_each_machine([](const char* name, auto machine) {
    using M = decltype(machine);
    SCOPED_TRACE(name);
    for (const auto& sizes : kSizes)
      for (const bool transposed : {false, true})
        for (const bool add : {false, true}) {
          expect_the_definition<M, float>(sizes, transposed, add, 1e-6);
          expect_the_definition<M, double>(sizes, transposed, add, 1e-15);
        }
  });
}

}  // namespace
}  // namespace longbow::kernels
