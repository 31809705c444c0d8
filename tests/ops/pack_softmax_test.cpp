#include "longbow/ops/pack_softmax.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

struct Arguments {
  Tensor q = random_normal({2, 3, 4, 5}, 1), k = random_normal({2, 3, 9, 5}, 2),
         v = random_normal({2, 3, 9, 6}, 3);
  Tensor keep = random_normal({2, 9}, 4) > 0;
  Arguments() { keep[1].fill_(false); }  // a sequence without keys
};

TEST(PackSoftmax, IsTheSoftmaxOverKeptKeys) {
  const Arguments a;
  const auto scores = a.q.matmul(a.k.transpose(-2, -1));
  EXPECT_NEAR_TENSOR(pack_softmax(a.q, a.k, a.v), scores.softmax(-1).matmul(a.v),
                     tolerance(at::kDouble));
  const auto powers = scores.exp() * a.keep.to(at::kDouble).view({2, 1, 1, 9});
  const auto weights = powers / powers.sum(-1, true).clamp_min(1e-300);
  EXPECT_NEAR_TENSOR(pack_softmax(a.q, a.k, a.v, a.keep), weights.matmul(a.v),
                     tolerance(at::kDouble));
}

TEST(PackSoftmax, HasTheGradientOfItsFormula) {
  const Arguments a;
  const auto direction = random_normal({2, 3, 4, 6}, 5);
  for (const auto& keep : {Tensor(), a.keep}) {
    const auto q = a.q.detach().requires_grad_(), k = a.k.detach().requires_grad_(),
               v = a.v.detach().requires_grad_();
    const auto got = torch::autograd::grad({pack_softmax(q, k, v, keep)}, {q, k, v}, {direction});
    const auto want =
        torch::autograd::grad({pack_softmax_formula(q, k, v, keep).out}, {q, k, v}, {direction});
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
  }
}

TEST(PackSoftmax, HasTheLogarithmOfTheSum) {
  const Arguments a;
  const auto read = [&](const auto& f) {
    const auto q = a.q.detach().requires_grad_(), k = a.k.detach().requires_grad_(),
               v = a.v.detach().requires_grad_();
    const SoftmaxPart y = f(q, k, v);
    auto found = torch::autograd::grad(
        {y.out, y.log_sum}, {q, k, v},
        {random_normal(y.out.sizes(), 5), random_normal(y.log_sum.sizes(), 6)});
    found.push_back(y.log_sum.detach());
    return found;
  };
  const auto got = read([&](const Tensor&q, const Tensor&k, const Tensor&v) {
    return pack_softmax_part(q, k, v);
  }),
             want = read([&](const Tensor&q, const Tensor&k, const Tensor&v) {
               const auto scores = q.matmul(k.transpose(-2, -1));
               return SoftmaxPart{scores.softmax(-1).matmul(v), scores.logsumexp(-1, true)};
             });
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
  const auto hidden = pack_softmax_part(a.q, a.k, a.v, a.keep).log_sum;
  EXPECT_TRUE(hidden[1].isneginf().all().item<bool>());
}

TEST(PackSoftmax, IsRegistered) {
  EXPECT_EQ(missing_kernels("pack_softmax"), "");
  EXPECT_EQ(missing_kernels("pack_softmax_backward"), "");
}

TEST(PackSoftmax, NamesArgumentsThatDoNotFit) {
  const Arguments a;
  EXPECT_NE(error_of([&] {
              pack_softmax(a.q, a.k, a.q);
            }).find("pack_softmax: q is [2, 3, 4, 5], k [2, 3, 9, 5], v [2, 3, 4, 5]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              pack_softmax(a.q, a.k, a.v, a.keep.narrow(1, 0, 4));
            }).find("pack_softmax: keep is [2, 4], but k is [2, 3, 9, 5]"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
