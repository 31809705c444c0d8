#include "longbow/train/optimizers/average.h"

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include <cmath>

namespace longbow {

Average::Average(const std::vector<Weight>& weights, const AverageConfig& config)
    : config_(config) {
  for (const auto& weight : weights) {
    names_.push_back(weight.name);
    values_.push_back(weight.value.detach());
    averages_.push_back(weight.value.detach().clone());
  }
  steps_ = at::zeros({}, values_.front().options().dtype(at::kDouble));
}

void Average::update(const Tensor& skip) {
  const at::NoGradGuard no_grad;
  const auto counts = skip.defined() ? 1 - skip.to(at::kDouble) : at::ones_like(steps_);
  steps_.add_(counts);
  auto share = counts * (1 - config_.ema);
  if (config_.ema_corrected)
    share = share / (1 - (steps_.clamp_min(1) * std::log(config_.ema)).exp());
  const auto type = averages_.front().scalar_type();
  at::_foreach_mul_(averages_, (1 - share).to(type));
  at::_foreach_add_(averages_, at::_foreach_mul(values_, share.to(type)));
}

void Average::exchange() {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> before;
  for (const auto& value : values_) before.push_back(value.clone());
  at::_foreach_copy_(values_, averages_);
  at::_foreach_copy_(averages_, before);
}

Tensors Average::state() const {
  Tensors state = {{"ema_steps", steps_}};
  for (size_t i = 0; i < names_.size(); ++i) state[names_[i] + ".ema"] = averages_[i];
  return state;
}

void Average::load(const Tensors& state) {
  for (auto& [name, tensor] : this->state()) {
    const auto found = state.find(name);
    if (found == state.end())
      throw UserError("the checkpoint has no average of the weights (" + name + ")",
                      "resume with the train.ema that the run began with");
    if (found->second.sizes() != tensor.sizes())
      throw UserError(c10::str("the average ", name, " is ", found->second.sizes(), " instead of ",
                               tensor.sizes()));
    tensor.copy_(found->second);
  }
}

}  // namespace longbow
