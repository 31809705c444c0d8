#include "longbow/ops/layer_norm.h"

#include <ATen/ATen.h>

#include "tests/ops/norms.h"

namespace longbow {
namespace {

TEST(LayerNorm, IsItsDefinition) {
  const NormInputs in(5, 12);
  const auto want = normed(in, at::kDouble, norm_formula);
  const auto got =
      normed(in, at::kDouble, [](auto& x, auto& w, auto& b) { return layer_norm(x, w, b, 1e-5); });
  constexpr Tolerance kClose = {1e-12, 1e-12};
  EXPECT_NEAR_TENSOR(got.y, want.y, kClose);
  EXPECT_NEAR_TENSOR(got.dx, want.dx, kClose);
  EXPECT_NEAR_TENSOR(got.dweight, want.dweight, kClose);
  EXPECT_NEAR_TENSOR(got.dbias, want.dbias, kClose);
}

}  // namespace
}  // namespace longbow
