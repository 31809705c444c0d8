#include "longbow/nn/softmax/relative.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kFarthest = 6;
const Site kSite = {.shape = {.width = 8, .heads = 2}, .path = "layer", .init = "xavier"};

std::shared_ptr<RelativeScores> scores_of(const RelativeConfig& config = {}, int64_t learned = 0) {
  auto scores = std::make_shared<RelativeScores>(kSite, config, learned);
  scores->to(at::kDouble);
  const at::NoGradGuard no_grad;
  uint64_t seed = 1;
  for (auto& parameter : scores->parameters())
    parameter.copy_(random_normal(parameter.sizes(), seed++));
  return scores;
}

// (q + v) . W_r R_d / sqrt D of one head and one distance.
Tensor by_hand(const RelativeScores& scores, const Tensor& q, int64_t head, int64_t distance) {
  const auto named = scores.named_parameters();
  const auto f = at::pow(10000.0, at::arange(4, at::kDouble) * -0.25);
  const auto angle = f * static_cast<double>(distance);
  const auto r = named["position.weight"].matmul(at::cat({angle.sin(), angle.cos()}));
  return (q + named["v"][head]).matmul(r.narrow(0, 4 * head, 4)) / 2;
}

TEST(RelativeScores, AScoreIsThatOfItsDistance) {
  const auto scores = scores_of();
  const auto q = random_normal({1, 2, 9, 4}, 7);
  const auto got = scores->by_distance(q, kFarthest);
  ASSERT_EQ(got.sizes(), at::IntArrayRef({1, 2, 9, kFarthest + 1}));
  for (int64_t head = 0; head < 2; ++head)
    for (int64_t d = 0; d <= kFarthest; ++d)
      EXPECT_NEAR_TENSOR(got.select(3, kFarthest - d)[0][head],
                         by_hand(*scores, q[0][head], head, d), tolerance(at::kDouble));
}

// Few queries meet the sinusoids themselves, many the projected ones.
TEST(RelativeScores, FewQueriesHaveTheScoresOfMany) {
  const auto scores = scores_of();
  const auto q = random_normal({1, 2, 9, 4}, 8);
  EXPECT_NEAR_TENSOR(scores->by_distance(q.narrow(2, 3, 2), kFarthest),
                     scores->by_distance(q, kFarthest).narrow(2, 3, 2), tolerance(at::kDouble));
}

TEST(RelativeScores, DistancesBeyondTheClampAreOne) {
  const auto got = scores_of({.clamp = 2})->by_distance(random_normal({1, 2, 5, 4}, 9), kFarthest);
  EXPECT_NEAR_TENSOR(got.narrow(3, 0, 5), got.narrow(3, 4, 1).expand({-1, -1, -1, 5}),
                     tolerance(at::kDouble));
}

TEST(RelativeScores, LearnedRowsStandForDistances) {
  const auto scores = scores_of({}, kFarthest + 3);
  const auto q = random_normal({1, 2, 5, 4}, 10);
  const auto named = scores->named_parameters();
  EXPECT_FALSE(named.contains("position.weight"));
  const auto want = (q[0][1] + named["v"][1]).matmul(named["table"][1][2]) / 2;
  EXPECT_NEAR_TENSOR(scores->by_distance(q, kFarthest)[0][1].select(1, kFarthest - 2), want,
                     tolerance(at::kDouble));
}

TEST(RelativeScores, SkewingMovesEveryRowOneFurther) {
  const auto x = at::arange(1, 7, at::kLong).view({2, 3});
  EXPECT_TRUE(skewed(x).equal(at::tensor({1, 2, 3, 0, 0, 4, 5, 6}, at::kLong).view({2, 4})));
  EXPECT_TRUE(skewed(x.narrow(0, 0, 1)).equal(x.narrow(0, 0, 1)));
}

}  // namespace
}  // namespace longbow
