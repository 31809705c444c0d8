#include "longbow/nn/layers/layer_norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(LayerNorm, NormalisesTheLastDimension) {
  const auto x = random_normal({3, 8}, 1).to(at::kFloat);
  const auto centred = x - x.mean(-1, true);
  const auto want = centred / (centred.square().mean(-1, true) + 1e-5).sqrt();
  EXPECT_NEAR_TENSOR(LayerNorm(8)(x), want, tolerance(at::kFloat));
}

}  // namespace
}  // namespace longbow
