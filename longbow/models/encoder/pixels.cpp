#include "longbow/models/encoder/pixels.h"

#include <ATen/ATen.h>

namespace longbow {

Pixels::Pixels(const Site& site, const PixelsConfig& config, int64_t ids, int64_t width)
    : mean_(config.mean), deviation_(config.deviation) {
  TORCH_CHECK(ids == kPixelIds || ids == kPixelIds + 1, "pixels: ", ids, " ids, expected ",
              kPixelIds, " or one more for a mask");
  TORCH_CHECK(deviation_ > 0, "pixels: the deviation is not known");
  value_ = register_module("value", std::make_shared<Linear>(site.at("value"), 1, width));
  // A parameter of its own, which a model that hides nothing leaves out.
  if (ids > kPixelIds) mask_ = parameter("mask", initial_matrix(site, "mask", width, 1).flatten());
}

// In float32 where the weights are of a half type, which cannot tell all 256 levels apart.
Tensor Pixels::operator()(const Tensor& ids) const {
  const auto& weight = value_->weight;
  auto value = ids.sub(1).clamp(0, kGreyLevels - 1).to(wide(weight));
  value = (value / (kGreyLevels - 1.0) - mean_) / deviation_;
  const auto projected = [&](const Tensor& x) {
    return (x.unsqueeze(-1) * weight.squeeze(-1) + value_->bias).to(weight.scalar_type());
  };
  if (!mask_.defined()) return projected(value);
  const auto hidden = ids == kMaskedPixel;
  return projected(value.masked_fill(hidden, 0)) + hidden.unsqueeze(-1) * mask_;
}

}  // namespace longbow
