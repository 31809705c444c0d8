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

std::shared_ptr<Linear> Part::linear(const Site& site, const std::string& name, int64_t in,
                                     int64_t out) {
  return register_module(name, std::make_shared<Linear>(site.at(name), in, out, site.bias));
}

}  // namespace longbow
