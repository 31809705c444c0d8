#include "longbow/models/bert/bert.h"

#include <ATen/ATen.h>

namespace longbow {

EncoderConfig bert_encoder() {
  EncoderConfig config;
  config.width = 768;
  config.heads = 12;
  config.layers = 12;
  config.max_length = 512;
  config.block.residual = Residual::post_norm;
  config.block.norm_epsilon = 1e-12;
  return config;
}

EncoderConfig encoder_of(const BertConfig& config) {
  auto encoder = config.encoder;
  encoder.segments = config.token_types;
  encoder.embedding_norm = true;
  return encoder;
}

Bert::Bert(const BertConfig& config, uint64_t seed) : config_(config) {
  const auto encoder = encoder_of(config);
  TORCH_CHECK(
      !encoder.causal && encoder.positions == Positions::learned &&
          encoder.block.residual == Residual::post_norm && encoder.max_length > 0,
      "bert: is not causal, has learned positions up to max_length and post_norm residuals");
  encoder_ =
      register_module("encoder", std::make_shared<Encoder>(encoder, config.vocabulary, seed));
  if (config.pooler)
    pooler_ =
        register_module("pooler", std::make_shared<Pooler>(site_of(encoder, seed).at("pooler"),
                                                           Pooling::first, /*dense=*/true));
}

Tensor Bert::operator()(const Tensor& tokens, const Tensor& types, Context& context) {
  context.segments = types;
  return (*encoder_)(tokens, context);
}

std::vector<Tensor> Bert::hidden(const Tensor& tokens, const Tensor& types, Context& context) {
  context.segments = types;
  return encoder_->hidden(tokens, context);
}

Tensor Bert::pooled(const Tensor& last) const {
  TORCH_CHECK(pooler_, "bert: was built without a pooler");
  return (*pooler_)(last, {});
}

}  // namespace longbow
