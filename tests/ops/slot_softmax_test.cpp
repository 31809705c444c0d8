#include "longbow/ops/slot_softmax.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// The definition, one query at a time.
Tensor defined(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
  const auto seen = visible.expand(k.sizes().slice(0, 3));
  const auto out = at::zeros({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
  for (int64_t b = 0; b < q.size(0); ++b)
    for (int64_t h = 0; h < q.size(1); ++h)
      for (int64_t i = 0; i < q.size(2); ++i) {
        const auto powers = k[b][h].mv(q[b][h][i]).exp() * seen[b][h].to(q.scalar_type());
        if (powers.sum().item<double>() > 0)
          out[b][h][i].copy_(v[b][h].t().mv(powers / powers.sum()));
      }
  return out;
}

struct Arguments {
  Tensor q = random_normal({2, 3, 7, 4}, 1), k = random_normal({2, 3, 5, 4}, 2),
         v = random_normal({2, 3, 5, 6}, 3);
  // Sequence 1 sees nothing.
  Tensor visible = at::tensor({1, 0, 1, 1, 0, 0, 0, 0, 0, 0}).to(at::kBool).view({2, 1, 5});
};

TEST(SlotSoftmax, IsTheSoftmaxOverVisibleSlots) {
  const Arguments a;
  const auto all = at::ones({1, 1, 5}, at::kBool);
  EXPECT_NEAR_TENSOR(slot_softmax(a.q, a.k, a.v), defined(a.q, a.k, a.v, all),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(slot_softmax(a.q, a.k, a.v, a.visible), defined(a.q, a.k, a.v, a.visible),
                     tolerance(at::kDouble));
  EXPECT_EQ(slot_softmax(a.q, a.k, a.v, a.visible)[1].abs().max().item<double>(), 0);
}

TEST(SlotSoftmax, HasTheGradientOfItsFormula) {
  const Arguments a;
  const auto direction = random_normal({2, 3, 7, 6}, 4);
  for (const auto& visible : {Tensor(), a.visible}) {
    const auto q = a.q.detach().requires_grad_(), k = a.k.detach().requires_grad_(),
               v = a.v.detach().requires_grad_();
    const auto got =
        torch::autograd::grad({slot_softmax(q, k, v, visible)}, {q, k, v}, {direction});
    const auto want =
        torch::autograd::grad({slot_softmax_formula(q, k, v, visible)}, {q, k, v}, {direction});
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
  }
}

TEST(SlotSoftmax, IsRegistered) {
  EXPECT_EQ(missing_kernels("slot_softmax"), "");
  EXPECT_EQ(missing_kernels("slot_softmax_backward"), "");
}

TEST(SlotSoftmax, NamesArgumentsThatDoNotFit) {
  const Arguments a;
  EXPECT_NE(error_of([&] {
              slot_softmax(a.q, a.k, a.q);
            }).find("slot_softmax: q is [2, 3, 7, 4], k [2, 3, 5, 4], v [2, 3, 7, 4]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              slot_softmax(a.q, a.k, a.v, a.visible.narrow(2, 0, 4));
            }).find("slot_softmax: visible is [2, 1, 4] of Bool, but k is [2, 3, 5, 4]"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
