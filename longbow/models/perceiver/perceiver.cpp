#include "longbow/models/perceiver/perceiver.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "longbow/nn/softmax/softmax.h"

namespace longbow {
namespace {

constexpr double kDeviation = 0.02;

// Repeats with the same weights draw at the same sites, so each has a seed of its own.
Random drawn_in(const Random& random, int64_t repeat) {
  constexpr int64_t kApart = 0x9E3779B9;
  if (repeat == 0 || !random.key.defined()) return random;
  auto key = random.key.clone();
  key.select(0, 0).add_(repeat * kApart);
  return {key};
}

const Place& place_in(const Node& tree, const std::string& part, const std::string& key) {
  const auto* found = tree.find(part);
  return found ? found->place_of(key) : tree.place;
}

void check_fourier(const PerceiverConfig& config, const Node& tree) {
  const auto& sides = config.fourier.sides;
  if (sides.empty()) return;
  const auto fail = [&](const std::string& what, const std::string& hint) {
    throw UserError(place_in(tree, "fourier", "sides"), "model.fourier.sides " + what, hint);
  };
  if (config.fourier.bands == 0) fail("is given without bands", "set model.fourier.bands");
  int64_t places = 1;
  for (const auto side : sides) places *= side;
  if (places < config.encoder.max_length)
    fail("has " + std::to_string(places) + " places, but max_length is " +
             std::to_string(config.encoder.max_length),
         "raise a side");
}

}  // namespace

EncoderConfig PerceiverConfig::blocks() const {
  auto config = encoder;
  config.max_length = latents;
  config.positions = Positions::none;
  config.embedding_width = 0;
  return config;
}

EncoderConfig PerceiverConfig::embedding() const {
  auto config = encoder;
  config.width = encoder.words();
  config.embedding_width = 0;
  return config;
}

void check_cross(const CrossConfig& config, const std::string& part, int64_t width,
                 const Node& tree) {
  if (config.head_width > 0 || width % config.heads == 0) return;
  throw UserError(place_in(tree, part, "heads"),
                  "rows of " + std::to_string(width) + " channels do not divide among model." +
                      part + ".heads " + std::to_string(config.heads),
                  "change one of them, or set model." + part + ".head_width");
}

void check_perceiver(const PerceiverConfig& config, const Node& tree) {
  const auto& encoder = config.encoder;
  if (encoder.causal)
    throw UserError(tree.place_of("causal"), "the latents of a Perceiver read all tokens",
                    "leave model.causal out, or take perceiver_ar");
  if (encoder.positions == Positions::rotary)
    throw UserError(tree.place_of("positions"), "a Perceiver has no rotary positions",
                    "take learned, sinusoidal, axial or none");
  if (config.reads > config.repeats)
    throw UserError(tree.place_of("reads"),
                    "model.reads " + std::to_string(config.reads) + " is more than model.repeats",
                    "repeats is " + std::to_string(config.repeats));
  // Embeddings have no heads and no blocks.
  auto tokens = config.embedding();
  tokens.heads = 1;
  tokens.block = {};
  tokens.attention = Node::string("softmax");
  check_encoder(tokens, tree);
  check_encoder(config.blocks(), tree);
  check_cross(config.cross, "cross", encoder.width, tree);
  check_fourier(config, tree);
}

Site cross_site(const Site& site, const CrossConfig& config, int64_t width) {
  auto here = site;
  here.shape = {.width = width, .heads = config.heads, .head_width = config.head_width};
  return here;
}

BlockConfig cross_block(const CrossConfig& config, BlockConfig block) {
  block.feed_forward.width = config.feed_forward;
  return block;
}

Perceiver::Perceiver(const PerceiverConfig& config, int64_t channels, uint64_t seed)
    : config_(config), channels_(channels) {
  const auto& encoder = config.encoder;
  TORCH_CHECK(!encoder.causal, "perceiver: the latents read all tokens, so it is not causal");
  TORCH_CHECK(encoder.positions != Positions::rotary, "perceiver: has no rotary positions");
  TORCH_CHECK(config.reads <= config.repeats, "perceiver: ", config.reads, " reads in ",
              config.repeats, " repeats");
  reads_ = config.reads > 0 ? config.reads : config.repeats;
  const auto site = site_of(config.blocks(), seed);
  latents_ = parameter(
      "latents", initial_normal(site, "latents", {config.latents, encoder.width}, kDeviation));
  cross_ = register_module("cross", std::make_shared<Numbered<CrossLayer>>());
  blocks_ = register_module("blocks", std::make_shared<Numbered<Tower>>());
  for (int64_t repeat = 0; repeat < config.repeats; ++repeat) {
    const auto number = std::to_string(weights_of(repeat));
    if (repeat < reads_ && weights_of(repeat) == cross_->size())
      cross_->add(std::make_shared<CrossLayer>(
          cross_site(site.at("cross." + number), config.cross, encoder.width), channels,
          cross_block(config.cross, encoder.block)));
    if (weights_of(repeat) == blocks_->size())
      blocks_->add(std::make_shared<Tower>(site.at("blocks." + number), config.blocks()));
  }
}

int64_t Perceiver::weights_of(int64_t repeat) const {
  switch (config_.repeat_weights) {
    case RepeatWeights::shared:
      return 0;
    case RepeatWeights::first_apart:
      return std::min<int64_t>(repeat, 1);
    case RepeatWeights::own:
      return repeat;
  }
  TORCH_INTERNAL_ASSERT(false);
}

Tensor Perceiver::operator()(const Tensor& x, Context& context) {
  const auto& keep = context.mask.keep;
  TORCH_CHECK(x.dim() == 3 && x.size(2) == channels_, "perceiver: x is ", x.sizes(),
              ", but needs [batch, tokens, ", channels_, "]");
  TORCH_CHECK(!keep.defined() || keep.sizes() == x.sizes().slice(0, 2), "perceiver: keep is ",
              keep.sizes(), ", but there are ", x.size(0), " rows of ", x.size(1), " tokens");
  const auto visible = visible_keys(keep);
  auto z = latents_.unsqueeze(0).expand({x.size(0), -1, -1});
  // The same weights make the same keys and values of the tokens: once is enough.
  std::vector<KeysAndValues> sources(static_cast<size_t>(cross_->size()));
  for (int64_t repeat = 0; repeat < config_.repeats; ++repeat) {
    const int64_t which = weights_of(repeat);
    Context inner = context;
    inner.random = drawn_in(context.random, repeat);
    if (repeat < reads_) {
      auto& source = sources[static_cast<size_t>(which)];
      if (!source.k.defined()) source = (*cross_)[which].source(x);
      z = (*cross_)[which](z, source, visible, inner);
    }
    z = (*blocks_)[which](z, {}, inner);
    context.loss = inner.loss;
  }
  return z;
}

PerceiverInput::PerceiverInput(const PerceiverConfig& config, int64_t vocabulary, uint64_t seed)
    : max_length_(config.encoder.max_length) {
  const auto embedding = config.embedding();
  embedding_ = register_module(
      "embedding", std::make_shared<Embedding>(site_of(embedding, seed), embedding, vocabulary));
  if (config.fourier.bands > 0)
    features_ = register_buffer("features", fourier_table(config.fourier, max_length_));
}

Tensor PerceiverInput::operator()(const Tensor& tokens, const Context& context) const {
  TORCH_CHECK(tokens.size(1) <= max_length_, "perceiver: ", tokens.size(1),
              " tokens, but max_length is ", max_length_);
  const auto x = (*embedding_)(tokens, context);
  if (!features_.defined()) return x;
  return at::cat({x, at::embedding(features_, positions_of(tokens, context)).to(x.scalar_type())},
                 -1);
}

}  // namespace longbow
