#include "longbow/ops/affine.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(Affine, IsItsDefinitionWithAndWithoutABias) {
  const auto x = random_normal({2, 3, 5}, 1), w = random_normal({4, 5}, 2),
             b = random_normal({4}, 3);
  const auto product = (x.unsqueeze(-2) * w).sum(-1);
  EXPECT_NEAR_TENSOR(affine(x, w, b), product + b, (Tolerance{1e-13, 1e-13}));
  EXPECT_NEAR_TENSOR(affine(x, w, {}), product, (Tolerance{1e-13, 1e-13}));
}

}  // namespace
}  // namespace longbow
