#include "longbow/nn/contract/rotary.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

namespace longbow {

int64_t Rotary::channels(int64_t head) const {
  return 2 * static_cast<int64_t>(std::floor(fraction * static_cast<double>(head) / 2));
}

Tensor Rotary::operator()(const Tensor& x, const Tensor& positions) const {
  const int64_t head = x.size(-1), turned = channels(head);
  if (turned == 0) return x;
  const auto plane = at::arange(turned / 2, positions.options().dtype(at::kDouble));
  const auto speed = at::pow(base, plane * (-2.0 / static_cast<double>(turned)));
  // Of a far position float32 would keep too few digits of the angle: full turns are taken off
  // first.
  const auto angle = (positions.unsqueeze(-1) * speed)
                         .remainder(2 * std::numbers::pi)
                         .to(wide(x))
                         .unsqueeze(1);  // [B or 1, 1, N, r / 2]
  const auto cosine = angle.cos(), sine = angle.sin();
  const bool pairs = planes == Planes::pairs;
  const auto part = x.narrow(-1, 0, turned);
  const auto sides = pairs ? part.unflatten(-1, {-1, 2}).unbind(-1) : part.chunk(2, -1);
  const std::vector<Tensor> moved = {sides[0] * cosine - sides[1] * sine,
                                     sides[0] * sine + sides[1] * cosine};
  const auto y = pairs ? at::stack(moved, -1).flatten(-2) : at::cat(moved, -1);
  const auto typed = y.to(x.scalar_type());
  return turned == head ? typed : at::cat({typed, x.narrow(-1, turned, head - turned)}, -1);
}

}  // namespace longbow
