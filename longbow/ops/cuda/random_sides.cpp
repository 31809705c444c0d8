#include "longbow/ops/cuda/random_sides.h"

#include <ATen/ATen.h>

#include "longbow/ops/cuda/by_head.h"

namespace longbow {

using at::Tensor;

// Under a causal mask the trigonometric map has always 64 projections.
RandomSides::RandomSides(const Tensor& q, const Tensor& v, const RandomProduct& given)
    : how(given),
      shape(kernels::random_shape(
          given.map,
          given.causal && given.map == RandomMap::trigonometric ? 64 : given.omega.size(1),
          q.size(3), v.size(3))),
      keep(given.keep.defined() ? given.keep.contiguous() : Tensor()),
      least(given.least.defined() ? given.least.to(at::kFloat).contiguous() : Tensor()) {
  const auto filled = [&](const Tensor& matrix) {
    return at::constant_pad_nd(
               matrix, {0, shape.depth - matrix.size(2), 0, shape.projections - matrix.size(1)})
        .to(at::kBFloat16)
        .contiguous();
  };
  if (how.map == RandomMap::exponential) {
    omega = filled(how.omega);
    return;
  }
  const auto matrix = how.omega.expand({q.size(1), -1, -1});
  const auto factors = how.sigma.defined()
                           ? how.sigma.to(at::kFloat)
                           : at::ones({q.size(1), q.size(3)}, q.options().dtype(at::kFloat));
  back = filled(matrix);
  omega = filled(matrix.to(at::kFloat) * factors.unsqueeze(1));
  sigma = at::constant_pad_nd(factors, {0, shape.depth - factors.size(1)}).contiguous();
}

kernels::RandomFeatures RandomSides::features(const Tensor& x) const {
  return {.x = by_head(x),
          .tokens = x.size(2),
          .width = x.size(3),
          .projections = how.omega.size(1),
          .map = how.map,
          .omega = omega.const_data_ptr(),
          .omega_head = omega.size(0) > 1 ? omega.stride(0) : 0,
          .factor = static_cast<float>(how.scale),
          .scale = static_cast<float>(how.scale),
          .offset = nullptr,
          .peaks = nullptr,
          .peak_spans = 0,
          .keep = nullptr};
}

}  // namespace longbow
