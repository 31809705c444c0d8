#include "longbow/train/run/dry_run.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "longbow/tensors/meter.h"
#include "longbow/train/run/footprint.h"
#include "longbow/train/run/run_task.h"

namespace longbow {
namespace {

double bytes_of(const Tensor& tensor) {
  return static_cast<double>(tensor.nbytes());
}

void count_parameters(const std::vector<Weight>& weights, DryRun& run) {
  std::map<std::string, size_t> places;  // of a module among the rows
  for (const auto& weight : weights) {
    const auto count = weight.value.numel();
    run.parameters.push_back({weight.name, weight.value.sizes().vec(), count});
    run.total += count;
    for (auto dot = weight.name.find('.'); dot != std::string::npos;
         dot = weight.name.find('.', dot + 1)) {
      const auto module = weight.name.substr(0, dot);
      const auto [place, is_new] = places.emplace(module, run.modules.size());
      if (is_new) run.modules.push_back({module, {}, 0});
      run.modules[place->second].count += count;
    }
    const std::vector<Tensor> kept = weight.parameter.is_same(weight.value)
                                         ? std::vector{weight.value}
                                         : std::vector{weight.value, weight.parameter};
    for (const auto& tensor : kept) {
      run.weights += bytes_of(tensor);
      if (tensor.grad().defined()) run.gradients += bytes_of(tensor.grad());
    }
  }
}

Plan largest_plan(Sampler sampler) {
  Plan largest = sampler.next();
  const auto tokens = [](const Plan& plan) {
    return static_cast<int64_t>(plan.indices.size()) * plan.padded_length;
  };
  for (int64_t i = 1; i < sampler.batches_per_epoch(); ++i)
    if (auto plan = sampler.next(); tokens(plan) > tokens(largest)) largest = std::move(plan);
  return largest;
}

}  // namespace

DryRun dry_run(const RunConfig& config, at::Device device) {
  check_footprint(config, device);
  const auto task = make_task(config, device);
  auto settings = step_config(config);
  settings.graphs = false;  // a graph's memory is its own
  Step step(*task, settings);
  DryRun run;
  auto weights = step.weights().frozen();
  weights.insert(weights.end(), step.weights().all().begin(), step.weights().all().end());
  count_parameters(weights, run);
  for (const auto& [name, tensor] : step.state())
    (name.ends_with(".ema") ? run.average : run.optimizer) += bytes_of(tensor);
  const auto plan = largest_plan(training_order(config, task->splits()));
  const auto batch = collate(*task->splits().train, plan);
  run.samples = static_cast<int64_t>(plan.indices.size());
  run.length = plan.padded_length;
  const std::vector<Batch> batches(static_cast<size_t>(config.train.accumulate), batch);
  const auto start = std::chrono::steady_clock::now();
  const auto usage =
      measure([&] { step.run(batches, 0, config.train.optimizer.learning_rate); }, device);
  run.loss = step.sums().at("loss").item<double>() /
             std::max(step.sums().at("weight").item<double>(), 1.0);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.activations = static_cast<double>(usage.peak_bytes);
  return run;
}

}  // namespace longbow
