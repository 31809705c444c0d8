#include "longbow/train/optimizers/weights.h"

#include <ATen/ATen.h>

#include "longbow/tensors/module_weights.h"

namespace longbow {
namespace {

Hint hint_of(const torch::nn::Module& owner, const std::string& name) {
  const auto* part = dynamic_cast<const Part*>(&owner);
  if (!part) return {};
  const auto found = part->hints().find(name);
  return found == part->hints().end() ? Hint{} : found->second;
}

bool is_exact(const torch::nn::Module& owner, const std::string& buffer) {
  const auto* part = dynamic_cast<const Part*>(&owner);
  return part && part->exact_buffers().count(buffer) > 0;
}

std::vector<Tensor> gradients_of(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> gradients;
  for (const auto& tensor : tensors) gradients.push_back(tensor.grad());
  return gradients;
}

}  // namespace

Weights::Weights(torch::nn::Module& model, at::ScalarType compute) : model_(&model) {
  const at::NoGradGuard no_grad;
  const auto visit = [&](const std::string& path, torch::nn::Module& module) {
    for (const auto& entry : module.named_parameters(/*recurse=*/false)) {
      auto parameter = entry.value();
      auto value = parameter;
      if (parameter.scalar_type() != compute) {
        value = parameter.detach().clone();
        parameter.set_data(parameter.to(compute));
      }
      const bool trained = parameter.requires_grad();
      (trained ? all_ : frozen_)
          .push_back({path.empty() ? entry.key() : path + "." + entry.key(), value, parameter,
                      hint_of(module, entry.key())});
      if (!trained) continue;
      if (!value.is_same(parameter)) {
        values_.push_back(value);
        parameters_.push_back(parameter);
      }
      for (const auto& tensor : {value, parameter})
        if (!tensor.grad().defined()) Tensor(tensor).mutable_grad() = at::zeros_like(tensor);
    }
    for (const auto& entry : module.named_buffers(/*recurse=*/false))
      if (auto buffer = entry.value(); buffer.is_floating_point() && !is_exact(module, entry.key()))
        buffer.set_data(buffer.to(compute));
  };
  visit("", model);
  for (const auto& module : model.named_modules("", /*include_self=*/false))
    visit(module.key(), *module.value());
}

void Weights::collect() {
  if (values_.empty()) return;
  const at::NoGradGuard no_grad;
  const auto given = gradients_of(parameters_);
  at::_foreach_copy_(gradients_of(values_), given);
  at::_foreach_zero_(given);
}

void Weights::publish() {
  if (values_.empty()) return;
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(parameters_, values_);
}

Tensors Weights::saved() const {
  auto saved = weights_of(*model_);
  for (const auto* weights : {&all_, &frozen_})
    for (const auto& weight : *weights) saved[weight.name] = weight.value.detach();
  return saved;
}

void Weights::load(const Tensors& saved, const std::string& file) {
  load_weights(*model_, saved, file);
  const at::NoGradGuard no_grad;
  for (const auto* weights : {&all_, &frozen_})
    for (const auto& weight : *weights) Tensor(weight.value).copy_(saved.at(weight.name));
}

}  // namespace longbow
