#include "longbow/train/run/evaluate.h"

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "longbow/core/work.h"
#include "longbow/data/feed/loader.h"
#include "longbow/train/run/run_task.h"

namespace longbow {
namespace {

// However the evaluation ends, training goes on as such.
class Evaluating {
 public:
  explicit Evaluating(torch::nn::Module& model) : model_(model) { model_.eval(); }
  ~Evaluating() { model_.train(); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  torch::nn::Module& model_;
};

}  // namespace

Evaluation evaluate(Task& task, const Dataset& data, const SamplerConfig& sampler,
                    int64_t samples) {
  at::NoGradGuard no_grad;
  const Evaluating evaluating(task.model());
  auto lengths = lengths_of(data);
  if (samples > 0 && samples < data.size()) lengths.resize(static_cast<size_t>(samples));
  auto plan = evaluation_order(lengths, sampler);
  Tensors sums;
  std::map<std::string, std::vector<Tensor>> rows;
  Work work("evaluating", plan.batches_per_epoch());
  for (int64_t i = 0; i < plan.batches_per_epoch(); ++i) {
    work.reached(i);
    // What is drawn in an evaluation (which tokens to mask) is the same every time.
    const auto random = Random::from_seed(0, i, task.device());
    const auto outcome = task.run(collate(data, plan.next()).to(task.device()), random);
    for (const auto& [name, value] : outcome.sums) {
      const auto term = value.to(at::kDouble);
      sums[name] = sums.count(name) ? sums.at(name) + term : term;
    }
    for (const auto& [name, value] : outcome.rows) rows[name].push_back(value);
  }
  for (const auto& [name, parts] : rows) sums[name] = at::cat(parts);
  for (auto& [name, sum] : sums) sum = sum.cpu();
  return {task.metrics(sums), static_cast<int64_t>(sum_of(sums, "count"))};
}

}  // namespace longbow
