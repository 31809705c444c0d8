#include "longbow/tasks/lanes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/core/error.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

State empty_state(int64_t lanes) {
  State state;
  auto& layer = state.child["layers.0"];
  layer.add("rows", {lanes, 2}, at::kFloat);
  layer.add("places", {lanes, 1}, at::kLong, -1);
  layer.seen = at::zeros({lanes}, at::kLong);
  return state;
}

TEST(Lanes, WhatIsPutIsTakenAgain) {
  Lanes lanes(empty_state(3));
  const auto where = lanes.saved().at("carry.layers.0.rows").data_ptr();
  auto taken = lanes.take(2);
  taken.child.at("layers.0").lane.at("rows") = at::ones({2, 2}).requires_grad_();
  taken.child.at("layers.0").seen.add_(5);
  EXPECT_EQ(lanes.saved().at("carry.layers.0.seen").sum().item<int64_t>(), 0) << "a copy was taken";
  lanes.put(taken);
  const auto rows = lanes.saved().at("carry.layers.0.rows");
  EXPECT_EQ(rows.data_ptr(), where);
  EXPECT_FALSE(rows.requires_grad());
  EXPECT_NEAR_TENSOR(rows, at::tensor({1.F, 1.F, 1.F, 1.F, 0.F, 0.F}).view({3, 2}), kExact);
  EXPECT_TRUE(lanes.saved().at("carry.layers.0.seen").equal(at::tensor({5, 5, 0}, at::kLong)));
  lanes.clear();
  EXPECT_EQ(rows.abs().sum().item<float>(), 0);
  EXPECT_TRUE(lanes.saved().at("carry.layers.0.places").eq(-1).all().item<bool>());
}

TEST(Lanes, AreSavedAndLoaded) {
  Lanes lanes(empty_state(2)), other(empty_state(2));
  auto taken = lanes.take(2);
  taken.child.at("layers.0").lane.at("rows").fill_(3);
  lanes.put(taken);
  other.load(lanes.saved());
  EXPECT_NEAR_TENSOR(other.saved().at("carry.layers.0.rows"), at::full({2, 2}, 3.F), kExact);
  const std::string message =
      "the checkpoint has no state carry.layers.0.places of this shape; resume with the model and "
      "the train.carry that the run began with";
  EXPECT_EQ(error_of([&] { other.load({}); }), message);
  EXPECT_EQ(error_of([&] { Lanes(empty_state(3)).load(lanes.saved()); }), message);
}

}  // namespace
}  // namespace longbow
