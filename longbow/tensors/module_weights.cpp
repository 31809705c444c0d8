#include "longbow/tensors/module_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include "longbow/core/listing.h"

namespace longbow {

Tensors weights_of(const torch::nn::Module& module) {
  Tensors weights;
  for (const auto& entry : module.named_parameters()) weights[entry.key()] = entry.value().detach();
  for (const auto& entry : module.named_buffers()) weights[entry.key()] = entry.value();
  return weights;
}

void Misfits::reshaped(const std::string& name, const at::Tensor& got, at::IntArrayRef wanted) {
  const auto type = got.is_floating_point() ? "" : c10::str(" of ", got.scalar_type());
  lines_.push_back(c10::str(name, " is ", got.sizes(), type, " instead of ", wanted));
}

void Misfits::compare(const Tensors& got, const Tensors& wanted) {
  for (const auto& [name, tensor] : wanted) {
    const auto found = got.find(name);
    if (found == got.end())
      missing(name);
    else if (found->second.sizes() != tensor.sizes() ||
             found->second.is_floating_point() != tensor.is_floating_point())
      reshaped(name, found->second, tensor.sizes());
  }
  for (const auto& [name, tensor] : got)
    if (!wanted.count(name)) unexpected(name);
}

void Misfits::check(const Place& place, const std::string& hint) const {
  if (!lines_.empty())
    throw UserError(place, "weights do not fit the model: " + listed(lines_), hint);
}

void load_weights(torch::nn::Module& module, const Tensors& weights, const std::string& file) {
  const auto own = weights_of(module);
  Misfits misfits;
  misfits.compare(weights, own);
  misfits.check(Place{file, 0});
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) at::Tensor(tensor).copy_(weights.at(name));
}

}  // namespace longbow
