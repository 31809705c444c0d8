#include "longbow/models/classifier.h"

#include <ATen/ATen.h>

#include <limits>

namespace longbow {

Classifier::Classifier(const ClassifierConfig& config, int64_t vocabulary, int64_t classes,
                       uint64_t seed)
    : config_(config),
      encoder_(
          register_module("encoder", std::make_shared<Encoder>(config.encoder, vocabulary, seed))) {
  const Site site = {.path = "head", .init = "xavier", .seed = seed};
  const int64_t width = config.encoder.width, inner = config.head > 0 ? config.head : width;
  if (config.head > 0)
    hidden_ = register_module("hidden", std::make_shared<Linear>(site.at("hidden"), width, inner));
  output_ = register_module("output", std::make_shared<Linear>(site.at("output"), inner, classes));
}

Tensor Classifier::operator()(const Tensor& tokens, Context& context) {
  auto x = pooled((*encoder_)(tokens, context), context.mask.keep, config_.pooling);
  if (hidden_) x = (*hidden_)(x).relu();
  return (*output_)(x);
}

Tensor pooled(const Tensor& x, const Tensor& keep, Pooling pooling) {
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

}  // namespace longbow
