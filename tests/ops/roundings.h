#pragma once
#include <ATen/ATen.h>

#include <cmath>

namespace longbow {

// How far a tensor is off as a whole, in roundings of bfloat16; of NaN, infinitely. One key is read
// whatever its weight: then some gradients are next to 0, and what is left of them is rounding.
inline double roundings(const at::Tensor& got, const at::Tensor& want, bool one_key) {
  const double least = one_key ? 0.1 * std::sqrt(static_cast<double>(want.numel())) : 1e-30;
  const auto off = (got - want).norm() / want.norm().clamp_min(least) * 512;
  return off.nan_to_num(INFINITY, INFINITY).item<double>();
}

}  // namespace longbow
