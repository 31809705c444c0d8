#include "longbow/models/encoder/encoder.h"

#include <ATen/ATen.h>

#include "longbow/nn/layers/layer_norm.h"

namespace longbow {

std::vector<Block> blocks_of(const EncoderConfig& config, const Site& site) {
  const auto options = attention_per_layer(config.attention, config.layers);
  std::vector<Block> blocks;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    auto here = site.at("layers." + std::to_string(layer));
    here.layer = layer;
    blocks.push_back(make_block(options[static_cast<size_t>(layer)], here, config.block));
  }
  return blocks;
}

Encoder::Encoder(const EncoderConfig& config, int64_t vocabulary, uint64_t seed,
                 const Tensor& words)
    : config_(config) {
  check_attention(config);
  TORCH_CHECK(config.head_width > 0 || config.width % config.heads == 0, "encoder: width ",
              config.width, " is not a multiple of ", config.heads, " heads");
  auto site = site_of(config, seed);
  site.shared = shared_ = register_module("shared", std::make_shared<Shared>());
  if (config.positions == Positions::rotary) site.rotary = config.rotary;
  embedding_ =
      register_module("embedding", std::make_shared<Embedding>(site, config, vocabulary, words));
  blocks_ = blocks_of(config, site);
  layers_ = register_module("layers", std::make_shared<Stack>(blocks_, shared_));
  if (config.block.residual == Residual::pre_norm || config.block.residual == Residual::reversible)
    norm_ = register_module("norm",
                            std::make_shared<LayerNorm>(config.width, config.block.norm_epsilon));
}

Tensor Encoder::embedded(const Tensor& tokens, Context& context, const Tensor& front) const {
  TORCH_CHECK(config_.max_length == 0 || tokens.size(1) <= config_.max_length,
              "encoder: ", tokens.size(1), " tokens, but max_length is ", config_.max_length);
  context.mask.causal = config_.causal;
  const auto x = (*embedding_)(tokens, context);
  if (!front.defined()) return x;
  TORCH_CHECK(!context.mask.globals.defined() && !context.positions.defined(),
              "encoder: global tokens and positions are given, but rows stand before the tokens");
  const int64_t rows = front.size(0), batch = x.size(0);
  auto& keep = context.mask.keep;
  if (keep.defined()) keep = at::cat({at::ones({batch, rows}, keep.options()), keep}, 1);
  return at::cat({front.to(x.scalar_type()).unsqueeze(0).expand({batch, -1, -1}), x}, 1);
}

Tensor Encoder::operator()(const Tensor& tokens, Context& context, const Tensor& front) {
  const auto x = (*layers_)(embedded(tokens, context, front), context);
  return norm_ ? (*norm_)(x) : x;
}

std::vector<Tensor> Encoder::hidden(const Tensor& tokens, Context& context) {
  TORCH_CHECK(config_.block.residual != Residual::reversible,
              "encoder: reversible blocks pass two streams, not hidden states");
  std::vector<Tensor> states = {embedded(tokens, context)};
  for (const auto& block : blocks_) states.push_back(block->forward(states.back(), context));
  return states;
}

// The state of the stack, with the number of real tokens so far, from which positions go on.
void Encoder::start(State& state, int64_t lanes, int64_t capacity, Context& context) {
  TORCH_CHECK(config_.causal, "encoder: only a causal one can be extended");
  TORCH_CHECK(config_.max_length == 0 || capacity <= config_.max_length, "encoder: a capacity of ",
              capacity, " tokens, but max_length is ", config_.max_length);
  layers_->start(state, lanes, capacity, context);
  state.seen = at::zeros({lanes}, parameters().front().options().dtype(at::kLong));
}

Tensor Encoder::extend(const Tensor& tokens, State& state, Context& context) {
  TORCH_CHECK(state.seen.defined(), "encoder: extend before start");
  const auto keep = context.mask.keep;
  Context placed = context;
  placed.positions = state.seen.unsqueeze(1) + positions_of(tokens, {.mask = {.keep = keep}});
  const auto x = layers_->extend((*embedding_)(tokens, placed), state, context);
  state.seen =
      state.seen + (keep.defined() ? keep.sum(1) : at::full_like(state.seen, tokens.size(1)));
  return norm_ ? (*norm_)(x) : x;
}

}  // namespace longbow
