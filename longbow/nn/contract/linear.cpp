#include "longbow/nn/contract/linear.h"

#include <ATen/ATen.h>

#include "longbow/ops/affine.h"

namespace longbow {

Linear::Linear(const Site& site, int64_t in, int64_t out, bool with_bias) {
  weight = parameter("weight", initial_matrix(site, "weight", out, in));
  if (with_bias) bias = parameter("bias", at::zeros({out}), {.decay = false});
}

Tensor Linear::operator()(const Tensor& x) const {
  return affine(x, weight, bias);
}

std::vector<Tensor> project_together(const Tensor& x, const std::vector<const Linear*>& layers) {
  std::vector<int64_t> widths;
  for (const auto* layer : layers) widths.push_back(layer->weight.size(0));
  return project_together(x, layers, widths);
}

std::vector<Tensor> project_together(const Tensor& x, const std::vector<const Linear*>& layers,
                                     at::IntArrayRef widths) {
  std::vector<Tensor> weights, biases;
  for (const auto* layer : layers) {
    weights.push_back(layer->weight);
    if (layer->bias.defined()) biases.push_back(layer->bias);
  }
  TORCH_CHECK(biases.empty() || biases.size() == layers.size(),
              "projections together: all have a bias, or none has");
  return affine_parts(x, at::cat(weights), biases.empty() ? Tensor() : at::cat(biases), widths);
}

std::shared_ptr<Linear> Part::linear(const Site& site, const std::string& name, int64_t in,
                                     int64_t out) {
  return register_module(name, std::make_shared<Linear>(site.at(name), in, out, site.bias));
}

}  // namespace longbow
