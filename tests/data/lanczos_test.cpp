#include "longbow/data/sets/pathfinder/lanczos.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longbow::pathfinder {
namespace {

double sinc(double x) {
  return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

// Pixel i of a row of `from` pixels made smaller, by the definition and without rounding.
double expected(const std::vector<double>& row, int to, int i) {
  const double scale = double(row.size()) / to;
  double sum = 0, weights = 0;
  for (size_t j = 0; j < row.size(); ++j) {
    const double u = (double(j) + 0.5 - (i + 0.5) * scale) / scale;
    const double weight = std::abs(u) < 3 ? sinc(u) * sinc(u / 3) : 0;
    sum += weight * row[j];
    weights += weight;
  }
  return std::clamp(std::floor(sum / weights + 0.5), 0.0, 255.0);
}

TEST(Lanczos, LeavesOneColourAsItIs) {
  for (const auto& [from, to] : {std::pair(17, 9), {64, 32}, {41, 21}}) {
    Square square(from);
    std::fill(square.bytes.begin(), square.bytes.end(), 200);
    for (const auto byte : Lanczos(from, to)(square).bytes) EXPECT_EQ(byte, 200);
  }
}

TEST(Lanczos, IsRowsThenColumnsEachRounded) {
  for (const auto& [from, to] : {std::pair(17, 9), {29, 15}, {64, 32}}) {
    Square square(from);
    for (size_t i = 0; i < square.bytes.size(); ++i)
      square.bytes[i] = (i * i * 7919) % 5 < 2 ? 255 : 0;
    std::vector<std::vector<double>> columns(static_cast<size_t>(to));
    for (int x = 0; x < to; ++x)
      for (int y = 0; y < from; ++y) {
        std::vector<double> row;
        for (int j = 0; j < from; ++j) row.push_back(square[{y, j}]);
        columns[static_cast<size_t>(x)].push_back(expected(row, to, x));
      }
    const auto small = Lanczos(from, to)(square);
    ASSERT_EQ(small.side, to);
    for (int y = 0; y < to; ++y)
      for (int x = 0; x < to; ++x)
        EXPECT_EQ((small[{y, x}]), expected(columns[static_cast<size_t>(x)], to, y))
            << y << "," << x;
  }
}

TEST(Lanczos, GivesAPartAsItIsInTheWhole) {
  Square square(32);
  for (size_t i = 0; i < square.bytes.size(); ++i) square.bytes[i] = static_cast<uint8_t>(i * 13);
  const Lanczos smaller(32, 16);
  const auto whole = smaller(square), part = smaller(square, {0, 5}, {3, 15});
  for (int y = 0; y < 16; ++y)
    for (int x = 0; x < 16; ++x) EXPECT_EQ((part[{y, x}]), y <= 3 && x >= 5 ? (whole[{y, x}]) : 0);
}

}  // namespace
}  // namespace longbow::pathfinder
