#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "longbow/train/step/feed.h"
#include "longbow/train/step/readback.h"
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

// Waiting for the device is an error while this lives.
class NobodyWaits {
 public:
  NobodyWaits() { set(c10::cuda::SyncDebugMode::L_ERROR); }
  ~NobodyWaits() { set(c10::cuda::SyncDebugMode::L_DISABLED); }

 private:
  static void set(c10::cuda::SyncDebugMode mode) {
    c10::cuda::warning_state().set_sync_debug_mode(mode);
  }
};

TEST(StepCuda, NothingFromTheDataToTheMetricsWaitsForTheDevice) {
  for (const auto& [graphs, precision, resident] :
       std::vector<std::tuple<bool, Precision, int64_t>>{{true, Precision::bf16, 0},
                                                         {true, Precision::fp32, 1 << 20},
                                                         {true, Precision::fp16, 1 << 20},
                                                         {false, Precision::bf16, 1 << 20},
                                                         {false, Precision::fp32, 0}}) {
    const auto task = tiny_task(at::Device("cuda:0"), "linear");
    Step step(*task, {.precision = precision, .graphs = graphs, .nominal = 7});
    const auto& data = task->splits().train;
    const Sampler order(lengths_of(*data), {.batch_size = 4, .bucket = 16}, 1);
    Feed feed(data, order, {}, resident, at::Device("cuda:0"));
    EXPECT_EQ(feed.resident(), resident > 0);
    Readback readback(at::Device("cuda:0"));
    int64_t draw = 0;
    for (int i = 0; i < 12; ++i) step.run({feed.next()}, draw++, 0.003);
    int arrived = 0;
    {
      const NobodyWaits guard;
      EXPECT_NE(error_of([&] { (void)step.sums().at("loss").item<double>(); }), "");
      for (int i = 0; i < 5; ++i) {
        const auto failure = error_of([&] {
          step.run({feed.next()}, draw++, 0.003);
          readback.send(step.sums(), [&](const Readback::Numbers&) { ++arrived; });
        });
        EXPECT_EQ(failure, "");
      }
    }
    readback.flush();
    EXPECT_EQ(arrived, 5);
  }
}

TEST(StepCuda, AStepIsCapturedWhileOthersPinMemory) {
  std::atomic<bool> done = false;
  std::vector<Tensor> kept;
  std::thread other([&] {
    for (int64_t size = 1; !done; ++size) kept.push_back(at::empty({size << 10}).pin_memory());
  });
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(error_of([&] { eight_steps(at::Device("cuda:0"), {.nominal = 7}, "linear"); }), "");
  done = true;
  other.join();
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
