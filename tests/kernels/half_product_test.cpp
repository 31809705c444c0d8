#include "longbow/kernels/cpu/half_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace longbow::kernels {
namespace {

float number(Bfloat16 x) {
  const auto bits = static_cast<uint32_t>(x.bits) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Random float32 numbers that are bfloat16 numbers, or are not.
std::vector<float> numbers(int64_t count, unsigned seed, bool rounded) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = normal(generator);
    if (!rounded) continue;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    value = number({static_cast<uint16_t>(bits >> 16)});
  }
  return values;
}

std::vector<Bfloat16> halves(const std::vector<float>& values) {
  std::vector<Bfloat16> found;
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    found.push_back({static_cast<uint16_t>(bits >> 16)});
  }
  return found;
}

struct Operand {
  const void* data;
  int64_t row, step;
};

// out [rows, columns] = a b + before, where value_of(i, l) and value_of(l, j) say what was packed.
template <class A, class B>
void expect_product(int64_t rows, int64_t columns, int64_t depth, const Operand& a,
                    const Operand& b, const A& a_of, const B& b_of, float tolerance) {
  for (const bool add : {false, true}) {
    const int64_t wide = (columns + 15) / 16 * 16;
    const auto before = numbers(rows * wide, 7, false);
    auto out = before;
    half_product({.rows = rows,
                  .columns = columns,
                  .depth = (depth + 1) / 2,
                  .a = a.data,
                  .a_row = a.row,
                  .a_step = a.step,
                  .b = b.data,
                  .b_row = b.row,
                  .out = out.data(),
                  .out_row = wide,
                  .add = add});
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        float want = add ? before[i * wide + j] : 0, size = 1;
        for (int64_t l = 0; l < depth; ++l) {
          want += a_of(i, l) * b_of(l, j);
          size += std::abs(a_of(i, l) * b_of(l, j));
        }
        ASSERT_NEAR(out[i * wide + j], want, tolerance * size) << i << ", " << j;
      }
  }
}

class HalfProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_half_products()) GTEST_SKIP() << "this machine has no products of bfloat16";
  }
};

// Scores: rows of keys as they stand, and rows of queries transposed.
TEST_F(HalfProducts, ReadRowsByColumns) {
  for (const int64_t rows : {1, 7, 8, 21})
    for (const int64_t width : {1, 6, 31, 34}) {
      const int64_t columns = 64, row = 66;
      const auto a = numbers(rows * row, 1, true), b = numbers(columns * row, 2, true);
      auto left = halves(a), right = halves(b);
      for (int64_t i = 0; i < rows; ++i) left[i * row + width] = {0};
      for (int64_t j = 0; j < columns; ++j) right[j * row + width] = {0};
      std::vector<int32_t> words(static_cast<size_t>(32 * columns), -1);
      pair_columns(right.data(), row, columns, width, words.data(), columns);
      expect_product(
          rows, columns, width, {left.data(), row / 2, 1}, {words.data(), columns, 0},
          [&](int64_t i, int64_t l) { return a[i * row + l]; },
          [&](int64_t l, int64_t j) { return b[j * row + l]; }, 1e-5F);
    }
}

// Sums over keys: weights in float32, by keys or by queries, and rows one below the other.
TEST_F(HalfProducts, ReadTilesByRows) {
  for (const int64_t depth : {1, 2, 33, 64})
    for (const int64_t width : {3, 16, 47}) {
      const int64_t side = 64, columns = (width + 15) / 16 * 16;
      const auto scores = numbers(side * side, 3, false), b = numbers(depth * width, 4, true);
      const auto right = halves(b);
      std::vector<uint32_t> words(static_cast<size_t>(side * columns), ~0U), left(side * side);
      pair_rows(right.data(), width, depth, width, words.data(), columns);
      const auto b_of = [&](int64_t l, int64_t j) { return b[l * width + j]; };
      halve_columns(scores.data(), depth, side, left.data());
      expect_product(
          side, width, depth, {left.data(), 1, side}, {words.data(), columns, 0},
          [&](int64_t i, int64_t l) { return scores[l * side + i]; }, b_of, 4e-3F);
      halve_rows(scores.data(), side, side, left.data());
      expect_product(
          side, width, depth, {left.data(), side / 2, 1}, {words.data(), columns, 0},
          [&](int64_t i, int64_t l) { return scores[i * side + l]; }, b_of, 4e-3F);
    }
}

}  // namespace
}  // namespace longbow::kernels
