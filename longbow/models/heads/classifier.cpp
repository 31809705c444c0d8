#include "longbow/models/heads/classifier.h"

#include <ATen/ATen.h>

#include "longbow/nn/contract/linear.h"

namespace longbow {

ClassifierBase::ClassifierBase(const ClassifierConfig& config, int64_t vocabulary, int64_t classes,
                               uint64_t seed, int64_t rows)
    : encoder_(
          register_module("encoder", std::make_shared<Encoder>(config.encoder, vocabulary, seed))) {
  const Site site = {.path = "head", .init = "xavier", .seed = seed};
  auto pooling = site.at("pooler");
  pooling.shape = {.width = config.encoder.width,
                   .heads = config.encoder.heads,
                   .head_width = config.encoder.head_width};
  pooler_ = register_module(
      "pooler", std::make_shared<Pooler>(pooling, config.pooling, config.pooler, config.seeds));
  const int64_t width = pooler_->width() * rows, inner = config.head > 0 ? config.head : width;
  if (config.head > 0)
    hidden_ = register_module("hidden", std::make_shared<Linear>(site.at("hidden"), width, inner));
  output_ = register_module("output", std::make_shared<Linear>(site.at("output"), inner, classes));
}

Tensor ClassifierBase::encoded(const Tensor& tokens, Context& context) {
  const auto x = (*encoder_)(tokens, context);
  return (*pooler_)(x, context.mask.keep);
}

Tensor ClassifierBase::answered(const Tensor& x) const {
  return (*output_)(hidden_ ? (*hidden_)(x).relu() : x);
}

Classifier::Classifier(const ClassifierConfig& config, int64_t vocabulary, int64_t classes,
                       uint64_t seed)
    : ClassifierBase(config, vocabulary, classes, seed) {}

Tensor Classifier::operator()(const Tensor& tokens, Context& context) {
  return answered(encoded(tokens, context));
}

}  // namespace longbow
