#include "longbow/ops/row_sum.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(RowSum, AddsRowsUp) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{5}, {7, 5}, {2, 3, 5}, {0, 5}, {4, 1, 2, 5}}) {
    SCOPED_TRACE(c10::str(shape));
    const auto x = random_normal(shape, 1);
    EXPECT_NEAR_TENSOR(row_sum(x), x.reshape({x.numel() / 5, 5}).sum(0), kExact);
  }
}

TEST(RowSum, HasFirstAndSecondDerivatives) {
  const auto x = random_normal({2, 3, 5}, 1).requires_grad_();
  const auto y = row_sum(x);
  const auto dx = torch::autograd::grad({y.pow(3).sum()}, {x}, {}, true, true)[0];
  EXPECT_NEAR_TENSOR(dx.detach(), (3 * y.detach().square()).expand({2, 3, 5}),
                     (Tolerance{1e-12, 1e-12}));
  EXPECT_NEAR_TENSOR(torch::autograd::grad({dx.sum()}, {x})[0],
                     (6 * 6 * y.detach()).expand({2, 3, 5}), (Tolerance{1e-12, 1e-12}));
}

TEST(RowSum, IsRegisteredForEveryDevice) {
  EXPECT_EQ(missing_kernels("row_sum"), "");
  EXPECT_EQ(row_sum(at::empty({2, 3, 5}, at::kMeta)).sizes(), at::IntArrayRef({5}));
}

TEST(RowSum, RefusesAScalar) {
  EXPECT_EQ(error_of([] { row_sum(at::ones({})); }), "row_sum: x is [], but needs [..., width]");
}

}  // namespace
}  // namespace longbow
