#include "longbow/nn/layers/feed_forward.h"

#include <ATen/ATen.h>

#include "longbow/core/option_error.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/contract/recompute.h"
#include "longbow/ops/perceptron.h"

namespace longbow {
namespace {

// Each (token, group) gathers two rows of the matrices: that pays while tokens are few.
constexpr int64_t kGatheredTokens = 4;

Tensor gumbel(const Tensor& like, const Context& context, const std::string& site) {
  const auto u = context.random.uniform(like.sizes(), site).clamp(1e-6, 1 - 1e-6);
  return u.log().neg().log().neg().to(like.scalar_type());
}

}  // namespace

kernels::Curve curve_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return kernels::Curve::relu;
    case Activation::silu:
      return kernels::Curve::silu;
    case Activation::gelu:
      return kernels::Curve::gelu;
    case Activation::gelu_tanh:
      return kernels::Curve::gelu_tanh;
  }
  TORCH_INTERNAL_ASSERT(false);
}

Tensor activated(const Tensor& x, Activation activation) {
  return curved(x, curve_of(activation));
}

int64_t FeedForwardConfig::inner(int64_t model) const {
  return width > 0 ? width : 4 * model;
}

void check_feed_forward(const FeedForwardConfig& config, int64_t width) {
  if (config.kind != FeedForwardKind::sparse) return;
  const int64_t group = config.sparse.group, inner = config.inner(width);
  require_option(config.chunk == 0, "feed_forward_chunk",
                 c10::str("is ", config.chunk, ", but a sparse layer is not fed in chunks"),
                 "leave it out");
  require_option(inner % group == 0, "sparse.group",
                 c10::str("is ", group, ", but ", inner, " units do not divide into such groups"),
                 "take a divisor of the width of the feed-forward layer");
}

FeedForward::FeedForward(const Site& site, const FeedForwardConfig& config)
    : config_(config), path_(site.path) {
  const int64_t width = site.shape.width, inner = config.inner(width);
  check_feed_forward(config, width);
  const bool sparse = config.kind == FeedForwardKind::sparse;
  const auto add = [&](const std::string& name, int64_t in, int64_t out, bool bias) {
    return register_module(name, std::make_shared<Linear>(site.at(name), in, out, bias));
  };
  up_ = add("up", width, inner, !sparse);
  down_ = add("down", inner, width, true);
  if (config.kind == FeedForwardKind::glu) gate_ = add("gate", width, inner, true);
  if (!sparse) return;
  const auto& units = config.sparse;
  const int64_t rank = units.rank > 0 ? units.rank : std::max<int64_t>(1, width / units.group);
  squeeze_ = add("squeeze", width, rank, false);
  choose_ = add("choose", rank, inner, true);
  const at::NoGradGuard no_grad;
  if (units.scale_output) down_->weight.mul_(std::sqrt(static_cast<double>(units.group)));
}

Tensor FeedForward::operator()(const Tensor& x, Context& context) {
  if (config_.chunk <= 0 || x.size(1) <= config_.chunk) return fed(x, context);
  std::vector<Tensor> parts;
  const auto body = [this](const Tensor& t, Context& c) { return fed(t, c); };
  for (const auto& piece : x.split(config_.chunk, 1))
    parts.push_back(is_training() && at::GradMode::is_enabled()
                        ? recomputed(body, piece, context, parameters())
                        : fed(piece, context));
  return at::cat(parts, 1);
}

Tensor FeedForward::added(const Tensor& x, const LayerNorm& norm, const Drop& drop,
                          Context& context) {
  if (config_.kind == FeedForwardKind::dense && config_.chunk <= 0) {
    const FeedForwardLayer layer = {.norm_weight = norm.weight,
                                    .norm_bias = norm.bias,
                                    .up = up_->weight,
                                    .up_bias = up_->bias,
                                    .down = down_->weight,
                                    .down_bias = down_->bias,
                                    .curve = curve_of(config_.activation),
                                    .epsilon = norm.epsilon(),
                                    .drop = drop};
    if (has_feed_forward_kernel(x, layer)) return feed_forward(x, layer);
  }
  return add_dropped(x, (*this)(norm(x), context), drop);
}

Tensor FeedForward::fed(const Tensor& x, Context& context) {
  if (config_.kind == FeedForwardKind::sparse) return fed_sparsely(x, context);
  if (config_.kind == FeedForwardKind::dense)
    return perceptron(
        x, {up_->weight, up_->bias, down_->weight, down_->bias, curve_of(config_.activation), {}});
  const auto up = (*up_)(x);
  return (*down_)(activated((*gate_)(x), config_.activation) * up);
}

Tensor FeedForward::fed_sparsely(const Tensor& x, Context& context) {
  const auto logits = (*choose_)((*squeeze_)(x)).unflatten(-1, {-1, config_.sparse.group});
  if (!is_training() && x.size(0) * x.size(1) <= kGatheredTokens && !config_.sparse.weigh)
    return gathered(x, logits);
  return (*down_)(((*up_)(x)*unit_mask(logits, context).flatten(-2)).relu());
}

// Only the working units: row g * group + index of both matrices for each group g.
Tensor FeedForward::gathered(const Tensor& x, const Tensor& logits) const {
  const auto groups = at::arange(logits.size(-2), logits.options().dtype(at::kLong));
  const auto units = logits.argmax(-1) + groups * config_.sparse.group;  // [B, N, G]
  const auto inward = at::embedding(up_->weight, units);                 // [B, N, G, C]
  const auto outward = at::embedding(down_->weight.t(), units);          // [B, N, G, C]
  const auto values = inward.matmul(x.unsqueeze(-1)).relu();             // [B, N, G, 1]
  return outward.transpose(-1, -2).matmul(values).squeeze(-1) + down_->bias;
}

// One of each group, straight through to the probabilities; soft in some training steps.
Tensor FeedForward::unit_mask(const Tensor& logits, Context& context) const {
  const auto& units = config_.sparse;
  const bool training = is_training();
  auto soft = logits.softmax(-1), noisy = logits;
  if (training) {
    const auto noise = gumbel(logits, context, path_ + ".noise");
    if (units.controller == Controller::trax) {
      noisy = soft.log() + units.temperature * noise;
    } else {
      noisy = logits + noise;
      soft = (noisy / units.temperature).softmax(-1);
    }
  }
  const auto index = context.pick(path_ + ".unit", [&] { return noisy.argmax(-1, true); });
  const auto one_hot = at::zeros_like(soft).scatter(-1, index, 1);
  auto mask = training ? one_hot + soft - soft.detach() : one_hot;
  if (units.weigh) mask = mask * soft;
  if (!training) return mask;
  const auto hard = context.random.uniform({1}, path_ + ".hard") < units.hard;
  return at::where(hard, mask, soft);
}

}  // namespace longbow
