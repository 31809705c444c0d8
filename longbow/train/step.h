#pragma once
// One optimiser step: forward and backward over some batches, then the update. Nothing in it waits
// for the device, and its shapes are those of the batches, so that a GPU can replay it.
#include "longbow/tasks/task.h"
#include "longbow/train/optimizer.h"
#include "longbow/train/replay.h"

namespace longbow {

enum class Precision { fp32, tf32, bf16, fp16 };
constexpr std::array<std::string_view, 4> names_of(Precision) {
  return {"fp32", "tf32", "bf16", "fp16"};
}

struct StepConfig {
  Precision precision = Precision::fp32;
  OptimizerConfig optimizer = {};
  bool graphs = true;  // replay the step on a GPU
  double nominal = 1;  // about how many losses a step adds up; keeps gradients in range
  uint64_t seed = 1;
};

class Step {
 public:
  Step(Task& task, const StepConfig& config);
  // The loss is a mean over all batches together. `draw` counts batches since the start of
  // training: it names the random numbers of the first one.
  void run(const std::vector<Batch>& batches, int64_t draw, double learning_rate);

  // Of the last step, on the device: the task's sums, and "gradient_norm".
  const Tensors& sums() const { return sums_; }
  Weights& weights() { return weights_; }
  Tensors state() const;  // of the optimiser and the loss scale
  void load(const Tensors& state);

 private:
  void add(const Batch& batch);
  void update();
  const Batch& settled(const std::string& key, const Batch& batch);

  Task& task_;
  StepConfig config_;
  Weights weights_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Replay> replay_;
  Random random_;
  Tensor rate_, loss_scale_, growth_;
  Tensors sums_;
  std::map<std::string, Batch> batches_;  // where a replayed step reads
};

}  // namespace longbow
