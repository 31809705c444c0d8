#include "longbow/models/classifier.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor rows(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble).view({-1, 1, 2});  // [tokens, 1, 2]
}

TEST(Pooling, IsOverRealTokensOnly) {
  const auto x = rows({1, -2, 3, -4, 50, 60}).transpose(0, 1);  // [1, 3, 2]
  const auto keep = at::tensor({1, 1, 0}, at::kLong).to(at::kBool).unsqueeze(0);
  const auto want = [](double a, double b) { return at::tensor({a, b}, at::kDouble).unsqueeze(0); };
  EXPECT_NEAR_TENSOR(pooled(x, keep, Pooling::mean), want(2, -3), kExact);
  EXPECT_NEAR_TENSOR(pooled(x, keep, Pooling::max), want(3, -2), kExact);
  EXPECT_NEAR_TENSOR(pooled(x, keep, Pooling::first), want(1, -2), kExact);
  EXPECT_NEAR_TENSOR(pooled(x, keep, Pooling::none), x, kExact);
  EXPECT_NEAR_TENSOR(pooled(x, {}, Pooling::mean), want(18, 18), kExact);
  EXPECT_NEAR_TENSOR(pooled(x, {}, Pooling::max), want(50, 60), kExact);
}

TEST(Pooling, ARowWithoutTokensGivesZerosAndFiniteGradients) {
  for (const auto pooling : {Pooling::mean, Pooling::max}) {
    auto x = random_normal({2, 3, 2}, 1).requires_grad_();
    const auto keep = at::tensor({0, 0, 0, 1, 1, 0}, at::kLong).to(at::kBool).view({2, 3});
    const auto y = pooled(x, keep, pooling);
    EXPECT_NEAR_TENSOR(y[0], at::zeros({2}, at::kDouble), kExact);
    y.sum().backward();
    EXPECT_NEAR_TENSOR(x.grad()[0], at::zeros({3, 2}, at::kDouble), kExact);
    EXPECT_GT(x.grad()[1].abs().sum().item<double>(), 0);
  }
}

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

TEST(Classifier, LogitsOfAPaddedBatchAreThoseOfEachSequenceAlone) {
  for (const auto pooling : {Pooling::mean, Pooling::first, Pooling::max}) {
    Classifier model(small(pooling, 7), 5, 3, 1);
    const auto tokens = at::tensor({1, 2, 3, 4, 1, 2, 4, 3, 0, 0, 0, 0}, at::kLong).view({2, 6});
    Context both = {.mask = Mask::from_lengths(at::tensor({6, 2}, at::kLong), 6)}, one;
    const auto logits = model(tokens, both);
    EXPECT_NEAR_TENSOR(logits.narrow(0, 1, 1), model(tokens.narrow(0, 1, 1).narrow(1, 0, 2), one),
                       (Tolerance{1e-6, 1e-5}));
  }
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
