#pragma once
// One optimiser step: forward and backward over some batches, then the update. Nothing in it waits
// for the device, and its shapes are those of the batches, so that a GPU can replay it.
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "longbow/tasks/task.h"
#include "longbow/tensors/replay.h"
#include "longbow/train/optimizers/average.h"
#include "longbow/train/optimizers/optimizer.h"
#include "longbow/train/step/anomaly.h"

namespace longbow {

enum class Precision { fp32, tf32, bf16, fp16 };
constexpr std::array<std::string_view, 4> names_of(Precision) {
  return {"fp32", "tf32", "bf16", "fp16"};
}

struct StepConfig {
  Precision precision = Precision::fp32;
  OptimizerConfig optimizer = {};
  AverageConfig average = {};
  bool graphs = true;    // replay the step on a GPU
  bool anomaly = false;  // look for the first number that is not finite; nothing is replayed
  double nominal = 1;    // about how many losses a step adds up; keeps gradients in range
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
  // Other weights than the model was built with, before the first step.
  void begin_with(const Tensors& weights, const std::string& file);
  Tensors state() const;  // of the optimiser, the average and the loss scale
  void load(const Tensors& state);
  // With an average: it becomes what the model reads, and the next call undoes that.
  void exchange();
  // Of the last step, with `anomaly`: where its loss or gradients stopped being finite, or "".
  std::string anomaly() const;

 private:
  void add(const Batch& batch);
  void update();
  const Batch& at_fixed_address(const std::string& key, const Batch& batch);

  Task& task_;
  StepConfig config_;
  Weights weights_;
  Lanes* lanes_;  // or none
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Average> average_;  // or none
  std::unique_ptr<Anomaly> anomaly_;  // or none
  std::unique_ptr<Replay> replay_;
  Random random_;
  Tensor rate_, loss_scale_, growth_;
  Tensors sums_;
  std::map<std::string, Batch> batches_;  // where a replayed step reads
};

// While one lives, the model is the average of its weights, where there is one.
class Averaged {
 public:
  explicit Averaged(Step& step) : step_(step) { step_.exchange(); }
  ~Averaged() { step_.exchange(); }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  Step& step_;
};

}  // namespace longbow
