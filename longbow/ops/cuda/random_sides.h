#pragma once
// The options of random_product as the kernels read them.
#include <ATen/core/Tensor.h>

#include "longbow/kernels/random_product.h"
#include "longbow/ops/random_product_formula.h"

namespace longbow {

// It holds what the addresses of the kernels' options point to.
struct RandomSides {
  RandomProduct how;
  kernels::RandomShape shape;
  at::Tensor keep, back, sigma, omega, least;

  RandomSides(const at::Tensor& q, const at::Tensor& v, const RandomProduct& given);

  // Of queries or keys; without peaks, and all tokens are kept.
  kernels::RandomFeatures features(const at::Tensor& x) const;
};

}  // namespace longbow
