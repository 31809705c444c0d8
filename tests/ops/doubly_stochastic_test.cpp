#include "longbow/ops/doubly_stochastic.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor by_division(const Tensor& x, int64_t iterations) {
  auto y = x.exp();
  for (int64_t i = 0; i < iterations; ++i) {
    y = y / y.sum(-1, true);
    y = y / y.sum(-2, true);
  }
  return y;
}

TEST(DoublyStochastic, DividesRowsAndColumnsInTurn) {
  for (const int64_t iterations : {0, 1, 4}) {
    const auto x = random_normal({2, 3, 5, 7}, 1).requires_grad_();
    const auto got = doubly_stochastic(x, iterations), want = by_division(x, iterations);
    EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
    const auto direction = random_normal(x.sizes(), 2);
    EXPECT_NEAR_TENSOR(torch::autograd::grad({got}, {x}, {direction})[0],
                       torch::autograd::grad({want}, {x}, {direction})[0], tolerance(at::kDouble));
  }
}

TEST(DoublyStochastic, IsRegistered) {
  EXPECT_EQ(missing_kernels("doubly_stochastic"), "");
  EXPECT_EQ(missing_kernels("doubly_stochastic_backward"), "");
}

TEST(DoublyStochastic, NamesWhatDoesNotFit) {
  const auto message = error_of([] { doubly_stochastic(at::zeros({3}), 2); });
  EXPECT_NE(message.find("doubly_stochastic: x is Float [3], 2 iterations"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace longbow
