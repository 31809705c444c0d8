#include "longbow/models/classifier.h"

#include <ATen/ATen.h>

namespace longbow {

Classifier::Classifier(const ClassifierConfig& config, int64_t vocabulary, int64_t classes,
                       uint64_t seed)
    : encoder_(
          register_module("encoder", std::make_shared<Encoder>(config.encoder, vocabulary, seed))) {
  const Site site = {.path = "head", .init = "xavier", .seed = seed};
  const int64_t width = config.encoder.width, inner = config.head > 0 ? config.head : width;
  auto pooling = site.at("pooler");
  pooling.shape.width = width;
  pooler_ =
      register_module("pooler", std::make_shared<Pooler>(pooling, config.pooling, config.pooler));
  if (config.head > 0)
    hidden_ = register_module("hidden", std::make_shared<Linear>(site.at("hidden"), width, inner));
  output_ = register_module("output", std::make_shared<Linear>(site.at("output"), inner, classes));
}

Tensor Classifier::operator()(const Tensor& tokens, Context& context) {
  auto x = (*pooler_)((*encoder_)(tokens, context), context.mask.keep);
  if (hidden_) x = (*hidden_)(x).relu();
  return (*output_)(x);
}

}  // namespace longbow
