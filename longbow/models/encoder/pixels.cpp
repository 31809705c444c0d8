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

Tensor Pixels::operator()(const Tensor& ids) const {
  auto value = ids.sub(1).clamp(0, kGreyLevels - 1).to(value_->weight.scalar_type());
  value = (value / (kGreyLevels - 1.0) - mean_) / deviation_;
  if (!mask_.defined()) return (*value_)(value.unsqueeze(-1));
  const auto hidden = (ids == kMaskedPixel).to(value.scalar_type());
  return (*value_)((value * (1 - hidden)).unsqueeze(-1)) + hidden.unsqueeze(-1) * mask_;
}

}  // namespace longbow
