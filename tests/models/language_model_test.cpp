#include "longbow/models/language_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

LanguageModelConfig small() {
  LanguageModelConfig config;
  config.encoder.width = 8;
  config.encoder.layers = 1;
  config.encoder.max_length = 6;
  config.encoder.init = Init::xavier;
  return config;
}

Tensor tokens() {
  return at::tensor({1, 2, 3, 4, 1, 2, 4, 3, 0, 0, 0, 0}, at::kLong).view({2, 6});
}

TEST(LanguageModel, TheHeadIsLayerActivationNormAndTheWordsThemselves) {
  LanguageModel model(small(), {.inputs = 6, .outputs = 5}, 1);
  auto weights = model.named_parameters();
  const at::NoGradGuard no_grad;
  weights["head.bias"].copy_(at::arange(5));
  Context context, same;
  auto encoder = std::dynamic_pointer_cast<Encoder>(model.named_children()["encoder"]);
  const auto x = (*encoder)(tokens(), context);
  auto y =
      at::gelu(x.matmul(weights["head.transform.weight"].t()) + weights["head.transform.bias"]);
  y = (y - y.mean(-1, true)) / (y.var(-1, false, true) + 1e-5).sqrt();
  const auto want =
      y.matmul(weights["encoder.embedding.words"].narrow(0, 0, 5).t()) + at::arange(5);
  const auto got = model(tokens(), same);
  EXPECT_EQ(got.sizes(), (at::IntArrayRef{2, 6, 5}));
  EXPECT_NEAR_TENSOR(got, want, tolerance(at::kFloat));
  EXPECT_FALSE(weights.contains("head.words"));
}

TEST(LanguageModel, APlainHeadWithAMatrixOfItsOwn) {
  auto config = small();
  config.head = {.tied = false, .transform = false};
  LanguageModel model(config, {.inputs = 5, .outputs = 5}, 1);
  auto weights = model.named_parameters();
  Context context, same;
  auto encoder = std::dynamic_pointer_cast<Encoder>(model.named_children()["encoder"]);
  const auto want = (*encoder)(tokens(), context).matmul(weights["head.words"].t());
  EXPECT_NEAR_TENSOR(model(tokens(), same), want, tolerance(at::kFloat));
  EXPECT_FALSE(weights.contains("head.transform.weight"));
}

TEST(LanguageModel, TiedWordsLearnFromBothEnds) {
  for (const bool tied : {true, false}) {
    auto config = small();
    config.head.tied = tied;
    LanguageModel model(config, {.inputs = 6, .outputs = 5}, 1);
    Context context;
    model(tokens(), context).select(-1, 3).sum().backward();
    const auto gradient = model.named_parameters()["encoder.embedding.words"].grad();
    // Word 5 is neither read nor an answer; with words 1-4 both are possible.
    EXPECT_EQ(gradient[5].abs().sum().item<double>(), 0);
    EXPECT_GT(gradient[3].abs().sum().item<double>(), 0);
    const auto other =
        model.named_parameters()[tied ? "encoder.embedding.words" : "head.words"].grad()[3];
    EXPECT_GT(other.abs().sum().item<double>(), 0);
  }
}

TEST(LanguageModel, ACausalOneDoesNotSeeTheFuture) {
  auto config = small();
  config.encoder.causal = true;
  LanguageModel model(config, {.inputs = 5, .outputs = 5}, 1);
  Context before, after;
  auto changed = tokens().clone();
  const auto first = model(changed, before).narrow(1, 0, 3);
  changed.narrow(1, 3, 3).fill_(2);
  EXPECT_NEAR_TENSOR(model(changed, after).narrow(1, 0, 3), first, kExact);
}

TEST(LanguageModel, ReadsTheWordsOfAnotherThroughAProjection) {
  const auto words = random_normal({6, 12}, 3).to(at::kFloat);
  LanguageModel model(small(), {.inputs = 6, .outputs = 5}, 1, words);
  const auto weights = model.named_parameters();
  EXPECT_FALSE(weights.contains("encoder.embedding.words"));
  EXPECT_EQ(weights["encoder.embedding.projection.weight"].sizes(), (at::IntArrayRef{8, 12}));
  EXPECT_EQ(weights["head.transform.weight"].sizes(), (at::IntArrayRef{12, 8}));
  Context context;
  EXPECT_EQ(model(tokens(), context).sizes(), (at::IntArrayRef{2, 6, 5}));
  auto plain = small();
  plain.head.transform = false;
  EXPECT_NE(error_of([&] {
              LanguageModel(plain, {.inputs = 6, .outputs = 5}, 1, words);
            }).find("words of width 12 are tied to a model of width 8; set transform: true"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
