#include "longbow/models/heads/classifier.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

ClassifierConfig small(Pooling pooling, int64_t head = 0) {
  ClassifierConfig config;
  config.encoder.width = 8;
  config.encoder.layers = 1;
  config.encoder.max_length = 6;
  config.encoder.init = Init::xavier;
  config.pooling = pooling;
  config.head = head;
  return config;
}

TEST(Classifier, GivesOneRowOfClassesOrOneForEveryToken) {
  Context context;
  const auto tokens = at::ones({2, 6}, at::kLong);
  EXPECT_EQ(Classifier(small(Pooling::mean), 5, 3, 1)(tokens, context).sizes(),
            (at::IntArrayRef{2, 3}));
  EXPECT_EQ(Classifier(small(Pooling::none), 5, 3, 1)(tokens, context).sizes(),
            (at::IntArrayRef{2, 6, 3}));
}

TEST(Classifier, EachHiddenLayerIsHalfAsWideAsTheOneBefore) {
  auto config = small(Pooling::mean, 6);
  config.head_layers = 2;
  Classifier model(config, 5, 3, 1);
  const auto weights = model.named_parameters();
  EXPECT_EQ(weights["hidden.weight"].sizes(), (at::IntArrayRef{6, 8}));
  EXPECT_EQ(weights["hidden_1.weight"].sizes(), (at::IntArrayRef{3, 6}));
  EXPECT_EQ(weights["output.weight"].sizes(), (at::IntArrayRef{3, 3}));
  const auto tokens = at::tensor({1, 2, 3}, at::kLong).unsqueeze(0);
  Context context, again;
  const auto layer = [&](const Tensor& x, const std::string& name) {
    return at::linear(x, weights[name + ".weight"], weights[name + ".bias"]);
  };
  auto bare = small(Pooling::mean);
  Classifier reads(bare, 5, 8, 1);  // the pooled row itself
  const at::NoGradGuard no_grad;
  reads.named_parameters()["output.weight"].copy_(at::eye(8));
  const auto pooled = reads(tokens, again);
  EXPECT_NEAR_TENSOR(model(tokens, context),
                     layer(layer(layer(pooled, "hidden").relu(), "hidden_1").relu(), "output"),
                     (Tolerance{1e-6, 1e-5}));
}

TEST(Classifier, LogitsOfAPaddedBatchAreThoseOfEachSequenceAlone) {
  for (const auto pooling :
       {Pooling::mean, Pooling::first, Pooling::max, Pooling::attention, Pooling::pma}) {
    Classifier model(small(pooling, 7), 5, 3, 1);
    const auto tokens = at::tensor({1, 2, 3, 4, 1, 2, 4, 3, 0, 0, 0, 0}, at::kLong).view({2, 6});
    Context both = {.mask = Mask::from_lengths(at::tensor({6, 2}, at::kLong), 6)}, one;
    const auto logits = model(tokens, both);
    EXPECT_NEAR_TENSOR(logits.narrow(0, 1, 1), model(tokens.narrow(0, 1, 1).narrow(1, 0, 2), one),
                       (Tolerance{1e-6, 1e-5}));
  }
}

TEST(Classifier, AClassTokenReadsTheOthersFromTheFront) {
  auto config = small(Pooling::class_token);
  config.encoder.attention = parse_yaml("{name: linformer, rank: 4}", "attention");
  Classifier model(config, 5, 3, 1);
  model.to(at::kDouble);
  const auto tokens = at::tensor({1, 2, 3, 4, 1, 2}, at::kLong).unsqueeze(0);  // as many as fit
  Context all, other, padded = {.mask = Mask::from_lengths(at::tensor({4}), 6)}, cut;
  const auto y = model(tokens, all);
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{1, 3}));
  EXPECT_FALSE(at::equal(model(tokens.flip(1), other), y));
  EXPECT_NEAR_TENSOR(model(tokens, padded), model(tokens.narrow(1, 0, 4), cut),
                     tolerance(at::kDouble));
  y.sum().backward();
  EXPECT_GT(model.named_parameters()["class_token"].grad().abs().sum().item<double>(), 0);
  config.encoder.causal = true;
  EXPECT_EQ(
      error_of([&] { check_classifier(config, parse_yaml("{pooling: class_token}", "model")); }),
      "model:1: model.pooling class_token reads nothing of a causal model; its token comes "
      "first; write mean, max, attention or pma");
}

TEST(Classifier, AConvolutionOverAnImageNeedsItsPixelsInTheirPlaces) {
  const auto tree = parse_yaml("{pooling: class_token, block: {}}", "model");
  auto config = small(Pooling::class_token);
  config.encoder.attention = parse_yaml("linear", "attention");
  config.encoder.block.convolution = {.width = 3, .columns = 2};
  EXPECT_EQ(error_of([&] { check_classifier(config, tree); }),
            "model:1: model.pooling class_token moves the pixels of the image by one; write mean, "
            "max, attention or pma, or leave out block.convolution.columns");
  config.pooling = Pooling::mean;
  EXPECT_NO_THROW(check_classifier(config, tree));
  config.encoder.causal = true;
  EXPECT_EQ(error_of([&] { check_classifier(config, tree); }),
            "model:1: model.block.convolution over an image is around a pixel, but the model is "
            "causal; leave out convolution.columns");
}

TEST(Classifier, ThePoolersWeightsAreThereWhenTheyAreAskedFor) {
  auto config = small(Pooling::attention);
  EXPECT_FALSE(Classifier(config, 5, 3, 1).named_parameters().contains("pooler.dense.weight"));
  config.pooler = true;
  const auto parameters = Classifier(config, 5, 3, 1).named_parameters();
  EXPECT_EQ(parameters["pooler.query"].sizes(), (at::IntArrayRef{8}));
  EXPECT_EQ(parameters["pooler.dense.weight"].sizes(), (at::IntArrayRef{8, 8}));
}

TEST(Classifier, AHiddenLayerIsThereWhenItIsAskedFor) {
  const auto parameters = Classifier(small(Pooling::mean, 7), 5, 3, 1).named_parameters();
  EXPECT_EQ(parameters["hidden.weight"].sizes(), (at::IntArrayRef{7, 8}));
  EXPECT_EQ(parameters["output.weight"].sizes(), (at::IntArrayRef{3, 7}));
  EXPECT_FALSE(
      Classifier(small(Pooling::mean), 5, 3, 1).named_parameters().contains("hidden.weight"));
}

}  // namespace
}  // namespace longbow
