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

Bert::Bert(const BertConfig& config, uint64_t seed) : config_(config) {
  const auto& encoder = config.encoder;
  check_attention(encoder);
  TORCH_CHECK(encoder.head_width > 0 || encoder.width % encoder.heads == 0, "bert: width ",
              encoder.width, " is not a multiple of ", encoder.heads, " heads");
  TORCH_CHECK(
      !encoder.causal && encoder.positions == Positions::learned &&
          encoder.block.residual == Residual::post_norm && encoder.max_length > 0,
      "bert: is not causal, has learned positions up to max_length and post_norm residuals");
  auto site = site_of(encoder, seed);
  site.shared = shared_ = register_module("shared", std::make_shared<Shared>());
  const auto table = [&](const std::string& name, int64_t rows) {
    return parameter(name, initial_normal(site, name, {rows, encoder.width}, 0.02));
  };
  words_ = table("words", config.vocabulary);
  positions_ = table("positions", encoder.max_length);
  segments_ = table("segments", config.token_types);
  norm_ = register_module("embedding_norm",
                          std::make_shared<LayerNorm>(encoder.width, encoder.block.norm_epsilon));
  blocks_ = blocks_of(encoder, site);
  layers_ = register_module("layers", std::make_shared<Stack>(blocks_, shared_));
  if (config.pooler)
    pooler_ = register_module(
        "pooler", std::make_shared<Linear>(site.at("pooler"), encoder.width, encoder.width));
}

Tensor Bert::embedded(const Tensor& tokens, const Tensor& types, const Context& context) {
  TORCH_CHECK(tokens.size(1) <= config_.encoder.max_length, "bert: ", tokens.size(1),
              " tokens, but max_length is ", config_.encoder.max_length);
  auto x = at::embedding(words_, tokens);
  x = x + at::embedding(positions_, positions_of(x, context));
  x = x + (types.defined() ? at::embedding(segments_, types) : segments_[0]);
  return dropout((*norm_)(x), config_.encoder.embedding_dropout, is_training(), context,
                 "embedding.dropout");
}

Tensor Bert::operator()(const Tensor& tokens, const Tensor& types, Context& context) {
  return (*layers_)(embedded(tokens, types, context), context);
}

std::vector<Tensor> Bert::hidden(const Tensor& tokens, const Tensor& types, Context& context) {
  std::vector<Tensor> states = {embedded(tokens, types, context)};
  for (const auto& block : blocks_) states.push_back(block->forward(states.back(), context));
  return states;
}

Tensor Bert::pooled(const Tensor& last) const {
  TORCH_CHECK(pooler_, "bert: was built without a pooler");
  return (*pooler_)(last.select(1, 0)).tanh();
}

}  // namespace longbow
