#include "longbow/nn/layers/rms_norm.h"

#include <ATen/ATen.h>

#include "longbow/nn/contract/context.h"
#include "longbow/ops/gated_norm.h"
#include "longbow/ops/normed_gate.h"

namespace longbow {

RmsNorm::RmsNorm(int64_t width, double epsilon, int64_t groups)
    : epsilon_(epsilon), groups_(groups) {
  TORCH_CHECK(width % groups == 0, "rms_norm: ", width, " channels in ", groups, " groups");
  weight = parameter("weight", at::ones({width}), {.decay = false});
}

Tensor RmsNorm::operator()(const Tensor& x) const {
  const auto type = wide(x);
  const auto y = x.to(type).unflatten(-1, {groups_, -1});
  const auto scale = (y.square().mean(-1, true) + epsilon_).rsqrt();
  return ((y * scale).flatten(-2) * weight.to(type)).to(x.scalar_type());
}

Tensor RmsNorm::gated(const Tensor& x, const Tensor& other, const Tensor& gate) const {
  TORCH_CHECK(groups_ == 1, "rms_norm: a gate, but ", groups_, " groups");
  return gated_norm(x, other, gate, weight, epsilon_);
}

Tensor RmsNorm::of_gated(const Tensor& x, const Tensor& other, const Tensor& gate) const {
  return normed_gate(x, other, gate, weight, groups_, epsilon_);
}

}  // namespace longbow
