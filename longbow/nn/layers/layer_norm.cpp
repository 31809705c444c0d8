#include "longbow/nn/layers/layer_norm.h"

#include <ATen/ATen.h>

#include "longbow/ops/layer_norm.h"

namespace longbow {

LayerNorm::LayerNorm(int64_t width, double epsilon) : epsilon_(epsilon) {
  weight = parameter("weight", at::ones({width}), {.decay = false});
  bias = parameter("bias", at::zeros({width}), {.decay = false});
}

Tensor LayerNorm::operator()(const Tensor& x) const {
  return layer_norm(x, weight, bias, epsilon_);
}

}  // namespace longbow
