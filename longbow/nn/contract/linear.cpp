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

}  // namespace longbow
