#include "longbow/attention/linformer/slot_read.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t B = 2, N = 11, H = 3, R = 4, C = 5, E = 6;

struct Inputs {
  Tensor x = random_normal({B, N, C}, 1), keys = random_normal({B, H, R, C}, 2),
         bias = random_normal({B, H, R}, 3), values = random_normal({B, H, R, E}, 4);
  Inputs() {
    for (auto* t : {&x, &keys, &bias, &values}) t->requires_grad_();
  }
};

// As the formula stands, with all weights [B, H, N, R] at once.
Tensor formula(const Inputs& in, bool bias, const Tensor& visible, double rate,
               const Random& random) {
  auto scores = at::einsum("bnc,bhrc->bhnr", {in.x, in.keys});
  if (bias) scores = scores + in.bias.unsqueeze(2);
  auto p = masked_softmax(scores, visible);
  if (rate > 0) {
    const auto noise = random.uniform({B, N, H * R}, "here.dropout").view({B, N, H, R});
    p = p * (noise >= rate).transpose(1, 2) / (1 - rate);
  }
  return at::einsum("bhnr,bhre->bne", {p, in.values});
}

struct Case {
  const char* name;
  bool bias;
  double rate;
  Tensor visible;
};
std::vector<Case> cases() {
  auto some = random_normal({B, H, N, R}, 9) < 0.3;
  some.select(2, 3).fill_(false);  // a token that sees nothing
  const auto by_slot = (at::arange(R) < 3).view({1, 1, 1, R});
  return {{"plain", false, 0, {}},
          {"bias", true, 0, {}},
          {"dropout", true, 0.3, {}},
          {"slots", true, 0.3, by_slot},
          {"pairs", false, 0, some}};
}

TEST(SlotRead, IsTheFormulaWithItsGradientsInPiecesOfAnySize) {
  const auto random = Random::from_seed(7);
  const auto direction = random_normal({B, N, E}, 5);
  for (const auto& row : cases()) {
    SCOPED_TRACE(row.name);
    const Inputs want;
    formula(want, row.bias, row.visible, row.rate, random).backward(direction);
    for (const int64_t piece : {1, 4, 11, 0}) {
      const Inputs got;
      const auto y = read_in_pieces(
          got.x, {got.keys, row.bias ? got.bias : Tensor(), got.values, row.visible, piece},
          {.dropout = row.rate, .training = true, .path = "here"}, {.random = random});
      EXPECT_NEAR_TENSOR(y.detach(),
                         formula(want, row.bias, row.visible, row.rate, random).detach(),
                         (Tolerance{1e-13, 1e-13}));
      y.backward(direction);
      const std::tuple<const char*, Tensor, Tensor> gradients[] = {
          {"x", got.x.grad(), want.x.grad()},
          {"keys", got.keys.grad(), want.keys.grad()},
          {"values", got.values.grad(), want.values.grad()}};
      for (const auto& [name, ours, theirs] : gradients)
        EXPECT_NEAR_TENSOR(ours, theirs, (Tolerance{1e-13, 1e-13})) << name << " by " << piece;
      if (row.bias)
        EXPECT_NEAR_TENSOR(got.bias.grad(), want.bias.grad(), (Tolerance{1e-13, 1e-13}));
    }
  }
}

TEST(SlotRead, ATokenThatSeesNothingGetsZero) {
  const Inputs in;
  const auto y = read_in_pieces(
      in.x, {in.keys, in.bias, in.values, at::zeros({1, 1, 1, R}, at::kBool)}, {}, {});
  EXPECT_NEAR_TENSOR(y.detach(), at::zeros({B, N, E}, at::kDouble), kExact);
  y.sum().backward();
  EXPECT_NEAR_TENSOR(in.x.grad(), at::zeros_like(in.x), kExact);
}

}  // namespace
}  // namespace longbow
