#include "longbow/ops/chunk_decays.h"

#include <ATen/ATen.h>

#include <cmath>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(ChunkDecays, AreTheProductsOfTheDecaysBetweenTwoTokens) {
  const auto g = at::tensor({-1., -2., -1e30, -4.}, at::kDouble).view({1, 4, 1});
  const double second = std::exp(-2), last = std::exp(-4);
  EXPECT_NEAR_TENSOR(
      chunk_decays(g),
      at::tensor({1., 0., 0., 0., second, 1., 0., 0., 0., 0., 1., 0., 0., 0., last, 1.},
                 at::kDouble)
          .view({1, 4, 4}),
      tolerance(at::kDouble));
}

}  // namespace
}  // namespace longbow
