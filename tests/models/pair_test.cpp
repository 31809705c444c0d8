#include "longbow/models/heads/pair.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(PairFeatures, StandSideBySideInTheirOrder) {
  const auto row = [](const std::vector<double>& values) {
    return at::tensor(values, at::kDouble).unsqueeze(0);
  };
  const auto u = row({1, -2}), v = row({3, 5});
  EXPECT_NEAR_TENSOR(pair_features(u, v, {Feature::concat, Feature::product, Feature::difference}),
                     row({1, -2, 3, 5, 3, -10, -2, -7}), kExact);
  EXPECT_NEAR_TENSOR(pair_features(u, v, {Feature::distance}), row({2, 7}), kExact);
  EXPECT_NEAR_TENSOR(pair_features(u, v, {Feature::difference, Feature::concat}),
                     row({-2, -7, 1, -2, 3, 5}), kExact);
}

PairConfig small(std::vector<Feature> features, int64_t head = 0) {
  PairConfig config;
  config.features = std::move(features);
  config.encoder.width = 8;
  config.encoder.layers = 1;
  config.encoder.max_length = 4;
  config.encoder.init = Init::xavier;
  config.head = head;
  return config;
}

PaddedTokens first() {
  return {at::tensor({1, 2, 3, 4, 4, 3, 0, 0}, at::kLong).view({2, 4}),
          at::tensor({4, 2}, at::kLong)};
}
PaddedTokens second() {
  return {at::tensor({2, 0, 0, 0, 1, 1, 3, 0}, at::kLong).view({2, 4}),
          at::tensor({1, 3}, at::kLong)};
}

TEST(PairClassifier, ReadsBothSequencesWithTheSameEncoder) {
  PairClassifier model(small({Feature::difference}), 5, 3, 1);
  Context context;
  EXPECT_NEAR_TENSOR(model(first(), first(), context),
                     model.named_parameters()["output.bias"].expand({2, 3}), (Tolerance{1e-6, 0}));
  const auto one = model(first(), second(), context), other = model(second(), first(), context);
  EXPECT_GT((one - other).abs().max().item<double>(), 1e-3);
  EXPECT_NEAR_TENSOR(one + other, 2 * model.named_parameters()["output.bias"].expand({2, 3}),
                     (Tolerance{1e-6, 1e-5}));
}

TEST(PairClassifier, LogitsOfAPaddedBatchAreThoseOfEachPairAlone) {
  PairClassifier model(small({Feature::concat, Feature::product, Feature::difference}, 6), 5, 3, 1);
  Context both, one;
  const auto logits = model(first(), second(), both);
  EXPECT_EQ(logits.sizes(), (at::IntArrayRef{2, 3}));
  const PaddedTokens a = {at::tensor({4, 3, 0}, at::kLong).unsqueeze(0),
                          at::tensor({2}, at::kLong)};
  const PaddedTokens b = {at::tensor({1, 1, 3}, at::kLong).unsqueeze(0),
                          at::tensor({3}, at::kLong)};
  EXPECT_NEAR_TENSOR(logits.narrow(0, 1, 1), model(a, b, one), (Tolerance{1e-6, 1e-5}));
}

TEST(PairClassifier, TheHeadIsAsWideAsItsFeatures) {
  const auto width = [](std::vector<Feature> features) {
    return PairClassifier(small(std::move(features)), 5, 3, 1)
        .named_parameters()["output.weight"]
        .size(1);
  };
  EXPECT_EQ(width({Feature::concat}), 2 * 8);
  EXPECT_EQ(width({Feature::distance}), 8);
  EXPECT_EQ(width({Feature::concat, Feature::product, Feature::difference, Feature::distance}),
            5 * 8);
  const auto hidden = PairClassifier(small({Feature::product}, 6), 5, 3, 1).named_parameters();
  EXPECT_EQ(hidden["hidden.weight"].sizes(), (at::IntArrayRef{6, 8}));
  EXPECT_EQ(hidden["output.weight"].sizes(), (at::IntArrayRef{3, 6}));
}

TEST(PairClassifier, PoolsEachSequenceAsAClassifierDoes) {
  auto config = small({Feature::concat});
  config.pooling = Pooling::attention;
  config.pooler = true;
  PairClassifier pair(config, 5, 3, 1);
  Classifier single(config, 5, 3, 1);
  const auto weights = pair.named_parameters(), others = single.named_parameters();
  EXPECT_EQ(weights["pooler.query"].sizes(), (at::IntArrayRef{8}));
  EXPECT_EQ(weights["pooler.dense.weight"].sizes(), (at::IntArrayRef{8, 8}));
  const at::NoGradGuard no_grad;
  for (const auto& entry : others)
    if (!entry.key().starts_with("output.")) entry.value().copy_(weights[entry.key()]);
  others["output.bias"].zero_();
  const auto half = [&](const PaddedTokens& side, int64_t from) {
    others["output.weight"].copy_(weights["output.weight"].narrow(1, from, 8));
    Context context = {.mask = Mask::from_lengths(side.lengths, 4)};
    return single(side.tokens, context);
  };
  Context context;
  EXPECT_NEAR_TENSOR(pair(first(), second(), context),
                     half(first(), 0) + half(second(), 8) + weights["output.bias"],
                     (Tolerance{1e-6, 1e-5}));
}

TEST(PairClassifier, RefusesWhatItCannotRead) {
  const auto starts = [](const std::string& text, const std::string& start) {
    return text.find(start) != std::string::npos;
  };
  EXPECT_TRUE(starts(error_of([] { PairClassifier(small({}), 5, 3, 1); }),
                     "pair: the head has no features"));
  auto unpooled = small({Feature::concat});
  unpooled.pooling = Pooling::none;
  EXPECT_TRUE(starts(error_of([&] { PairClassifier(unpooled, 5, 3, 1); }),
                     "pair: the sequences are not pooled"));
  PairClassifier model(small({Feature::concat}), 5, 3, 1);
  Context context;
  const PaddedTokens narrow = {at::ones({2, 3}, at::kLong), at::tensor({3, 3}, at::kLong)};
  EXPECT_TRUE(starts(error_of([&] { model(first(), narrow, context); }),
                     "pair: the first sequences are [2, 4] but the second ones [2, 3]"));
}

}  // namespace
}  // namespace longbow
