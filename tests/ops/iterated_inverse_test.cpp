#include "longbow/ops/iterated_inverse.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// Rows that sum to 1, near the identity, so that few steps are enough.
Tensor weights(at::IntArrayRef sizes, uint64_t seed) {
  return (random_normal(sizes, seed) + 4 * at::eye(sizes.back(), at::kDouble)).softmax(-1);
}
Tensor started(const Tensor& a) {
  return a.transpose(-2, -1) / a.sum(-2, true).amax(-1, true);
}

TEST(IteratedInverse, InvertsInTheLimit) {
  for (const int64_t order : {1, 5, 16, 33}) {
    const auto a = weights({2, 3, order, order}, 1), z = iterated_inverse(a, started(a), 20);
    EXPECT_NEAR_TENSOR(a.matmul(z), at::eye(order, a.options()).expand_as(a),
                       tolerance(at::kDouble));
  }
}

TEST(IteratedInverse, IsTheFormulaStepByStep) {
  for (const auto type : {at::kFloat, at::kDouble})
    for (const int64_t order : {3, 17, 64})
      for (const int64_t steps : {1, 2, 6}) {
        const auto a = weights({4, order, order}, 2).to(type), z = started(a);
        EXPECT_NEAR_TENSOR(iterated_inverse(a, z, steps), iterated_inverse_formula(a, z, steps),
                           tolerance(type));
      }
}

TEST(IteratedInverse, HasTheGradientsOfTheFormula) {
  for (const int64_t order : {3, 17, 40}) {
    const auto a = weights({2, 2, order, order}, 3), z = started(a);
    const auto direction = random_normal(a.sizes(), 4);
    const auto gradients = [&](const auto& inverse) {
      const auto x = a.detach().requires_grad_(), y = z.detach().requires_grad_();
      const auto first = torch::autograd::grad({(inverse(x, y, 3) * direction).sum()}, {x, y}, {},
                                               true, /*create_graph=*/true);
      const auto second =
          torch::autograd::grad({first[0].square().sum() + first[1].square().sum()}, {x, y});
      const auto plain = torch::autograd::grad({(inverse(x, y, 3) * direction).sum()}, {x, y});
      return std::vector<Tensor>{plain[0],          plain[1],  first[0].detach(),
                                 first[1].detach(), second[0], second[1]};
    };
    const auto got = gradients(iterated_inverse), wanted = gradients(iterated_inverse_formula);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR_TENSOR(got[i] / wanted[i].abs().max(), wanted[i] / wanted[i].abs().max(),
                         tolerance(at::kDouble));
  }
}

}  // namespace
}  // namespace longbow
