#include "longbow/train/optimizers/optimizer.h"

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

namespace longbow {

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

void Optimizer::keep(const std::string& kind,
                     const std::function<Tensor(const Tensor& value)>& start) {
  for (auto& group : groups_)
    for (const auto& value : group.values) group.kept[kind].push_back(start(value));
}

void Optimizer::keep_zeros(const std::string& kind) {
  keep(kind, [](const Tensor& value) { return at::zeros_like(value); });
}

void Optimizer::keep_steps() {
  keep("step",
       [](const Tensor& value) { return at::zeros({}, value.options().dtype(at::kFloat)); });
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
    if (found == state.end())
      throw UserError("optimizer state has no " + name,
                      "resume with the optimizer that the run began with");
    if (found->second.sizes() != tensor.sizes())
      throw UserError(c10::str("optimizer state ", name, " is ", found->second.sizes(),
                               " instead of ", tensor.sizes()));
    tensor.copy_(found->second);
  }
}

void Unguarded::update(Group& group, const Tensor& learning_rate, const Tensor& skip) {
  const auto rate = learning_rate.to(group.values.front().scalar_type());
  if (!skip.defined()) return move(group, rate);
  auto changed = group.values;
  for (const auto& [kind, tensors] : group.kept)
    changed.insert(changed.end(), tensors.begin(), tensors.end());
  std::vector<Tensor> before;
  for (const auto& tensor : changed) before.push_back(tensor.clone());
  move(group, rate);
  for (size_t i = 0; i < changed.size(); ++i)
    changed[i].copy_(at::where(skip.to(at::kBool), before[i], changed[i]));
}

std::unique_ptr<Optimizer> make_optimizer(const std::vector<Weight>& weights,
                                          const OptimizerConfig& config) {
  constexpr std::array kMakers = {make_adam,      make_adam,      make_sgd,
                                  make_adafactor, make_adafactor, make_rmsprop,
                                  make_adagrad,   make_nadam,     make_radam};
  static_assert(kMakers.size() == names_of(Method{}).size());
  return kMakers.at(static_cast<size_t>(config.optimizer))(weights, config);
}

}  // namespace longbow
