#include "longbow/nn/softmax/softmax.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor flags(const std::vector<int64_t>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kLong).to(at::kBool).view(shape);
}

TEST(MaskedSoftmax, IsOverWhatIsVisible) {
  auto scores = random_normal({2, 3}, 1).requires_grad_();
  const auto visible = flags({1, 0, 1, 0, 0, 0}, {2, 3});
  const auto weights = masked_softmax(scores, visible);
  const double a = std::exp(scores[0][0].item<double>()), b = std::exp(scores[0][2].item<double>());
  EXPECT_NEAR(weights[0][0].item<double>(), a / (a + b), 1e-12);
  EXPECT_EQ(weights[0][1].item<double>(), 0);
  EXPECT_NEAR_TENSOR(weights[1], at::zeros({3}, at::kDouble), kExact);
  (weights * random_normal({2, 3}, 2)).sum().backward();
  EXPECT_NEAR_TENSOR(scores.grad()[1], at::zeros({3}, at::kDouble), kExact);
  EXPECT_NE(scores.grad()[0][0].item<double>(), 0);
}

TEST(MaskedSoftmax, IsAtLeastFloat32) {
  EXPECT_EQ(masked_softmax(at::zeros({1, 2}, at::kBFloat16), {}).scalar_type(), at::kFloat);
}

TEST(VisiblePairs, AreAlignedAtTheEnd) {
  const auto wide = visible_pairs({.causal = true}, 2, 4, at::kCPU);
  EXPECT_NEAR_TENSOR(wide, flags({1, 1, 1, 0, 1, 1, 1, 1}, {1, 1, 2, 4}), kExact);
  const auto tall = visible_pairs({.causal = true}, 3, 2, at::kCPU);
  EXPECT_NEAR_TENSOR(tall, flags({0, 0, 1, 0, 1, 1}, {1, 1, 3, 2}), kExact);
  EXPECT_FALSE(visible_pairs({}, 2, 2, at::kCPU).defined());
  const Mask kept = {.causal = true, .keep = flags({0, 1}, {1, 2})};
  EXPECT_NEAR_TENSOR(visible_pairs(kept, 2, 2, at::kCPU), flags({0, 0, 0, 1}, {1, 1, 2, 2}),
                     kExact);
}

Heads heads(int64_t queries, int64_t keys) {
  const auto x = random_normal({2, queries, 3}, 1);
  const auto source = queries == keys ? x : random_normal({2, keys, 3}, 2);
  return {.q = random_normal({2, 2, queries, 3}, 3),
          .k = random_normal({2, 2, keys, 3}, 4),
          .v = random_normal({2, 2, keys, 3}, 5),
          .x = x,
          .source = source};
}

TEST(FusedAttention, IsTheFormulaForEveryMask) {
  const auto keep = flags({1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, {2, 5});
  for (const int64_t queries : {5, 3, 8})
    for (const bool causal : {false, true})
      for (const bool padded : {false, true}) {
        const auto h = heads(queries, 5);
        const Mask mask = {.causal = causal, .keep = padded ? keep : Tensor()};
        const auto scores = h.q.matmul(h.k.transpose(-2, -1)) * 0.7;
        auto want = masked_softmax(scores, visible_pairs(mask, queries, 5, at::kCPU)).matmul(h.v);
        auto got = fused_attention(h, mask, 0.7);
        if (padded && causal && queries == 5) {  // padded queries of a row are left to the mixer
          want = want * keep.unsqueeze(1).unsqueeze(-1);
          got = got * keep.unsqueeze(1).unsqueeze(-1);
        }
        EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble))
            << queries << " queries, causal " << causal << ", padded " << padded;
      }
}

TEST(WriteSlots, PutsRowsWhereTheSlotsSay) {
  at::NoGradGuard no_grad;
  auto lane = at::zeros({1, 1, 4, 2}, at::kDouble);
  const auto rows = at::arange(1, 5, at::kDouble).view({1, 1, 2, 2});
  write_slots(lane, at::tensor({2, 0}, at::kLong).unsqueeze(0), rows);
  EXPECT_NEAR_TENSOR(lane.flatten(),
                     at::tensor({3.0, 4.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0}, at::kDouble), kExact);
}

}  // namespace
}  // namespace longbow
