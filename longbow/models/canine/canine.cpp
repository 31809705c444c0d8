#include "longbow/models/canine/canine.h"

#include <ATen/ATen.h>

#include "longbow/models/bert/bert.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/layer_norm.h"

namespace longbow {
namespace {

// The multipliers of the published models.
constexpr std::array<int64_t, 16> kPrimes = {31,  43,  59,  61,  73,  97,  103, 113,
                                             137, 149, 157, 173, 181, 193, 211, 223};

// The config of a tower of one layer over characters.
EncoderConfig single(EncoderConfig config, const Node& attention) {
  config.layers = 1;
  config.attention = attention;
  return config;
}

// The config of the deep stack: as many molecules as the longest text has, and the first character.
EncoderConfig deep_of(const CanineConfig& config) {
  auto deep = config.encoder;
  if (deep.max_length > 0) deep.max_length = (deep.max_length + config.rate - 1) / config.rate + 1;
  return deep;
}

}  // namespace

EncoderConfig canine_encoder() {
  auto config = bert_encoder();
  config.max_length = 2048;
  return config;
}

void check_canine(const CanineConfig& config, const Node& tree) {
  require_tokens(config.encoder, tree, "a model of characters");
  check_encoder(deep_of(config), tree);
  for (const auto& attention : {config.first, config.last})
    check_attention(single(config.encoder, attention));
  if (config.encoder.width % config.hashes != 0) {
    throw UserError(tree.place_of("hashes"),
                    "model.width " + std::to_string(config.encoder.width) +
                        " is not a multiple of model.hashes " + std::to_string(config.hashes),
                    "change one of them");
  }
  if (config.encoder.causal || config.encoder.positions != Positions::learned)
    throw UserError(tree.place, "a model of characters is not causal and has learned positions",
                    "leave model.causal and model.positions out");
  const auto longest = config.encoder.max_length;
  if (config.molecules == Molecules::shifted && longest > 0 && longest < config.rate)
    throw UserError(tree.place_of("rate"),
                    "model.rate is " + std::to_string(config.rate) + ", but max_length is " +
                        std::to_string(longest),
                    "lower it, or set model.molecules: aligned");
}

Convolution::Convolution(const Site& site, int64_t in, int64_t out, int64_t kernel) {
  weight =
      parameter("weight", initial_matrix(site, "weight", out, in * kernel).view({out, in, kernel}));
  bias = parameter("bias", at::zeros({out}), {.decay = false});
}

Tensor Convolution::operator()(const Tensor& x, int64_t stride) const {
  return at::conv1d(x.transpose(1, 2), weight, bias, stride).transpose(1, 2);
}

Canine::Canine(const CanineConfig& config, uint64_t seed) : config_(config) {
  const auto& encoder = config.encoder;
  const int64_t width = encoder.width, longest = encoder.max_length;
  TORCH_CHECK(width % config.hashes == 0, "canine: width ", width, " is not a multiple of ",
              config.hashes, " hashes");
  TORCH_CHECK(encoder.head_width > 0 || width % encoder.heads == 0, "canine: width ", width,
              " is not a multiple of ", encoder.heads, " heads");
  TORCH_CHECK(!encoder.causal && encoder.positions == Positions::learned && longest > 0,
              "canine: is not causal and has learned positions up to max_length");
  TORCH_CHECK(config.molecules == Molecules::aligned || longest >= config.rate,
              "canine: max_length ", longest, " is less than one molecule of ", config.rate);
  const auto site = site_of(encoder, seed);
  const auto table = [&](const std::string& name, std::vector<int64_t> shape) {
    return parameter(name, initial_normal(site, name, shape, 0.02));
  };
  const auto norm = [&](const std::string& name) {
    return register_module(name, std::make_shared<LayerNorm>(width, encoder.block.norm_epsilon));
  };
  hashes_ = table("hashes", {config.hashes, config.buckets, width / config.hashes});
  primes_ = register_buffer(
      "primes", at::tensor(at::ArrayRef<int64_t>(kPrimes)).narrow(0, 0, config.hashes).clone());
  positions_ = table("positions", {longest, width});
  segments_ = table("segments", {config.token_types, width});
  embedding_norm_ = norm("embedding_norm");
  first_ = register_module(
      "first", std::make_shared<Tower>(site.at("first"), single(encoder, config.first)));
  down_ = register_module(
      "down", std::make_shared<Convolution>(site.at("down"), width, width, config.rate));
  down_norm_ = norm("down_norm");
  deep_ = register_module("deep", std::make_shared<Tower>(site.at("deep"), deep_of(config)));
  pooler_ = register_module("pooler", std::make_shared<Linear>(site.at("pooler"), width, width));
  up_ = register_module(
      "up", std::make_shared<Convolution>(site.at("up"), 2 * width, width, config.kernel));
  up_norm_ = norm("up_norm");
  last_ = register_module("last",
                          std::make_shared<Tower>(site.at("last"), single(encoder, config.last)));
}

Tensor Canine::activated(const Tensor& x) const {
  return longbow::activated(x, config_.encoder.block.feed_forward.activation);
}

Tensor Canine::embedded(const Tensor& characters, const Tensor& types, const Context& context) {
  const auto codes = (characters + 1).unsqueeze(-1) * primes_.to(at::kLong);  // [B, N, K]
  const auto offsets = at::arange(config_.hashes, codes.options()) * config_.buckets;
  auto x =
      at::embedding(hashes_.flatten(0, 1), codes.remainder(config_.buckets) + offsets).flatten(-2);
  x = x + positions_.narrow(0, 0, characters.size(1));
  x = x + (types.defined() ? at::embedding(segments_, types) : segments_[0]);
  return dropout((*embedding_norm_)(x), config_.encoder.embedding_dropout, is_training(), context,
                 "embedding.dropout");
}

Tensor Canine::whole_chunks(const Tensor& x) const {
  const int64_t rate = config_.rate, over = x.size(1) % rate;
  std::vector<int64_t> fill(static_cast<size_t>(2 * (x.dim() - 1)), 0);
  if (over > 0) fill.back() = config_.molecules == Molecules::aligned ? rate - over : -over;
  return at::constant_pad_nd(x, fill);
}

Tensor Canine::down_sampled(const Tensor& local) const {
  auto chunks = activated((*down_)(whole_chunks(local), config_.rate));
  if (config_.molecules == Molecules::shifted) chunks = chunks.narrow(1, 0, chunks.size(1) - 1);
  return (*down_norm_)(at::cat({local.narrow(1, 0, 1), chunks}, 1));
}

Tensor Canine::molecule_keep(const Tensor& keep) const {
  if (!keep.defined()) return keep;
  const auto chunks = whole_chunks(keep).unflatten(1, {-1, config_.rate}).any(-1);
  return config_.molecules == Molecules::shifted ? chunks
                                                 : at::cat({keep.narrow(1, 0, 1), chunks}, 1);
}

Tensor Canine::up_sampled(const Tensor& local, const Tensor& deep, const Tensor& keep,
                          const Context& context) const {
  const auto slot = at::arange(local.size(1), local.options().dtype(at::kLong))
                        .floor_divide(config_.rate)
                        .add(1)
                        .clamp_max(deep.size(1) - 1);
  const auto both = zero_where_padded(at::cat({local, deep.index_select(1, slot)}, -1), keep);
  const int64_t before = (config_.kernel - 1) / 2, after = config_.kernel - 1 - before;
  const auto y = activated((*up_)(at::constant_pad_nd(both, {0, 0, before, after}), 1));
  return dropout((*up_norm_)(y), config_.encoder.block.dropout, is_training(), context,
                 "up.dropout");
}

// As beside a longer text in a batch.
CanineOutput Canine::filled_up(const Tensor& characters, const Tensor& types, Context& context) {
  const int64_t length = characters.size(1), more = config_.rate - length;
  const auto filled = [&](const Tensor& x) {
    return x.defined() ? at::constant_pad_nd(x, {0, more}) : x;
  };
  const auto& keep = context.mask.keep;
  Context whole = context;
  whole.mask.keep = filled(keep.defined() ? keep : at::ones_like(characters, at::kBool));
  auto out = (*this)(filled(characters), filled(types), whole);
  context.loss = whole.loss;
  for (auto* rows : {&out.embedding, &out.local, &out.joined, &out.characters})
    *rows = rows->narrow(1, 0, length);
  return out;
}

CanineOutput Canine::operator()(const Tensor& characters, const Tensor& types, Context& context) {
  const auto& keep = context.mask.keep;
  const bool shifted = config_.molecules == Molecules::shifted;
  TORCH_CHECK(characters.size(1) <= config_.encoder.max_length, "canine: ", characters.size(1),
              " characters, but max_length is ", config_.encoder.max_length);
  TORCH_CHECK(!context.mask.ragged || !keep.defined(),
              "canine: molecules are cut from the front, so real characters must come first");
  if (shifted && characters.size(1) < config_.rate) return filled_up(characters, types, context);
  // The published implementations let padded places read as others do.
  const auto mask_of = [&](const Tensor& real) {
    return Mask{.keep = real,
                .query_keep = shifted && real.defined() ? at::ones_like(real) : Tensor()};
  };
  const auto hidden = shifted ? Tensor() : keep;
  CanineOutput out;
  out.embedding = embedded(characters, types, context);
  out.local = (*first_)(out.embedding, mask_of(keep), context);
  const auto local = zero_where_padded(out.local, hidden);
  out.molecules = down_sampled(local);
  out.deep = (*deep_)(out.molecules, mask_of(molecule_keep(keep)), context);
  out.pooled = (*pooler_)(out.deep.select(1, 0)).tanh();
  out.joined = up_sampled(local, out.deep, hidden, context);
  out.characters = (*last_)(out.joined, mask_of(keep), context);
  return out;
}

}  // namespace longbow
