#include "longbow/nn/layers/set_block.h"

#include <ATen/ATen.h>

#include <cmath>

#include "longbow/nn/softmax/softmax.h"

namespace longbow {

SetBlock::SetBlock(const Site& site, int64_t in, int64_t source, SetStyle style, bool norms)
    : style_(style), heads_(site.shape.heads), path_(site.path) {
  const int64_t width = site.shape.width;
  const bool divided = style == SetStyle::reference;
  const int64_t inner = divided ? width : site.shape.inner();
  TORCH_CHECK(!divided || width % heads_ == 0, "set block: ", width,
              " channels do not divide among ", heads_, " heads");
  TORCH_CHECK(style != SetStyle::paper || in == width, "set block: rows of ", in,
              " channels cannot be added to ", width);
  scale_ = 1 / std::sqrt(static_cast<double>(divided ? width : site.shape.head()));
  query_ = linear(site, "query", in, inner);
  key_ = linear(site, "key", source, inner);
  value_ = linear(site, "value", source, inner);
  if (!divided) output_ = linear(site, "output", inner, width);
  if (style == SetStyle::plain) return;
  feed_forward_ = linear(site, "feed_forward", width, width);
  if (!norms) return;
  read_norm_ = register_module("read_norm", std::make_shared<LayerNorm>(width));
  norm_ = register_module("norm", std::make_shared<LayerNorm>(width));
}

Tensor SetBlock::operator()(const Tensor& x, const Tensor& y, const Tensor& keep,
                            Context& context) const {
  const auto q = (*query_)(x);
  auto h = merge_heads(read(q, (*key_)(y), (*value_)(y), keep, context));
  if (output_) h = (*output_)(h);
  if (style_ == SetStyle::plain) return h;
  h = h + (style_ == SetStyle::reference ? q : x);
  if (read_norm_) h = (*read_norm_)(h);
  h = h + (*feed_forward_)(h).relu();
  return norm_ ? (*norm_)(h) : h;
}

Tensor SetBlock::read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep,
                      Context& context) const {
  const Heads heads = {.q = split_heads(q, heads_).expand({k.size(0), -1, -1, -1}),
                       .k = split_heads(k, heads_),
                       .v = split_heads(v, heads_)};
  if (context.maps)
    return softmax_read(heads.q * scale_, heads.k, heads.v, visible_keys(keep), {.path = path_},
                        context);
  return fused_attention(heads, {.keep = keep}, scale_);
}

Tensor initial_set_rows(const Site& site, const std::string& name, int64_t rows) {
  const int64_t width = site.shape.width;
  return initial_uniform(site, name, {rows, width},
                         std::sqrt(6 / static_cast<double>(rows + width)));
}

}  // namespace longbow
