#include "longbow/ops/perceptron_formula.h"

#include <ATen/ATen.h>

#include "longbow/ops/affine.h"

namespace longbow {

using at::Tensor;

Tensor perceptron_formula(const Tensor& x, const PerceptronLayer& layer) {
  const auto& drop = layer.drop;
  const auto units = curved(affine(x, layer.up, layer.up_bias), layer.curve);
  return affine(drop.rate == 0 ? units : philox_dropout(units, drop.key, drop.site, drop.rate),
                layer.down, layer.down_bias);
}

PerceptronLayer perceptron_layer(at::TensorList weights, const std::optional<Tensor>& key,
                                 int64_t site, double rate, int64_t curve) {
  TORCH_CHECK(weights.size() == 4, "perceptron: ", weights.size(), " weights, not 4");
  return {.up = weights[0],
          .up_bias = weights[1],
          .down = weights[2],
          .down_bias = weights[3],
          .curve = static_cast<kernels::Curve>(curve),
          .drop = {rate, key.value_or(Tensor()), static_cast<uint64_t>(site)}};
}

}  // namespace longbow
