#include "longbow/nn/softmax/relative.h"

#include <ATen/ATen.h>

#include "longbow/nn/contract/mixer.h"
#include "longbow/nn/softmax/head_products.h"
#include "longbow/ops/add_bias.h"

namespace longbow {
namespace {

constexpr double kDeviation = 0.02;

}  // namespace

RelativeScores::RelativeScores(const Site& site, const RelativeConfig& config, int64_t learned)
    : config_(config),
      width_(site.shape.width),
      scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
  Site unbiased = site;
  unbiased.bias = false;
  if (learned > 0)
    table_ = parameter("table", at::zeros({site.shape.heads, learned, site.shape.head()}),
                       {.decay = false});
  else
    position_ = linear(unbiased, "position", width_, site.shape.inner());
  const std::vector<int64_t> shape = {site.shape.heads, site.shape.head()};
  const auto bias = [&](const std::string& name) {
    return config.shared && site.shared
               ? shared_normal(site, "relative_" + name, shape, kDeviation)
               : parameter(name, initial_normal(site, name, shape, kDeviation), {.decay = false});
  };
  u_ = bias("u");
  v_ = bias("v");
}

Tensor RelativeScores::content(const Tensor& q, const Tensor& k) const {
  return (content_queries(q) * scale_).matmul(k.transpose(-2, -1));
}

// Few queries are brought to the width of the sinusoids, which then need not be projected.
Tensor RelativeScores::by_distance(const Tensor& q, int64_t farthest) const {
  const auto queries = with_bias(q, v_);
  const auto distance = distances(farthest);
  if (table_.defined())
    return head_products(queries, (table_.index_select(1, distance) * scale_).transpose(1, 2));
  const auto w = position_->weight.unflatten(0, {q.size(1), q.size(-1)});  // [H, D, C]
  const auto r = (sinusoids_at(distance) * scale_).to(q.scalar_type()).t();
  const bool few = q.numel() <= q.size(-1) * q.size(-1) * q.size(1);
  return few ? head_products(queries, w).matmul(r) : head_products(queries, w.matmul(r));
}

Tensor RelativeScores::distances(int64_t farthest) const {
  const auto all = at::arange(farthest, -1, -1, u_.options().dtype(at::kLong).requires_grad(false));
  const int64_t known = table_.defined() ? table_.size(1) - 1 : farthest;
  const int64_t most = config_.clamp > 0 ? std::min(config_.clamp, known) : known;
  return most < farthest ? all.clamp_max(most) : all;
}

Tensor RelativeScores::sinusoids_at(const Tensor& distance) const {
  const auto k = at::arange((width_ + 1) / 2, distance.options().dtype(wide(u_)));
  const auto angle =
      distance.unsqueeze(1) * at::pow(10000.0, k * (-2.0 / static_cast<double>(width_)));
  return at::cat({angle.sin(), angle.cos()}, 1).narrow(1, 0, width_);
}

Tensor RelativeScores::with_bias(const Tensor& q, const Tensor& bias) const {
  if (q.dim() == 4) {
    const auto rows = q.transpose(1, 2).flatten(2);  // as projections make them
    return split_heads(add_bias(rows, bias.flatten().to(q.scalar_type())), q.size(1));
  }
  std::vector<int64_t> shape(q.dim(), 1);
  shape[1] = bias.size(0);
  shape.back() = bias.size(1);
  return q + bias.view(shape);
}

// In memory a row that is one longer than the result moves every next row one further.
Tensor skewed(const Tensor& x) {
  const int64_t rows = x.size(-2), width = rows + x.size(-1) - 1;
  return at::constant_pad_nd(x, {0, rows})
      .flatten(-2)
      .narrow(-1, 0, rows * width)
      .unflatten(-1, {rows, width});
}

}  // namespace longbow
