#include "longbow/models/encoder/pooling.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "longbow/nn/contract/linear.h"

namespace longbow {
namespace {

// Read by one query [C]: softmax(x q / sqrt C) x.
Tensor attended(const Tensor& x, const Tensor& keep, const Tensor& query) {
  auto scores = x.matmul(query).to(wide(x)) / std::sqrt(static_cast<double>(x.size(-1)));  // [B, N]
  // The lowest number, not minus infinity: a row without tokens must stay finite.
  if (keep.defined())
    scores = scores.masked_fill(keep.logical_not(), std::numeric_limits<float>::lowest());
  auto weights = scores.softmax(-1);
  if (keep.defined()) weights = weights * keep;
  return weights.to(x.scalar_type()).unsqueeze(1).matmul(x).squeeze(1);
}

}  // namespace

Tensor pooled(const Tensor& x, const Tensor& keep, Pooling pooling) {
  TORCH_CHECK(pooling != Pooling::attention && pooling != Pooling::pma,
              "pooled: ", pooling == Pooling::pma ? "pma" : "attention",
              " needs the weights of a Pooler");
  if (pooling == Pooling::none) return x;
  if (pooling == Pooling::first || pooling == Pooling::class_token) return x.select(1, 0);
  if (!keep.defined()) return pooling == Pooling::mean ? x.mean(1) : x.amax(1);
  const auto real = keep.unsqueeze(-1);
  if (pooling == Pooling::mean) {
    const auto weight = real.to(x.scalar_type());
    return (x * weight).sum(1) / weight.sum(1).clamp_min(1);
  }
  const auto most =
      x.masked_fill(real.logical_not(), -std::numeric_limits<double>::infinity()).amax(1);
  return most.masked_fill(keep.any(1, true).logical_not(), 0);
}

Pooler::Pooler(const Site& site, Pooling pooling, bool dense, int64_t seeds)
    : pooling_(pooling), width_(site.shape.width) {
  const int64_t width = site.shape.width;
  if (pooling == Pooling::attention)
    query_ = parameter("query", initial_normal(site, "query", {width}, 0.02));
  if (pooling == Pooling::pma) {
    width_ = seeds * width;
    seeds_ = parameter("seeds", initial_set_rows(site, "seeds", seeds));
    block_ = register_module("block", std::make_shared<SetBlock>(site.at("block"), width, width,
                                                                 SetStyle::paper, /*norms=*/true));
  }
  if (!dense) return;
  dense_ = register_module("dense", std::make_shared<Linear>(site.at("dense"), width_, width));
  width_ = width;
}

Tensor Pooler::read(const Tensor& x, const Tensor& keep) const {
  if (pooling_ == Pooling::attention) return attended(x, keep, query_);
  if (pooling_ != Pooling::pma) return pooled(x, keep, pooling_);
  Context context;
  const auto rows = (*block_)(seeds_.unsqueeze(0), x, keep, context).flatten(1);  // [B, S C]
  return keep.defined() ? rows.masked_fill(keep.any(1, true).logical_not(), 0) : rows;
}

Tensor Pooler::operator()(const Tensor& x, const Tensor& keep) const {
  const auto y = read(x, keep);
  return dense_ ? (*dense_)(y).tanh() : y;
}

}  // namespace longbow
