#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/iterated_inverse.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// Values and gradients of matrices near the identity.
std::vector<Tensor> results(int64_t order, int64_t steps, const at::TensorOptions& options) {
  const auto rows = random_normal({2, 3, order, order}, 1) + 4 * at::eye(order, at::kDouble);
  const auto given = rows.softmax(-1);
  const auto a = given.to(options).detach().requires_grad_(),
             z = (given.transpose(-2, -1) / given.sum(-2, true).amax(-1, true))
                     .to(options)
                     .detach()
                     .requires_grad_();
  const auto y = iterated_inverse(a, z, steps);
  auto found = torch::autograd::grad({y}, {a, z}, {random_normal(a.sizes(), 2).to(y.options())});
  found.push_back(y.detach());
  for (auto& one : found) one = one.cpu().to(at::kDouble);
  return found;
}

TEST(IteratedInverseCuda, IsTheFormulaStepByStep) {
  for (const int64_t order : {1, 17, 40, 64, 65})
    for (const int64_t steps : {1, 3}) {
      SCOPED_TRACE(c10::str(order, ", ", steps, " steps"));
      const auto got = results(order, steps, at::TensorOptions(at::kFloat).device("cuda:0")),
                 want = results(order, steps, at::kDouble);
      for (size_t i = 0; i < got.size(); ++i) {
        const auto size = want[i].abs().max().clamp_min(1);
        EXPECT_NEAR_TENSOR(got[i] / size, want[i] / size, (Tolerance{1e-5, 1e-5})) << i;
      }
    }
}

}  // namespace
}  // namespace longbow
