#include "longbow/models/linformer_pytorch/linformer.h"

#include <ATen/ATen.h>

#include "longbow/models/linformer_pytorch/linformer_layer.h"

namespace longbow {
namespace {

void require(bool fine, const std::string& what, const std::string& hint) {
  if (!fine) throw UserError(what, hint);
}

void check_config(const LinformerConfig& c) {
  const auto text = [](int64_t n) { return std::to_string(n); };
  require(c.input_size > 0 && c.channels > 0, "linformer: input_size or channels is not given",
          "set both");
  require(c.full_attention || c.dim_k > 0, "linformer: dim_k is not given", "set it");
  require(c.activation == Activation::gelu || c.activation == Activation::relu,
          "linformer: unknown activation", "take gelu or relu");
  require(
      c.dim_d || c.channels % c.nhead == 0,
      "linformer: channels " + text(c.channels) + " is not a multiple of nhead " + text(c.nhead),
      "change one of them, or set dim_d");
  const bool layerwise = c.parameter_sharing == LengthSharing::layerwise;
  if (c.ff_intermediate) {
    require(!layerwise, "linformer: ff_intermediate does not go with parameter_sharing layerwise",
            "share headwise, kv or none");
    require(!c.decoder_mode, "linformer: ff_intermediate does not go with decoder_mode",
            "drop one of them");
    require(c.include_ff, "linformer: ff_intermediate needs feed-forward layers",
            "set include_ff, or drop ff_intermediate");
  }
  require(c.compatible || !layerwise || c.k_reduce_by_layer == 0,
          "linformer: layers that share a projection cannot have fewer and fewer slots",
          "drop k_reduce_by_layer, or share headwise, kv or none");
  require(c.decoder_mode || (c.embeddings_size == 0 && c.embeddings_channels == 0),
          "linformer: embeddings are read in decoder_mode only", "set decoder_mode");
  require(!c.compatible || ((c.embeddings_size == 0 || c.embeddings_size == c.input_size) &&
                            (c.embeddings_channels == 0 || c.embeddings_channels == c.channels)),
          "linformer: linformer-pytorch's embeddings have the shape of the input",
          "make the sizes equal, or drop compatible");
}

Tensor as_mask(const Tensor& mask) {
  return mask.defined() ? mask.to(at::kBool) : mask;
}

}  // namespace

Linformer::Linformer(const LinformerConfig& config, uint64_t seed, const std::string& path)
    : config_(config) {
  check_config(config);
  shared_ = register_module("shared", std::make_shared<Shared>());
  const auto list = register_module("seq", std::make_shared<torch::nn::Module>("seq"));
  Site site = {.shape = {.width = config.channels,
                         .heads = config.nhead,
                         .head_width = config.dim_d.value_or(config.channels / config.nhead),
                         .max_length = config.input_size},
               .init = "xavier",
               .bias = false,
               .layers = config.depth,
               .seed = seed,
               .shared = shared_};
  const auto next = [&] {
    auto here = site;
    here.path = path + "seq." + std::to_string(layers_.size());
    return here;
  };
  const auto add = [&](const std::shared_ptr<LinformerLayer>& layer) {
    layers_.push_back(list->register_module(std::to_string(layers_.size()), layer));
  };
  const auto attend = [&](bool cross) {
    auto here = next();
    if (cross) here.shape.memory_width = config.embeddings_channels;
    attentions_.push_back(
        {static_cast<int64_t>(layers_.size()), site.layer, cross, here.path + ".mixer"});
    add(attention_layer(here, config, cross));
  };
  for (; site.layer < config.depth; ++site.layer) {
    const bool last = site.layer == config.depth - 1;
    const int64_t out = last ? config.channels : config.ff_intermediate.value_or(config.channels);
    attend(false);
    if (config.include_ff) add(feed_layer(next(), config, out));
    site.shape.width = out;
    if (!config.decoder_mode) continue;
    attend(true);
    if (config.include_ff) add(feed_layer(next(), config, out));
  }
}

void Linformer::check(const Tensor& x, const LinformerInputs& inputs) const {
  const auto& c = config_;
  TORCH_CHECK(x.dim() == 3 && x.size(1) == c.input_size && x.size(2) == c.channels,
              "linformer: x is ", x.sizes(), ", but needs [batch, ", c.input_size, ", ", c.channels,
              "]; Padder fills shorter inputs up");
  const auto& e = inputs.embeddings;
  TORCH_CHECK(c.decoder_mode == e.defined(), "linformer: embeddings are ",
              e.defined() ? "given without" : "missing in", " decoder_mode");
  const int64_t tokens = c.embeddings_size > 0 ? c.embeddings_size : c.input_size,
                width = c.embeddings_channels > 0 ? c.embeddings_channels : c.channels;
  TORCH_CHECK(!e.defined() || (e.dim() == 3 && e.size(0) == x.size(0) && e.size(1) == tokens &&
                               e.size(2) == width),
              "linformer: embeddings are ", e.sizes(), ", but need [", x.size(0), ", ", tokens,
              ", ", width, "]");
  const auto fits = [&](const char* name, const Tensor& mask, int64_t length) {
    TORCH_CHECK(
        !mask.defined() || (mask.dim() == 2 && mask.size(0) == x.size(0) && mask.size(1) == length),
        "linformer: ", name, " is ", mask.sizes(), ", but needs [", x.size(0), ", ", length, "]");
  };
  fits("input_mask", inputs.input_mask, c.input_size);
  fits("embeddings_mask", inputs.embeddings_mask, tokens);
  TORCH_CHECK(!c.compatible || !inputs.embeddings_mask.defined(),
              "linformer: linformer-pytorch hides queries with embeddings_mask, which compatible "
              "does not reproduce; drop one of them");
}

Tensor Linformer::operator()(const Tensor& x, const LinformerInputs& inputs) {
  check(x, inputs);
  auto given = inputs;
  given.input_mask = as_mask(inputs.input_mask);
  given.embeddings_mask = as_mask(inputs.embeddings_mask);
  const Context context = {.random = inputs.random, .maps = inputs.maps};
  auto y = x;
  for (const auto& layer : layers_) y = (*layer)(y, context, given);
  return y;
}

void Linformer::start(State& state, int64_t lanes, int64_t capacity,
                      const LinformerInputs& inputs) {
  TORCH_CHECK(config_.causal && !config_.compatible,
              "linformer: only a causal net, and not a compatible one, is extended by tokens");
  TORCH_CHECK(capacity <= config_.input_size, "linformer: ", capacity,
              " tokens, but input_size is ", config_.input_size);
  TORCH_CHECK(config_.decoder_mode == inputs.embeddings.defined(),
              "linformer: embeddings are wanted in decoder_mode, and there only");
  auto given = inputs;
  given.embeddings_mask = as_mask(inputs.embeddings_mask);
  state = {};
  for (size_t i = 0; i < layers_.size(); ++i)
    layers_[i]->start(state.child[std::to_string(i)], lanes, capacity, given);
}

Tensor Linformer::extend(const Tensor& x, State& state, const LinformerInputs& inputs) {
  Context context = {.random = inputs.random, .maps = inputs.maps};
  const auto keep = as_mask(inputs.input_mask);
  context.mask = {.ragged = keep.defined(), .keep = keep};
  auto y = x;
  for (size_t i = 0; i < layers_.size(); ++i)
    y = layers_[i]->extend(y, state.child.at(std::to_string(i)), context);
  return y;
}

}  // namespace longbow
