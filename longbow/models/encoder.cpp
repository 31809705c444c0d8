#include "longbow/models/encoder.h"

#include <ATen/ATen.h>

#include "longbow/nn/positions.h"

namespace longbow {

void check_attention(const EncoderConfig& config) {
  for (const auto& options : attention_per_layer(config.attention, config.layers)) {
    const auto& mechanism = mechanism_of(options);
    const auto promises = mechanism.promises(options_of(options));
    if (config.causal && promises.future == Future::refused)
      throw UserError(options.place, mechanism.name + " is not causal",
                      "mechanisms that are: " + mechanisms_that([](const Promises& p) {
                        return p.future != Future::refused;
                      }));
    if (!config.causal && !promises.bidirectional)
      throw UserError(options.place, mechanism.name + " is causal only", "set causal: true");
  }
}

void check_encoder(const EncoderConfig& config, const Node& tree) {
  if (config.head_width == 0 && config.width % config.heads != 0) {
    const auto* heads = tree.find("heads");
    throw UserError(heads ? heads->place : tree.place,
                    "model.width " + std::to_string(config.width) +
                        " is not a multiple of model.heads " + std::to_string(config.heads),
                    "change one of them, or set model.head_width");
  }
  check_attention(config);
}

Encoder::Encoder(const EncoderConfig& config, int64_t vocabulary, uint64_t seed) : config_(config) {
  check_attention(config);
  TORCH_CHECK(config.head_width > 0 || config.width % config.heads == 0, "encoder: width ",
              config.width, " is not a multiple of ", config.heads, " heads");
  Site site = {.shape = {.width = config.width,
                         .heads = config.heads,
                         .head_width = config.head_width,
                         .max_length = config.max_length},
               .init = std::string(names_of(config.init)[static_cast<size_t>(config.init)]),
               .bias = config.bias,
               .layers = config.layers,
               .seed = seed};
  site.shared = shared_ = register_module("shared", std::make_shared<Shared>());
  words_ = parameter("words", initial_normal(site, "words", {vocabulary, config.width},
                                             config.init == Init::lra ? 1.0 : 0.02));
  if (config.positions == Positions::learned)
    positions_ = parameter(
        "positions", initial_normal(site, "positions", {config.max_length, config.width}, 0.02));
  if (config.positions == Positions::sinusoidal)
    positions_ = register_buffer("positions", sinusoids(config.max_length, config.width));
  const auto options = attention_per_layer(config.attention, config.layers);
  std::vector<Block> blocks;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    auto here = site.at("layers." + std::to_string(layer));
    here.layer = layer;
    blocks.push_back(make_block(options[static_cast<size_t>(layer)], here, config.block));
  }
  layers_ = register_module("layers", std::make_shared<Stack>(std::move(blocks), shared_));
  if (config.block.residual == Residual::pre_norm || config.block.residual == Residual::reversible)
    norm_ = register_module("norm", std::make_shared<LayerNorm>(config.width));
}

Tensor Encoder::embedded(const Tensor& tokens, Context& context) {
  TORCH_CHECK(config_.max_length == 0 || tokens.size(1) <= config_.max_length,
              "encoder: ", tokens.size(1), " tokens, but max_length is ", config_.max_length);
  auto x = at::embedding(words_, tokens);
  if (positions_.defined()) {
    const auto places = positions_of(x, context);
    x = x + at::embedding(positions_, places).to(x.scalar_type());
  }
  return dropout(x, config_.embedding_dropout, is_training(), context, "embedding.dropout");
}

Tensor Encoder::operator()(const Tensor& tokens, Context& context) {
  context.mask.causal = config_.causal;
  const auto x = (*layers_)(embedded(tokens, context), context);
  return norm_ ? (*norm_)(x) : x;
}

// The state of the stack, with the number of real tokens so far, from which positions go on.
void Encoder::start(State& state, int64_t lanes, int64_t capacity, Context& context) {
  TORCH_CHECK(config_.causal, "encoder: only a causal one can be extended");
  TORCH_CHECK(config_.max_length == 0 || capacity <= config_.max_length, "encoder: a capacity of ",
              capacity, " tokens, but max_length is ", config_.max_length);
  layers_->start(state, lanes, capacity, context);
  state.seen = at::zeros({lanes}, words_.options().dtype(at::kLong));
}

Tensor Encoder::extend(const Tensor& tokens, State& state, Context& context) {
  TORCH_CHECK(state.seen.defined(), "encoder: extend before start");
  const auto keep = context.mask.keep;
  Context placed = context;
  placed.positions = state.seen.unsqueeze(1) + positions_of(tokens, {.mask = {.keep = keep}});
  const auto x = layers_->extend(embedded(tokens, placed), state, context);
  state.seen =
      state.seen + (keep.defined() ? keep.sum(1) : at::full_like(state.seen, tokens.size(1)));
  return norm_ ? (*norm_)(x) : x;
}

}  // namespace longbow
