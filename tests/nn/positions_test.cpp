#include "longbow/nn/layers/positions.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(Positions, SinesAndCosinesTakeTurns) {
  for (const int64_t width : {1, 6, 7}) {
    const auto table = sinusoids(5, width);
    ASSERT_EQ(table.sizes(), at::IntArrayRef({5, width}));
    for (int64_t t = 0; t < 5; ++t)
      for (int64_t c = 0; c < width; ++c) {
        const double exponent = static_cast<double>(c / 2 * 2) / static_cast<double>(width);
        const double angle = static_cast<double>(t) / std::pow(10000.0, exponent);
        EXPECT_NEAR(table[t][c].item<double>(), c % 2 == 0 ? std::sin(angle) : std::cos(angle),
                    1e-6);
      }
  }
}

}  // namespace
}  // namespace longbow
