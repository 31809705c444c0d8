#include <ATen/ATen.h>

#include "longbow/models/linformer_pytorch/linformer.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/ops/embedding.h"

namespace longbow {
namespace {

constexpr double kBase = 100000, kEmbeddingDeviation = 1;

LinformerLMConfig side(LinformerLMConfig config, const LinformerEncDecConfig& both) {
  config.activation = both.activation;
  config.checkpoint_level = both.checkpoint_level;
  config.compatible = both.compatible;
  return config;
}

}  // namespace

LinformerLM::LinformerLM(const LinformerLMConfig& config, uint64_t seed, const std::string& path)
    : config_(config), path_(path) {
  const int64_t width = config.embedding_width();
  if (config.num_tokens < 1)
    throw UserError("linformer: num_tokens is not given", "set it to the size of the vocabulary");
  if (width % 2 != 0)
    throw UserError(
        "linformer: embeddings of width " + std::to_string(width) + " have no sine and cosine half",
        "take an even width");
  const Site site = {.path = path, .init = "xavier", .seed = seed};
  words_ = parameter(
      "to_token_emb",
      initial_normal(site, "to_token_emb", {config.num_tokens, width}, kEmbeddingDeviation));
  const auto exponents = at::arange(0, width, 2, at::kFloat).div(static_cast<double>(width));
  frequencies_ = register_buffer("inv_freq", at::pow(kBase, exponents).reciprocal());
  const auto add = [&](const std::string& name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<Linear>(site.at(name), in, out));
  };
  linformer_ = register_module(
      "linformer", std::make_shared<Linformer>(config, seed,
                                               path.empty() ? "linformer." : path + ".linformer."));
  if (width != config.channels) {
    project_in_ = add("project_in", width, config.channels);
    project_out_ = add("project_out", config.channels, width);
  }
  if (!config.return_emb) to_logits_ = add("to_logits", width, config.num_tokens);
}

Tensor LinformerLM::operator()(const Tensor& tokens, const LinformerInputs& inputs) {
  TORCH_CHECK(tokens.dim() == 2 && tokens.size(1) == config_.input_size, "linformer: tokens are ",
              tokens.sizes(), ", but need [batch, ", config_.input_size,
              "]; Padder fills shorter inputs up");
  Context context = {.random = inputs.random};
  if (inputs.input_mask.defined() && !config_.compatible)
    context.mask.keep = inputs.input_mask.to(at::kBool);
  const auto places = positions_of(tokens, context);
  return closed((*linformer_)(opened(tokens, places, context), inputs));
}

Tensor LinformerLM::opened(const Tensor& tokens, const Tensor& places,
                           const Context& context) const {
  auto x = embed(words_, tokens.to(at::kLong));
  const auto angles = places.unsqueeze(-1).to(frequencies_.scalar_type()) * frequencies_;
  x = x + at::cat({angles.sin(), angles.cos()}, -1).to(x.scalar_type());
  x = dropout(x, config_.dropout_tokens, is_training(), context, path_ + ".tokens.dropout");
  return project_in_ ? (*project_in_)(x) : x;
}

Tensor LinformerLM::closed(const Tensor& x) const {
  const auto y = project_out_ ? (*project_out_)(x) : x;
  return to_logits_ ? (*to_logits_)(y) : y;
}

void LinformerLM::start(State& state, int64_t lanes, int64_t capacity,
                        const LinformerInputs& inputs) {
  linformer_->start(state, lanes, capacity, inputs);
}

Tensor LinformerLM::extend(const Tensor& tokens, State& state, const LinformerInputs& inputs) {
  Context context = {.random = inputs.random};
  if (inputs.input_mask.defined()) context.mask.keep = inputs.input_mask.to(at::kBool);
  const auto& seen = state.child.at("0").seen;  // by the first attention
  const auto places = seen.unsqueeze(1) + positions_of(tokens, context);
  return closed(linformer_->extend(opened(tokens, places, context), state, inputs));
}

LinformerEncDec::LinformerEncDec(const LinformerEncDecConfig& config, uint64_t seed)
    : compatible_(config.compatible) {
  auto enc = side(config.enc, config), dec = side(config.dec, config);
  enc.return_emb = true;
  dec.decoder_mode = dec.causal = true;
  dec.embeddings_size = enc.input_size;
  dec.embeddings_channels = enc.embedding_width();
  encoder_ = register_module("encoder", std::make_shared<LinformerLM>(enc, seed, "encoder"));
  decoder_ = register_module("decoder", std::make_shared<LinformerLM>(dec, seed, "decoder"));
}

Tensor LinformerEncDec::operator()(const Tensor& source, const Tensor& target,
                                   const Inputs& inputs) {
  const auto embeddings = (*encoder_)(
      source, {.input_mask = inputs.input_mask, .random = inputs.random, .maps = inputs.maps});
  const bool itself = !target.defined();
  LinformerInputs reading = {
      .embeddings = embeddings, .random = inputs.random, .maps = inputs.maps};
  if (!compatible_) {
    reading.input_mask = itself ? inputs.input_mask : inputs.target_mask;
    reading.embeddings_mask = inputs.input_mask;
  }
  return (*decoder_)(itself ? source : target, reading);
}

void LinformerEncDec::start(State& state, const Tensor& source, int64_t capacity,
                            const Inputs& inputs) {
  const auto embeddings =
      (*encoder_)(source, {.input_mask = inputs.input_mask, .random = inputs.random});
  decoder_->start(state, source.size(0), capacity,
                  {.embeddings = embeddings, .embeddings_mask = inputs.input_mask});
}

}  // namespace longbow
