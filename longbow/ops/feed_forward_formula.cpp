#include "longbow/ops/feed_forward_formula.h"

#include <ATen/ATen.h>

#include "longbow/ops/affine.h"
#include "longbow/ops/layer_norm.h"

namespace longbow {

using at::Tensor;
using kernels::Curve;

Tensor curved(const Tensor& x, Curve curve) {
  switch (curve) {
    case Curve::gelu:
      return at::gelu(x);
    case Curve::gelu_tanh:
      return at::gelu(x, "tanh");
    case Curve::silu:
      return at::silu(x);
    case Curve::relu:
      return x.relu();
  }
  TORCH_INTERNAL_ASSERT(false);
}

Tensor feed_forward_formula(const Tensor& x, const FeedForwardLayer& layer) {
  const auto normed = layer_norm(x, layer.norm_weight, layer.norm_bias, layer.epsilon);
  const auto inner = curved(affine(normed, layer.up, layer.up_bias), layer.curve);
  return add_dropped(x, affine(inner, layer.down, layer.down_bias), layer.drop);
}

FeedForwardLayer feed_forward_layer(at::TensorList weights, const std::optional<Tensor>& key,
                                    int64_t site, double rate, double epsilon, int64_t curve) {
  TORCH_CHECK(weights.size() == 6, "feed_forward: ", weights.size(), " weights, not 6");
  return {.norm_weight = weights[0],
          .norm_bias = weights[1],
          .up = weights[2],
          .up_bias = weights[3],
          .down = weights[4],
          .down_bias = weights[5],
          .curve = static_cast<Curve>(curve),
          .epsilon = epsilon,
          .drop = {rate, key.value_or(Tensor()), static_cast<uint64_t>(site)}};
}

}  // namespace longbow
