#include "longbow/models/pair.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace longbow {

Tensor pair_features(const Tensor& u, const Tensor& v, const std::vector<Feature>& features) {
  std::vector<Tensor> parts;
  for (const auto feature : features) {
    if (feature == Feature::concat) parts.insert(parts.end(), {u, v});
    if (feature == Feature::product) parts.push_back(u * v);
    if (feature == Feature::difference) parts.push_back(u - v);
    if (feature == Feature::distance) parts.push_back((u - v).abs());
  }
  return at::cat(parts, -1);
}

PairClassifier::PairClassifier(const PairConfig& config, int64_t vocabulary, int64_t classes,
                               uint64_t seed)
    : config_(config),
      encoder_(
          register_module("encoder", std::make_shared<Encoder>(config.encoder, vocabulary, seed))) {
  TORCH_CHECK(!config.features.empty(), "pair: the head has no features");
  TORCH_CHECK(config.pooling != Pooling::none, "pair: the sequences are not pooled");
  const Site site = {.path = "head", .init = "xavier", .seed = seed};
  const auto both = std::count(config.features.begin(), config.features.end(), Feature::concat);
  const int64_t width = config.encoder.width * (std::ssize(config.features) + both);
  const int64_t inner = config.head > 0 ? config.head : width;
  if (config.head > 0)
    hidden_ = register_module("hidden", std::make_shared<Linear>(site.at("hidden"), width, inner));
  output_ = register_module("output", std::make_shared<Linear>(site.at("output"), inner, classes));
}

Tensor PairClassifier::operator()(const PaddedTokens& first, const PaddedTokens& second,
                                  Context& context) {
  TORCH_CHECK(first.tokens.sizes() == second.tokens.sizes(), "pair: the first sequences are ",
              first.tokens.sizes(), " but the second ones ", second.tokens.sizes());
  if (first.lengths.defined())
    context.mask =
        Mask::from_lengths(at::cat({first.lengths, second.lengths}), first.tokens.size(1));
  const auto x = (*encoder_)(at::cat({first.tokens, second.tokens}), context);
  const auto each = pooled(x, context.mask.keep, config_.pooling).chunk(2);
  auto features = pair_features(each[0], each[1], config_.features);
  if (hidden_) features = (*hidden_)(features).relu();
  return (*output_)(features);
}

}  // namespace longbow
