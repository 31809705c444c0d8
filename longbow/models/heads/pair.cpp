#include "longbow/models/heads/pair.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace longbow {
namespace {

// How many rows as wide as u the features are.
int64_t rows_of(const std::vector<Feature>& features) {
  TORCH_CHECK(!features.empty(), "pair: the head has no features");
  return std::ssize(features) + std::count(features.begin(), features.end(), Feature::concat);
}

}  // namespace

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
    : ClassifierBase(config, vocabulary, classes, seed, rows_of(config.features)),
      features_(config.features) {
  TORCH_CHECK(config.pooling != Pooling::none, "pair: the sequences are not pooled");
}

Tensor PairClassifier::operator()(const PaddedTokens& first, const PaddedTokens& second,
                                  Context& context) {
  TORCH_CHECK(first.tokens.sizes() == second.tokens.sizes(), "pair: the first sequences are ",
              first.tokens.sizes(), " but the second ones ", second.tokens.sizes());
  if (first.lengths.defined())
    context.mask =
        Mask::from_lengths(at::cat({first.lengths, second.lengths}), first.tokens.size(1));
  const auto each = encoded(at::cat({first.tokens, second.tokens}), context).chunk(2);
  return answered(pair_features(each[0], each[1], features_));
}

}  // namespace longbow
