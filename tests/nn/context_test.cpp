#include "longbow/nn/contract/context.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor flags(const std::vector<int64_t>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kLong).to(at::kBool).view(shape);
}

TEST(Mask, FromLengthsKeepsTheFirstTokens) {
  const auto mask = Mask::from_lengths(at::tensor({3, 0, 1}, at::kLong), 3);
  EXPECT_NEAR_TENSOR(mask.keep, flags({1, 1, 1, 0, 0, 0, 1, 0, 0}, {3, 3}), kExact);
  EXPECT_FALSE(mask.ragged);
  EXPECT_FALSE(mask.causal);
}

TEST(Mask, FromKeepIsRaggedAndWantsABooleanMatrix) {
  EXPECT_TRUE(Mask::from_keep(flags({0, 1}, {1, 2})).ragged);
  EXPECT_EQ(error_of([] {
              Mask::from_keep(at::ones({2, 3}));
            }),
            "mask: keep is [2, 3] Float, but needs [B, M] bool");
}

TEST(Random, IsAFunctionOfSeedStepAndSite) {
  const auto draw = [](uint64_t seed, int64_t step, const char* site) {
    return Random::from_seed(seed, step).uniform({40}, site);
  };
  EXPECT_NEAR_TENSOR(draw(1, 2, "a"), draw(1, 2, "a"), kExact);
  for (const auto& other : {draw(2, 2, "a"), draw(1, 3, "a"), draw(1, 2, "b")})
    EXPECT_FALSE(at::equal(draw(1, 2, "a"), other));
}

TEST(Random, NormalNumbersHaveMeanZeroAndDeviationOne) {
  const auto x = Random::from_seed(3).normal({200000}, "x");
  EXPECT_NEAR(x.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(x.std().item<double>(), 1, 0.01);
  EXPECT_NEAR(x.abs().gt(1.96).to(at::kDouble).mean().item<double>(), 0.05, 0.003);
  EXPECT_TRUE(x.isfinite().all().item<bool>());
}

TEST(Random, WithoutAKeyNothingCanBeDrawn) {
  EXPECT_EQ(error_of([] { Random().uniform({2}, "layer.dropout"); }),
            "layer.dropout: random numbers wanted, but the context has no random key");
}

TEST(Dropout, DropsAtItsRateAndRescales) {
  const Context context = {.random = Random::from_seed(1)};
  const auto y = dropout(at::ones({200, 500}), 0.3, true, context, "here");
  const double kept = y.ne(0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(kept, 0.7, 0.01);
  EXPECT_FLOAT_EQ(y.max().item<float>(), 1 / 0.7f);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.02);
}

TEST(Dropout, TheSameKeyDropsTheSame) {
  const Context context = {.random = Random::from_seed(1, 5)},
                next = {.random = Random::from_seed(1, 6)};
  const auto x = at::ones({64});
  EXPECT_NEAR_TENSOR(dropout(x, 0.5, true, context, "here"), dropout(x, 0.5, true, context, "here"),
                     kExact);
  EXPECT_FALSE(
      at::equal(dropout(x, 0.5, true, context, "here"), dropout(x, 0.5, true, next, "here")));
  EXPECT_FALSE(
      at::equal(dropout(x, 0.5, true, context, "here"), dropout(x, 0.5, true, context, "there")));
}

TEST(Dropout, IsNothingInEvaluationAndAtRateZero) {
  const auto x = at::ones({4});
  EXPECT_TRUE(dropout(x, 0.5, false, {}, "here").is_same(x));
  EXPECT_TRUE(dropout(x, 0, true, {}, "here").is_same(x));
}

TEST(Choices, AreRecordedAndReplayed) {
  Choices choices = {.mode = Choices::Mode::record};
  const Context context = {.choices = &choices};
  int made = 0;
  const auto make = [&] { return at::tensor({++made}, at::kLong); };
  context.pick("bucket", make);
  choices.mode = Choices::Mode::replay;
  EXPECT_EQ(context.pick("bucket", make).item<int64_t>(), 1);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(error_of([&] { context.pick("other", make); }), "choices: nothing recorded for other");
  EXPECT_EQ(Context().pick("bucket", make).item<int64_t>(), 2);
}

TEST(State, ReordersResetsAndFillsEveryLane) {
  State state;
  state.add("sum", {3, 2}, at::kDouble);
  state.add("max", {3}, at::kDouble, -7).copy_(at::tensor({1.0, 2.0, 3.0}, at::kDouble));
  state.seen = at::tensor({4, 5, 6}, at::kLong);
  state.child["layer"].add("sum", {3}, at::kDouble).copy_(at::tensor({1.0, 2.0, 3.0}, at::kDouble));
  state.reorder(at::tensor({2, 2, 0}, at::kLong));
  EXPECT_NEAR_TENSOR(state.lane.at("max"), at::tensor({3.0, 3.0, 1.0}, at::kDouble), kExact);
  EXPECT_NEAR_TENSOR(state.child["layer"].lane.at("sum"), state.lane.at("max"), kExact);
  EXPECT_NEAR_TENSOR(state.seen, at::tensor({6, 6, 4}, at::kLong), kExact);
  state.lane.at("sum").fill_(9);
  state.reset(flags({0, 1, 0}, {3}));
  EXPECT_NEAR_TENSOR(state.lane.at("max"), at::tensor({3.0, -7.0, 1.0}, at::kDouble), kExact);
  EXPECT_NEAR_TENSOR(state.lane.at("sum").select(1, 0), at::tensor({9.0, 0.0, 9.0}, at::kDouble),
                     kExact);
  EXPECT_NEAR_TENSOR(state.seen, at::tensor({6, 0, 4}, at::kLong), kExact);
}

TEST(State, DetachCutsTheGradient) {
  State state;
  state.lane["x"] = at::ones({1}).requires_grad_() * 2;
  state.child["layer"].lane["x"] = state.lane["x"];
  state.detach();
  EXPECT_FALSE(state.lane["x"].requires_grad());
  EXPECT_FALSE(state.child["layer"].lane["x"].requires_grad());
}

TEST(Positions, CountRealTokens) {
  const auto x = at::zeros({2, 4, 1});
  const Context padded = {.mask = Mask::from_keep(flags({0, 1, 0, 1, 1, 1, 1, 0}, {2, 4}))};
  EXPECT_NEAR_TENSOR(positions_of(x, padded),
                     at::tensor({0, 0, 0, 1, 0, 1, 2, 2}, at::kLong).view({2, 4}), kExact);
  EXPECT_NEAR_TENSOR(positions_of(x, {}), at::arange(4).expand({2, 4}), kExact);
  const auto own = at::full({2, 4}, 9, at::kLong);
  EXPECT_TRUE(positions_of(x, {.positions = own}).is_same(own));
}

TEST(Context, LossesAddUp) {
  Context context;
  context.add_loss(at::tensor(2.0));
  context.add_loss(at::tensor(3.0));
  EXPECT_EQ(context.loss.item<double>(), 5);
}

TEST(State, WhatIsPutBackStaysWhereItWas) {
  State state;
  state.add("keys", {3, 2}, at::kDouble, 5);
  state.lane["shared"] = at::ones({1, 2}).expand({3, 2});
  state.child["layer"].seen = at::zeros({3}, at::kLong);
  state.settle();
  std::vector<std::string> names;
  std::vector<const void*> places;
  for (const auto& [name, tensor, empty] : state.tensors("of.")) {
    names.push_back(name);
    places.push_back(tensor->const_data_ptr());
    EXPECT_EQ(empty, name == "of.keys" ? 5 : 0);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"of.keys", "of.shared", "of.layer.seen"}));
  EXPECT_TRUE(state.lane.at("shared").is_contiguous()) << "every lane has its own";

  State now = state;
  now.lane.at("keys") = at::arange(4, at::kDouble).view({2, 2});  // of the first lanes
  now.child.at("layer").seen = at::full({3}, 7, at::kLong);
  state.put(now);
  EXPECT_TRUE(
      state.lane.at("keys").equal(at::tensor({0, 1, 2, 3, 5, 5}, at::kDouble).view({3, 2})));
  EXPECT_TRUE(state.child.at("layer").seen.equal(now.child.at("layer").seen));
  const auto after = state.tensors();
  for (size_t i = 0; i < after.size(); ++i)
    EXPECT_EQ(after[i].tensor->const_data_ptr(), places[i]) << after[i].name;
  now.lane.at("keys") = at::zeros({3, 3}, at::kDouble);
  EXPECT_NE(error_of([&] { state.put(now); }).find("state: keys is [3, 3], but keys is [3, 2]"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
