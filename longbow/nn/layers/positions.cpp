#include "longbow/nn/layers/positions.h"

#include <ATen/ATen.h>

namespace longbow {

Tensor sinusoids(int64_t length, int64_t width) {
  const auto t = at::arange(length, at::kDouble).unsqueeze(1);
  const auto pair = at::arange(width, at::kDouble).div(2, "floor").unsqueeze(0);
  const auto angle = t * at::pow(10000.0, pair * (-2.0 / static_cast<double>(width)));
  const auto even = at::arange(width, at::kLong).remainder(2).eq(0).unsqueeze(0);
  return at::where(even, angle.sin(), angle.cos()).to(at::kFloat);
}

}  // namespace longbow
