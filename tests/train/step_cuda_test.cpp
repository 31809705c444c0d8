#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"
#include "tests/train/steps.h"

namespace longbow {
namespace {

// Sums of eight steps, and the weights after them.
Tensors eight_steps(at::Device device, const StepConfig& config, const std::string& attention) {
  const auto task = tiny_task(device, attention);
  Step step(*task, config);
  const auto batches = tiny_batches(*task);
  Tensors seen;
  for (int64_t i = 0; i < 8; ++i) {
    step.run(batches, i * 2, 0.003);
    for (const auto& [name, sum] : step.sums())
      if (name != "gradient_norm" ||
          sum.isfinite().item<bool>())  // not where a loss scale overflowed
        seen[name + " " + std::to_string(i)] = sum.cpu().clone();
  }
  for (const auto& [name, value] : step.weights().saved())
    if (!name.ends_with("key.bias")) seen[name] = value.cpu();
  for (const auto& [name, value] : step.state())
    if (name.ends_with(".ema") && !name.ends_with("key.bias.ema")) seen[name] = value.cpu();
  return seen;
}

void expect_alike(const Tensors& got, const Tensors& want, Tolerance tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, value] : want) EXPECT_NEAR_TENSOR(got.at(name), value, tolerance) << name;
}

TEST(StepCuda, AReplayedStepIsTheStep) {
  for (const std::string attention : {"softmax", "linear", "performer"})
    for (const auto precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      SCOPED_TRACE(attention);
      const auto graphed =
          eight_steps(at::Device("cuda:0"), {.precision = precision, .nominal = 7}, attention);
      const auto plain = eight_steps(
          at::Device("cuda:0"), {.precision = precision, .graphs = false, .nominal = 7}, attention);
      expect_alike(graphed, plain,
                   precision == Precision::fp32 ? Tolerance{1e-4, 1e-3} : Tolerance{2e-2, 5e-2});
    }
}

TEST(StepCuda, AReplayedStepIsTheStepOfEveryOptimiser) {
  for (size_t i = 0; i < names_of(Method{}).size(); ++i)
    for (const auto precision : {Precision::fp32, Precision::fp16}) {
      SCOPED_TRACE(names_of(Method{})[i]);
      StepConfig config = {.precision = precision, .average = {.ema = 0.9}, .nominal = 7};
      config.optimizer.optimizer = static_cast<Method>(i);
      config.optimizer.sgd = {.momentum = 0.9, .dampening = 0.1, .nesterov = false};
      const auto graphed = eight_steps(at::Device("cuda:0"), config, "softmax");
      config.graphs = false;
      const auto plain = eight_steps(at::Device("cuda:0"), config, "softmax");
      expect_alike(graphed, plain,
                   precision == Precision::fp32 ? Tolerance{1e-4, 1e-3} : Tolerance{2e-2, 5e-2});
    }
}

TEST(StepCuda, TheGpuLearnsWhatTheCpuLearns) {
  const auto there = eight_steps(at::Device("cuda:0"), {.nominal = 7}, "softmax");
  const auto here = eight_steps(at::kCPU, {.nominal = 7}, "softmax");
  for (const auto& [name, value] : here)
    if (name.starts_with("loss"))
      EXPECT_NEAR_TENSOR(there.at(name), value, (Tolerance{1e-2, 1e-3}));
}

}  // namespace
}  // namespace longbow
