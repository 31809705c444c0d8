#include "longbow/nn/layers/time_steps.h"

#include <ATen/ATen.h>

#include <cmath>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(TimeSteps, StartWithTheStepsAndRatesOfMamba2) {
  const TimeSteps steps({.path = "steps", .seed = 3}, 256);
  const auto step = steps.steps(at::zeros({256})).log10(), rate = steps.log_rate.exp();
  const auto spans = [](const Tensor& t, double least, double most) {
    const double low = t.min().item<double>(), high = t.max().item<double>(),
                 margin = 0.05 * (most - least);
    return low >= least - 1e-3 && low <= least + margin && high <= most + 1e-3 &&
           high >= most - margin;
  };
  EXPECT_TRUE(spans(step, -3, -1));
  EXPECT_TRUE(spans(rate, 1, 16));
}

TEST(TimeSteps, FadeByTheirRate) {
  TimeSteps steps({.path = "steps"}, 2);
  steps.to(at::kDouble);
  const at::NoGradGuard no_grad;
  steps.bias.copy_(at::tensor({0., 1.}));
  steps.log_rate.copy_(at::tensor({0., std::log(2.)}));
  const auto step = steps.steps(at::ones({1, 2}, at::kDouble));
  EXPECT_NEAR_TENSOR(
      step,
      at::tensor({std::log1p(std::exp(1.)), std::log1p(std::exp(2.))}, at::kDouble).view({1, 2}),
      tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(steps.log_decay(step), step * at::tensor({-1., -2.}, at::kDouble),
                     tolerance(at::kDouble));
}

TEST(TimeSteps, AreFreeOfWeightDecay) {
  const TimeSteps steps({.path = "steps"}, 2);
  for (const std::string name : {"bias", "log_rate"}) EXPECT_FALSE(steps.hints().at(name).decay);
}

}  // namespace
}  // namespace longbow
