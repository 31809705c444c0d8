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
  TORCH_CHECK(pooling != Pooling::attention, "pooled: attention needs the weights of a Pooler");
  if (pooling == Pooling::none) return x;
  if (pooling == Pooling::first) return x.select(1, 0);
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

Pooler::Pooler(const Site& site, Pooling pooling, bool dense) : pooling_(pooling) {
  const int64_t width = site.shape.width;
  if (pooling == Pooling::attention)
    query_ = parameter("query", initial_normal(site, "query", {width}, 0.02));
  if (dense)
    dense_ = register_module("dense", std::make_shared<Linear>(site.at("dense"), width, width));
}

Tensor Pooler::operator()(const Tensor& x, const Tensor& keep) const {
  const auto y =
      pooling_ == Pooling::attention ? attended(x, keep, query_) : pooled(x, keep, pooling_);
  return dense_ ? (*dense_)(y).tanh() : y;
}

}  // namespace longbow
