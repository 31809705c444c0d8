#include "longbow/nn/contract/recompute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

struct Inputs {
  Tensor x = random_normal({3, 4}, 1), w = random_normal({4, 4}, 2).requires_grad_();
  Tensor memory = random_normal({3, 4}, 3).requires_grad_();
  Tensor carried = random_normal({3, 4}, 4).requires_grad_();
};

// Uses everything that a context can bring, and leaves something in each of its outlets.
Body body_of(const Inputs& in) {
  return [w = in.w](const Tensor& x, Context& context) {
    const auto noise = context.random.uniform(x.sizes(), "noise").to(at::kDouble);
    const auto y = (x.matmul(w) + context.memory * context.carry.at("stream")).tanh() * noise;
    context.carry["stream"] = context.carry.at("stream") + y.sin();
    context.carry["new"] = y * 2;
    context.add_loss(y.square().sum());
    return y;
  };
}

std::vector<Tensor> gradients(bool again, bool wants_x) {
  Inputs in;
  in.x.requires_grad_(wants_x);
  Context context = {.memory = in.memory,
                     .random = Random::from_seed(5),
                     .carry = {{"stream", in.carried}},
                     .loss = in.w.sum()};
  const auto body = body_of(in);
  const auto y = again ? recomputed(body, in.x, context, {in.w}) : body(in.x, context);
  const auto loss = y.exp().sum() + context.loss + (context.carry.at("stream").square()).sum() +
                    context.carry.at("new").sum();
  std::vector<Tensor> wanted = {in.w, in.memory, in.carried};
  if (wants_x) wanted.push_back(in.x);
  auto found = torch::autograd::grad({loss}, wanted);
  found.push_back(loss.detach());
  return found;
}

TEST(Recomputed, GivesTheGradientsOfThePlainCall) {
  for (const bool wants_x : {true, false}) {
    const auto want = gradients(false, wants_x), got = gradients(true, wants_x);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
  }
}

TEST(Recomputed, RunsTheBodyTwiceAndTellsItSo) {
  auto x = random_normal({2, 2}, 1).requires_grad_();
  std::vector<bool> seen;
  Context context;
  const auto y = recomputed(
      [&](const Tensor& t, Context& inner) {
        seen.push_back(inner.recomputing);
        return t * 3;
      },
      x, context, {});
  EXPECT_EQ(seen, std::vector<bool>{false});
  y.sum().backward();
  EXPECT_EQ(seen, (std::vector<bool>{false, true}));
  EXPECT_NEAR_TENSOR(x.grad(), at::full({2, 2}, 3.0, at::kDouble), kExact);
}

TEST(Recomputed, ReplaysTheChoicesOfTheFirstRun) {
  auto x = random_normal({2, 2}, 1).requires_grad_();
  int made = 0;
  Context context;
  const auto y = recomputed(
      [&](const Tensor& t, Context& inner) {
        return t * inner.pick("factor", [&] { return at::tensor(static_cast<double>(++made)); });
      },
      x, context, {});
  y.sum().backward();
  EXPECT_EQ(made, 1);
  EXPECT_NEAR_TENSOR(x.grad(), at::ones({2, 2}, at::kDouble), kExact);
}

TEST(Recomputed, TakesTheSameWayAgainWhenTheCallersMapsAndChoicesAreGone) {
  auto x = random_normal({2, 2}, 1).requires_grad_();
  Tensors maps;
  Choices choices = {.mode = Choices::Mode::record};
  int made = 0;
  Context context = {.choices = &choices, .maps = &maps};
  const auto y = recomputed(
      [&](const Tensor& t, Context& inner) {
        if (inner.maps) (*inner.maps)["here"] = t.detach();
        return t * inner.pick("factor", [&] { return at::tensor(++made + 1.0); }) *
               (inner.maps ? 5 : 7);
      },
      x, context, {});
  EXPECT_EQ(maps.size(), 1u);
  EXPECT_EQ(choices.kept.size(), 1u);
  maps.clear();
  choices.kept.clear();
  y.sum().backward();
  EXPECT_NEAR_TENSOR(x.grad(), at::full({2, 2}, 10.0, at::kDouble), kExact);
  EXPECT_TRUE(maps.empty());
  EXPECT_TRUE(choices.kept.empty());
}

}  // namespace
}  // namespace longbow
