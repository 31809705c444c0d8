#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

using at::Tensor;

// Tokens in another order, and back. Neither way needs a sum in its backward pass: the gradient of
// one is the other.
struct Order {
  Tensor order, inverse;  // [..., N] int64: place p holds token order[p]; token t is at inverse[t]

  // Ascending; equal keys stay as they are. keys [..., N] whole numbers.
  static Order by(const Tensor& keys);
  Tensor sorted(const Tensor& x) const;   // [..., N, D], or [..., N] without a gradient
  Tensor in_time(const Tensor& x) const;  // back; leading sizes of 1 are expanded
};

}  // namespace longbow
