#include "longbow/nn/layers/past_heads.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

const Site kSite = {.path = "layer", .init = "xavier"};

struct Past {
  std::shared_ptr<Linear> key = std::make_shared<Linear>(kSite.at("key"), 6, 4),
                          value = std::make_shared<Linear>(kSite.at("value"), 6, 4);
  KeyValueProjections projections = {*key, *value, 2};
  State state = {};
};

TEST(PastHeads, AreThoseOfTheLastRowsAndTheNewOnes) {
  const auto x = random_normal({2, 7, 6}, 1).to(at::kFloat);
  for (const bool training : {true, false}) {
    const at::AutoGradMode mode(training);
    Past past;
    open_past_heads(past.state, "past", 2, 3, past.projections);
    EXPECT_EQ(past.state.lane.count("past"), training ? 1u : 0u);
    EXPECT_EQ(past.state.lane.count("past.keys"), training ? 0u : 1u);
    grow_past_heads(past.state, "past", x.narrow(1, 0, 4), past.projections, {});
    const auto got = grow_past_heads(past.state, "past", x.narrow(1, 4, 3), past.projections, {});
    const auto [k, v] = past.projections(x.narrow(1, 1, 6));
    EXPECT_NEAR_TENSOR(got.heads.k, k, tolerance(at::kFloat));
    EXPECT_NEAR_TENSOR(got.heads.v, v, tolerance(at::kFloat));
  }
}

TEST(PastHeads, ProjectionsThatChangeChangeWhatIsRememberedWhileTraining) {
  Past past;
  const auto x = random_normal({1, 4, 6}, 2).to(at::kFloat);
  open_past_heads(past.state, "past", 1, 2, past.projections);
  grow_past_heads(past.state, "past", x.narrow(1, 0, 2), past.projections, {});
  past.state.detach();
  {
    const at::NoGradGuard no_grad;
    past.key->weight.mul_(2);
  }
  const auto got = grow_past_heads(past.state, "past", x.narrow(1, 2, 2), past.projections, {});
  EXPECT_NEAR_TENSOR(got.heads.k, past.projections(x).k, tolerance(at::kFloat));
}

TEST(PastHeads, RowsAreKeptBesideThemWhenAskedFor) {
  const at::NoGradGuard no_grad;
  Past past;
  open_past_heads(past.state, "past", 1, 2, past.projections, /*keep_rows=*/true);
  const auto x = random_normal({1, 3, 6}, 3).to(at::kFloat);
  const auto got = grow_past_heads(past.state, "past", x, past.projections, {});
  EXPECT_NEAR_TENSOR(got.rows, at::cat({at::zeros({1, 2, 6}), x}, 1), kExact);
}

}  // namespace
}  // namespace longbow
