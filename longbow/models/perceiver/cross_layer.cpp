#include "longbow/models/perceiver/cross_layer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "longbow/nn/softmax/softmax.h"

namespace longbow {

CrossLayer::CrossLayer(const Site& site, int64_t source, const BlockConfig& block, bool adds)
    : path_(site.path),
      heads_(site.shape.heads),
      scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))),
      dropout_(block.dropout),
      adds_(adds) {
  const int64_t width = site.shape.width, inner = site.shape.inner();
  TORCH_CHECK(site.shape.head_width > 0 || width % heads_ == 0, "cross-attention: width ", width,
              " is not a multiple of ", heads_, " heads");
  const auto norm = [&](const std::string& name, int64_t channels) {
    return register_module(name, std::make_shared<LayerNorm>(channels, block.norm_epsilon));
  };
  norm_ = norm("norm", width);
  source_norm_ = norm("source_norm", source);
  query_ = linear(site, "query", width, inner);
  key_ = linear(site, "key", source, inner);
  value_ = linear(site, "value", source, inner);
  output_ = linear(site, "output", inner, width);
  if (block.feed_forward.kind == FeedForwardKind::none) return;
  feed_forward_norm_ = norm("feed_forward_norm", width);
  feed_forward_ = register_module(
      "feed_forward", std::make_shared<FeedForward>(site.at("feed_forward"), block.feed_forward));
}

KeysAndValues CrossLayer::source(const Tensor& x) const {
  return KeyValueProjections{*key_, *value_, heads_}((*source_norm_)(x));
}

Tensor CrossLayer::read(const Tensor& z, const KeysAndValues& source, const Tensor& visible,
                        Context& context) const {
  const auto q = split_heads((*query_)((*norm_)(z)), heads_);
  const auto finished = [&](const Tensor& heads) { return (*output_)(merge_heads(heads)); };
  // A row that sees nothing is computed on all and then set to zero, because the kernels divide by
  // its sum.
  const auto blind = visible.defined() ? visible.any(-1, true).logical_not() : Tensor();
  const auto seen = visible.defined() ? visible.logical_or(blind) : Tensor();
  const auto y =
      context.maps
          ? finished(softmax_read(q * scale_, source.k, source.v, seen, {.path = path_}, context))
          : finished(at::scaled_dot_product_attention(
                q, source.k, source.v, seen.defined() ? std::optional<Tensor>(seen) : std::nullopt,
                0.0, false, scale_));
  return blind.defined() ? y.masked_fill(blind.squeeze(1), 0) : y;
}

Tensor CrossLayer::operator()(const Tensor& z, const KeysAndValues& source, const Tensor& visible,
                              Context& context) const {
  const auto dropped = [&](const Tensor& y, const char* name) {
    return dropout(y, dropout_, is_training(), context, path_ + name);
  };
  auto h = dropped(read(z, source, visible, context), ".dropout");
  if (adds_) h = z + h;
  if (!feed_forward_) return h;
  return h + dropped((*feed_forward_)((*feed_forward_norm_)(h), context), ".feed_forward.dropout");
}

}  // namespace longbow
