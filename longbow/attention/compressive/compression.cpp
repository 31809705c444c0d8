#include "longbow/attention/compressive/compression.h"

#include <ATen/ATen.h>

#include "longbow/ops/affine.h"

namespace longbow {

Compressor::Compressor(const Site& site, Compression how, int64_t rate) : how_(how) {
  if (how != Compression::conv) return;
  const int64_t width = site.shape.width;
  convolution_ = register_module(
      "convolution", std::make_shared<Linear>(site.at("convolution"), rate * width, width));
  const at::NoGradGuard no_grad;
  convolution_->weight.copy_(at::eye(width).repeat({1, rate}) / static_cast<double>(rate));
}

Tensor Compressor::operator()(const Tensor& rows, const Tensor& used) const {
  switch (how_) {
    case Compression::mean:
      return rows.mean(2);
    case Compression::max:
      return rows.amax(2);
    case Compression::conv:
      return (*convolution_)(rows.flatten(2));
    case Compression::most_used:
      break;
  }
  const auto index = used.unsqueeze(-1).unsqueeze(-1).expand({-1, -1, 1, rows.size(3)});
  return rows.gather(2, index).squeeze(2);
}

Tensor Compressor::known(const Tensor& slots, const Tensor& rows) const {
  return affine_again(slots, rows.detach().flatten(2), convolution_->weight, convolution_->bias);
}

}  // namespace longbow
