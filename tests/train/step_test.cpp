#include "longbow/train/step/step.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"
#include "tests/train/steps.h"

namespace longbow {
namespace {

TEST(Step, IsWhatTheTaskAndTheOptimiserSay) {
  const auto task = tiny_task(at::kCPU), by_hand = tiny_task(at::kCPU);
  Step step(*task, {.optimizer = {.clip = 0}, .nominal = 7});
  const auto batches = tiny_batches(*task);
  Weights weights(by_hand->model(), at::kFloat);
  const auto optimizer = make_optimizer(weights.all(), {.clip = 0});
  for (int64_t i = 0; i < 3; ++i) {
    step.run(batches, i * 2, 0.01);
    Tensor loss, weight;
    for (size_t k = 0; k < batches.size(); ++k) {
      const auto random = Random::from_seed(1, i * 2 + static_cast<int64_t>(k));
      const auto outcome = by_hand->run(batches[k], random);
      loss = loss.defined() ? loss + outcome.loss : outcome.loss;
      const auto term = outcome.sums.at("weight");
      weight = weight.defined() ? weight + term : term;
    }
    (loss / weight).backward();
    EXPECT_NEAR_TENSOR(step.sums().at("loss"), loss.to(at::kDouble), (Tolerance{1e-5, 1e-5}));
    EXPECT_EQ(step.sums().at("weight").item<double>(), weight.item<double>());
    optimizer->step(at::full({}, 0.01), at::ones({}));
  }
  const auto want = by_hand->model().named_parameters();
  for (const auto& parameter : task->model().named_parameters()) {
    // A softmax does not feel the bias of its keys: that gradient is rounding, which Adam enlarges.
    if (parameter.key().ends_with("key.bias")) continue;
    EXPECT_NEAR_TENSOR(parameter.value(), want[parameter.key()], (Tolerance{2e-4, 1e-3}))
        << parameter.key();
  }
}

TEST(Step, OverflowHalvesTheLossScaleAndChangesNoWeight) {
  const auto task = tiny_task(at::kCPU);
  Step step(*task, {.precision = Precision::fp16, .nominal = 1e-6});  // far out of range
  const auto before = step.weights().saved().at("output.weight").clone();
  step.run(tiny_batches(*task), 0, 0.01);
  EXPECT_FALSE(std::isfinite(step.sums().at("gradient_norm").item<double>()));
  EXPECT_NEAR_TENSOR(step.weights().saved().at("output.weight"), before, kExact);
  EXPECT_EQ(step.state().at("loss_scale").item<float>(), 32768);
}

TEST(Step, AStateThatDoesNotFitIsRefused) {
  const auto task = tiny_task(at::kCPU);
  Step step(*task, {.average = {.ema = 0.9}});
  const auto loaded = [&](const std::string& name, const Tensor& tensor) {
    auto state = step.state();
    state.erase(name);
    if (tensor.defined()) state[name] = tensor;
    return error_of([&] { step.load(state); });
  };
  EXPECT_EQ(loaded("extra.mean", at::zeros({})),
            "the checkpoint has an unexpected state extra.mean; resume with the optimizer and the "
            "train.ema that the run began with");
  EXPECT_EQ(loaded("loss_scale", {}), "the checkpoint has no loss_scale");
  EXPECT_EQ(loaded("loss_scale_growth", at::zeros({2})), "the checkpoint has no loss_scale_growth");
  EXPECT_TRUE(loaded("output.weight.mean", at::zeros({1}))
                  .starts_with("optimizer state output.weight.mean is [1] instead of ["));
  EXPECT_TRUE(loaded("output.weight.ema", at::zeros({1}))
                  .starts_with("the average output.weight.ema is [1] instead of ["));
}

}  // namespace
}  // namespace longbow
