#include "longbow/models/decoder/decoder.h"

#include <ATen/ATen.h>

#include "longbow/nn/layers/layer_norm.h"

namespace longbow {
namespace {

void require(const Node& options, const std::string& what, bool (*promise)(const Promises&)) {
  const auto& mechanism = mechanism_of(options);
  if (promise(mechanism.promises(options_of(options)))) return;
  throw UserError(options.place, mechanism.name + " " + what,
                  "mechanisms that do: " + mechanisms_that(promise));
}

// The part of the config that an encoder has too.
EncoderConfig encoder_of(const DecoderConfig& config) {
  return {.width = config.width,
          .heads = config.heads,
          .head_width = config.head_width,
          .layers = config.layers,
          .max_length = config.max_length,
          .causal = true,
          .bias = config.bias,
          .positions = config.positions,
          .init = config.init,
          .embedding_dropout = config.embedding_dropout,
          .block = config.block,
          .attention = config.attention};
}

Site site_of(const DecoderConfig& config, const DecoderSite& place) {
  auto site = site_of(encoder_of(config), place.seed);
  site.path = "decoder";
  site.shape.memory_width = place.memory_width;
  site.shape.memory_length = place.memory_length;
  return site;
}

void check_cross_attention(const DecoderConfig& config, const DecoderSite& place) {
  for (const auto& options : attention_per_layer(config.cross_attention, config.layers)) {
    require(options, "cannot attend to a memory", [](const Promises& p) { return p.cross; });
    require(options, "does not decode from a memory",
            [](const Promises& p) { return p.cross && p.decode; });
  }
  auto site = site_of(config, place);
  site.cross = true;
  if (place.memory_length == 0) site.shape.max_length = 0;  // which would stand for it
  check_layer_options(config.cross_attention, site);
}

}  // namespace

void check_decoder(const DecoderConfig& config, const DecoderSite& place, const Node& tree) {
  if (config.positions == Positions::axial) {
    throw UserError(tree.place_of("positions"), "a decoder has no axial positions",
                    "write none, sinusoidal, learned or rotary");
  }
  check_encoder(encoder_of(config), tree, /*crosses=*/true);
  check_decodes(config.attention, config.layers);
  check_cross_attention(config, place);
}

Decoder::Decoder(const DecoderConfig& config, const DecoderSite& place) : config_(config) {
  check_attention(encoder_of(config));
  check_decodes(config.attention, config.layers);
  check_cross_attention(config, place);
  TORCH_CHECK(config.head_width > 0 || config.width % config.heads == 0, "decoder: width ",
              config.width, " is not a multiple of ", config.heads, " heads");
  auto site = site_of(config, place);
  site.shared = shared_ = register_module("shared", std::make_shared<Shared>());
  if (config.positions == Positions::rotary) site.rotary = EncoderConfig().rotary;
  embedding_ = register_module(
      "embedding",
      std::make_shared<Embedding>(site, encoder_of(config), place.vocabulary, place.words));
  TORCH_CHECK(words().size(0) == place.vocabulary && words().size(1) == config.width,
              "decoder: the shared embeddings are ", words().sizes(), ", but it needs [",
              place.vocabulary, ", ", config.width, "]");
  const auto own = attention_per_layer(config.attention, config.layers),
             cross = attention_per_layer(config.cross_attention, config.layers);
  std::vector<Block> blocks;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    auto here = site.at("layers." + std::to_string(layer));
    here.layer = layer;
    const auto i = static_cast<size_t>(layer);
    blocks.push_back(make_block(own[i], cross[i], here, config.block));
  }
  layers_ = register_module("layers", std::make_shared<Stack>(std::move(blocks), shared_));
  if (config.block.residual == Residual::pre_norm || config.block.residual == Residual::reversible)
    norm_ = register_module("norm",
                            std::make_shared<LayerNorm>(config.width, config.block.norm_epsilon));
}

Tensor Decoder::operator()(const Tensor& tokens, Context& context) {
  TORCH_CHECK(context.memory.defined(), "decoder: the context has no memory");
  TORCH_CHECK(config_.max_length == 0 || tokens.size(1) <= config_.max_length,
              "decoder: ", tokens.size(1), " tokens, but max_length is ", config_.max_length);
  context.mask.causal = true;
  const auto x = (*embedding_)(
      tokens, {.mask = context.mask, .positions = context.positions, .random = context.random});
  return normed((*layers_)(x, context));
}

void Decoder::start(State& state, int64_t lanes, int64_t capacity, Context& context) {
  TORCH_CHECK(context.memory.defined(), "decoder: the context has no memory");
  TORCH_CHECK(config_.max_length == 0 || capacity <= config_.max_length, "decoder: room for ",
              capacity, " tokens, but max_length is ", config_.max_length);
  state = {};
  layers_->start(state.child["layers"], lanes, capacity, context);
  state.seen = at::zeros({lanes}, words().options().dtype(at::kLong));
}

Tensor Decoder::extend(const Tensor& tokens, State& state, Context& context) {
  const auto& keep = context.mask.keep;
  const auto places = state.seen.unsqueeze(1) + positions_of(tokens, {.mask = {.keep = keep}});
  const auto x = (*embedding_)(tokens, {.positions = places, .random = context.random});
  const auto y = normed(layers_->extend(x, state.child.at("layers"), context));
  state.seen =
      state.seen + (keep.defined() ? keep.sum(1) : at::full_like(state.seen, tokens.size(1)));
  return y;
}

}  // namespace longbow
