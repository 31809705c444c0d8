#include "longbow/train/optimizer.h"

#include <ATen/ATen.h>

namespace longbow {
namespace {

Hint hint_of(torch::nn::Module& owner, const std::string& name) {
  const auto* part = dynamic_cast<const Part*>(&owner);
  if (!part) return {};
  const auto found = part->hints().find(name);
  return found == part->hints().end() ? Hint{} : found->second;
}

}  // namespace

AdamW::AdamW(torch::nn::Module& model, const OptimizerConfig& config) : config_(config) {
  std::map<std::pair<double, double>, Group> groups;
  const auto visit = [&](const std::string& path, torch::nn::Module& module) {
    for (const auto& entry : module.named_parameters(/*recurse=*/false)) {
      const auto hint = hint_of(module, entry.key());
      const double decay = hint.decay ? config.weight_decay : 0;
      auto& group = groups[{decay, hint.max_learning_rate}];
      group.decay = decay;
      group.max_learning_rate = hint.max_learning_rate;
      const auto& parameter = entry.value();
      group.names.push_back(path.empty() ? entry.key() : path + "." + entry.key());
      group.parameters.push_back(parameter);
      group.means.push_back(at::zeros_like(parameter));
      group.squares.push_back(at::zeros_like(parameter));
      group.steps.push_back(at::zeros({}, parameter.options().dtype(at::kFloat)));
    }
  };
  visit("", model);
  for (const auto& module : model.named_modules("", /*include_self=*/false))
    visit(module.key(), *module.value());
  for (auto& [key, group] : groups) groups_.push_back(std::move(group));
}

Tensor AdamW::step(double learning_rate) {
  at::NoGradGuard no_grad;
  std::vector<Tensor> all;
  for (auto& group : groups_)
    for (auto& parameter : group.parameters) {
      if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
      all.push_back(parameter.grad());
    }
  const auto norms = at::_foreach_norm(all);
  const auto norm = at::stack(norms).norm();
  if (config_.clip > 0) {
    const auto factor = (config_.clip / (norm + 1e-6)).clamp_max(1.0);
    at::_foreach_mul_(all, factor);
  }
  for (auto& group : groups_) {
    std::vector<Tensor> gradients;
    for (const auto& parameter : group.parameters) gradients.push_back(parameter.grad());
    const double rate = group.max_learning_rate > 0
                            ? std::min(learning_rate, group.max_learning_rate)
                            : learning_rate;
    at::_foreach_add_(group.steps, 1);
    at::_fused_adamw_(group.parameters, gradients, group.means, group.squares, {}, group.steps,
                      rate, config_.beta1, config_.beta2, group.decay, config_.epsilon, false,
                      false);
  }
  at::_foreach_zero_(all);
  return norm;
}

Tensors AdamW::state() const {
  Tensors state;
  for (const auto& group : groups_)
    for (size_t i = 0; i < group.names.size(); ++i) {
      state[group.names[i] + ".mean"] = group.means[i];
      state[group.names[i] + ".square"] = group.squares[i];
      state[group.names[i] + ".step"] = group.steps[i];
    }
  return state;
}

void AdamW::load(const Tensors& state) {
  at::NoGradGuard no_grad;
  for (auto& [name, tensor] : this->state()) {
    const auto found = state.find(name);
    TORCH_CHECK(found != state.end(), "optimizer state has no ", name);
    tensor.copy_(found->second);
  }
}

}  // namespace longbow
