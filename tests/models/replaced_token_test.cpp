#include "longbow/models/heads/replaced_token.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

ReplacedTokenConfig small(bool shared = true) {
  ReplacedTokenConfig config;
  config.encoder.width = 16;
  config.encoder.heads = 4;
  config.encoder.layers = 2;
  config.encoder.max_length = 6;
  config.encoder.init = Init::xavier;
  config.generator.shared = shared;
  return config;
}

TEST(ReplacedToken, TheGeneratorIsAQuarterUnlessSaidOtherwise) {
  auto config = small();
  auto generator = generator_of(config).encoder;
  EXPECT_EQ(generator.width, 4);
  EXPECT_EQ(generator.heads, 1);
  EXPECT_EQ(generator.layers, 2);
  config.generator = {.width = 6, .heads = 3, .layers = 1, .attention = Node::string("linear")};
  generator = generator_of(config).encoder;
  EXPECT_EQ(generator.width, 6);
  EXPECT_EQ(generator.heads, 3);
  EXPECT_EQ(generator.layers, 1);
  EXPECT_EQ(generator.attention.text, "linear");
}

TEST(ReplacedToken, SharedWordsAreRegisteredOnceAndLearnFromTheGenerator) {
  for (const bool shared : {true, false}) {
    ReplacedTokenModel model(small(shared), {.inputs = 6, .outputs = 5}, 1);
    const auto weights = model.named_parameters();
    EXPECT_EQ(weights.contains("generator.encoder.embedding.words"), !shared);
    EXPECT_EQ(weights.contains("generator.encoder.embedding.projection.weight"), shared);
    Context context;
    model.generated(at::full({1, 6}, 5, at::kLong), context).sum().backward();
    EXPECT_EQ(weights["encoder.embedding.words"].grad().defined(), shared);
  }
}

TEST(ReplacedToken, GivesALogitForEveryWordAndOneForEveryToken) {
  ReplacedTokenModel model(small(), {.inputs = 6, .outputs = 5}, 1);
  Context context;
  const auto tokens = at::ones({2, 6}, at::kLong);
  EXPECT_EQ(model.generated(tokens, context).sizes(), (at::IntArrayRef{2, 6, 5}));
  EXPECT_EQ(model(tokens, context).sizes(), (at::IntArrayRef{2, 6}));
}

TEST(ReplacedToken, TheNetworksDropDifferentUnits) {
  auto config = small(false);
  config.generator = {.width = 16, .heads = 4, .layers = 2, .shared = false};
  config.encoder.embedding_dropout = 0.5;
  ReplacedTokenModel model(config, {.inputs = 6, .outputs = 5}, 1);
  Context context = {.random = Random::from_seed(1)}, same = context;
  const auto tokens = at::ones({2, 6}, at::kLong);
  const auto generator =
      std::dynamic_pointer_cast<LanguageModel>(model.named_children()["generator"]);
  // With the key of the encoder the generator would drop what the encoder drops.
  EXPECT_FALSE(at::equal(model.generated(tokens, context), (*generator)(tokens, same)));
  EXPECT_NEAR_TENSOR(context.random.key, Random::from_seed(1).key, kExact);
  model.eval();
  EXPECT_NEAR_TENSOR(model.generated(tokens, context), (*generator)(tokens, same), kExact);
}

TEST(ReplacedToken, WordsAreDrawnAsOftenAsTheirProbability) {
  constexpr int64_t kDraws = 40000;
  const auto shares = at::tensor({0.4, 0.3, 0.15, 0.1, 0.05}, at::kDouble);
  const auto logits = shares.log().expand({kDraws, 5});
  const auto count = [&](int64_t first) {
    const auto words = drawn(logits, first, Random::from_seed(1), "test");
    return at::bincount(words, {}, 5).to(at::kDouble) / static_cast<double>(kDraws);
  };
  // Four standard deviations of a share of 0.5.
  EXPECT_NEAR_TENSOR(count(0), shares, (Tolerance{4 * 0.5 / std::sqrt(kDraws), 0}));
  const auto rest = at::tensor({0.0, 0.0, 0.5, 1.0 / 3, 1.0 / 6}, at::kDouble);
  EXPECT_NEAR_TENSOR(count(2), rest, (Tolerance{4 * 0.5 / std::sqrt(kDraws), 0}));
}

TEST(ReplacedToken, DrawsAreAFunctionOfTheKey) {
  const auto logits = random_normal({50, 7}, 1);
  const auto draw = [&](uint64_t seed) { return drawn(logits, 1, Random::from_seed(seed), "x"); };
  EXPECT_TRUE(at::equal(draw(1), draw(1)));
  EXPECT_FALSE(at::equal(draw(1), draw(2)));
}

}  // namespace
}  // namespace longbow
