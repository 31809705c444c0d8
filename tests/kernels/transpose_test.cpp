#include "longbow/kernels/cpu/transpose.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/machines.h"

namespace longbow::kernels {
namespace {

template <class T>
struct Transposition {
  const std::vector<T>& from;
  int64_t row, count, width;
  std::vector<T>& to;
  template <class M>
  [[gnu::always_inline]] void on() const {
    transpose_rows<M, T>(from.data(), row, count, width, T(3), to.data(), padded<T>(count));
  }
};

template <class M, class T>
void expect_transposed(int64_t count, int64_t width) {
  const int64_t row = width + 3, columns = padded<T>(count);
  std::vector<T> from(static_cast<size_t>((count - 1) * row + width));  // no room behind the last
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i);
  std::vector<T> to(static_cast<size_t>(padded<T>(width) * columns), T(-1));
  M::run(Transposition<T>{from, row, count, width, to});
  for (int64_t c = 0; c < width; ++c)
    for (int64_t i = 0; i < columns; ++i)
      ASSERT_EQ(to[c * columns + i], i < count ? 3 * from[i * row + c] : T(0))
          << count << " x " << width << ": " << i << ", " << c;
}

TEST(TransposeRows, FillsUpWithZerosOnEveryMachine) {
  on_each_machine([](const char* name, auto machine) {
    using M = decltype(machine);
    SCOPED_TRACE(name);
    for (const auto& [count, width] : {std::pair{1, 1}, {64, 64}, {5, 70}, {63, 16}, {17, 33}}) {
      expect_transposed<M, float>(count, width);
      expect_transposed<M, double>(count, width);
    }
  });
}

}  // namespace
}  // namespace longbow::kernels
