#include "longbow/train/optimizer.h"

#include <ATen/ATen.h>

namespace longbow {
namespace {

// Loshchilov and Hutter, 2019, arXiv:1711.05101, in LibTorch's fused form.
class AdamW : public Optimizer {
 public:
  AdamW(const std::vector<Weight>& weights, const OptimizerConfig& config)
      : Optimizer(weights, config) {
    for (auto& group : groups_)
      for (const auto& value : group.values) {
        group.kept["mean"].push_back(at::zeros_like(value));
        group.kept["square"].push_back(at::zeros_like(value));
        group.kept["step"].push_back(at::zeros({}, value.options().dtype(at::kFloat)));
      }
  }

 protected:
  void update(Group& group, const Tensor& learning_rate, const Tensor& skip) override {
    const auto& steps = group.kept.at("step");
    at::_foreach_add_(steps, 1);
    at::_fused_adamw_(group.values, group.gradients, group.kept.at("mean"), group.kept.at("square"),
                      {}, steps, learning_rate, config_.beta1, config_.beta2, group.decay,
                      config_.epsilon, false, false, {},
                      skip.defined() ? std::optional<Tensor>(skip) : std::nullopt);
    if (skip.defined()) at::_foreach_add_(steps, skip.neg());
  }
};

}  // namespace

Optimizer::Optimizer(const std::vector<Weight>& weights, const OptimizerConfig& config)
    : config_(config) {
  std::map<std::pair<double, double>, Group> groups;
  for (const auto& weight : weights) {
    const double decay = weight.hint.decay ? config.weight_decay : 0;
    auto& group = groups[{decay, weight.hint.max_learning_rate}];
    group.decay = decay;
    group.max_learning_rate = weight.hint.max_learning_rate;
    group.names.push_back(weight.name);
    group.values.push_back(weight.value);
    group.gradients.push_back(weight.value.grad());
  }
  for (auto& [key, group] : groups) groups_.push_back(std::move(group));
}

Tensor Optimizer::step(const Tensor& learning_rate, const Tensor& scale, bool skip_overflow) {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> all;
  for (const auto& group : groups_)
    all.insert(all.end(), group.gradients.begin(), group.gradients.end());
  const auto norm = at::stack(at::_foreach_norm(all)).norm() * scale;
  auto factor = scale;
  if (config_.clip > 0) factor = factor * (config_.clip / (norm + 1e-6)).clamp_max(1.0);
  const auto skip = skip_overflow ? norm.isfinite().logical_not().to(at::kFloat) : Tensor();
  at::_foreach_mul_(all, factor);
  for (auto& group : groups_)
    update(group,
           group.max_learning_rate > 0 ? learning_rate.clamp_max(group.max_learning_rate)
                                       : learning_rate,
           skip);
  at::_foreach_zero_(all);
  return norm;
}

Tensors Optimizer::state() const {
  Tensors state;
  for (const auto& group : groups_)
    for (const auto& [kind, tensors] : group.kept)
      for (size_t i = 0; i < tensors.size(); ++i) state[group.names[i] + "." + kind] = tensors[i];
  return state;
}

void Optimizer::load(const Tensors& state) {
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : this->state()) {
    const auto found = state.find(name);
    TORCH_CHECK(found != state.end(), "optimizer state has no ", name);
    tensor.copy_(found->second);
  }
}

std::unique_ptr<Optimizer> make_optimizer(const std::vector<Weight>& weights,
                                          const OptimizerConfig& config) {
  return std::make_unique<AdamW>(weights, config);
}

}  // namespace longbow
