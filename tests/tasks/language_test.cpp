#include "longbow/tasks/language.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/data/samples/text_codec.h"
#include "longbow/text/tokenizer/plain_tokenizers.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// Three words with probabilities 1/2, 1/4, 1/4 at every token.
Tensor logits(int64_t rows, int64_t length) {
  return at::tensor({0.5, 0.25, 0.25}, at::kDouble).log().expand({rows, length, 3});
}
Tensor targets(const std::vector<int64_t>& values, int64_t rows) {
  return at::tensor(values, at::kLong).view({rows, -1});
}

double sum(const Outcome& outcome, const std::string& name) {
  return outcome.sums.at(name).item<double>();
}

TEST(Language, CountsNatsWordsAndHits) {
  const auto got = language_loss(logits(2, 3), targets({0, 1, kIgnore, 2, 0, 0}, 2), 2, {}, false);
  const double want = 3 * std::log(2) + 2 * std::log(4);
  EXPECT_NEAR(got.loss.item<double>(), want, 1e-12);
  EXPECT_NEAR(sum(got, "nats"), want, 1e-12);
  EXPECT_EQ(sum(got, "count"), 5);
  EXPECT_EQ(sum(got, "correct"), 3);
}

TEST(Language, PerplexityOverUnevenBatchesWeighsTokens) {
  const auto one = language_loss(logits(1, 1), targets({0}, 1), 1, {}, false);
  const auto three = language_loss(logits(1, 3), targets({1, 2, 1}, 1), 1, {}, false);
  Tensors sums;
  for (const auto& [name, value] : one.sums) sums[name] = value + three.sums.at(name);
  const auto metrics = word_metrics(sums);
  // 2 · 4 · 4 · 4 over four tokens: neither the mean of 2 and 4 nor that of their logarithms.
  ASSERT_EQ(metrics[0].name, "perplexity");
  EXPECT_NEAR(metrics[0].value, std::pow(128, 0.25), 1e-12);
  EXPECT_FALSE(metrics[0].larger_is_better);
  EXPECT_NEAR(metrics[1].value, std::log(128) / 4, 1e-12);
  EXPECT_EQ(metrics[2].name, "bits_per_token");
  EXPECT_NEAR(metrics[2].value, 7.0 / 4, 1e-12);
  EXPECT_NEAR(metrics[3].value, 1.0 / 4, 1e-12);
}

TEST(Language, PerplexityKnowsNeitherSmoothingNorSampleWeights) {
  const TaskOptions options = {.normalise = Normalise::samples, .label_smoothing = 0.3};
  const auto got =
      language_loss(logits(2, 3), targets({0, kIgnore, kIgnore, 1, 2, 1}, 2), 2, options, true);
  EXPECT_NEAR(word_metrics(got.sums)[0].value, std::pow(128, 0.25), 1e-12);
  EXPECT_EQ(sum(got, "weight"), 2);
  EXPECT_GT(std::abs(sum(got, "loss") - sum(got, "nats")), 0.1);
}

TEST(Language, ScoresOfTextsDoNotDependOnTheTokenizer) {
  // Bytes, moved up by one for padding; 257 is the end of a line.
  const auto codec = std::make_shared<TextCodec>(byte_tokenizer({"</s>"}));
  const TextLengths lengths({.vocabulary = codec->vocabulary(), .codec = codec}, at::kCPU);
  std::vector<int32_t> ids;
  codec->encode("to be", ids);
  std::vector<int64_t> row(ids.begin(), ids.end());
  row.insert(row.end(), {257, kIgnore, kIgnore});
  Tensors sums = {{"nats", at::scalar_tensor(12 * std::log(2.0), at::kDouble)},
                  {"loss", at::scalar_tensor(1.0)},
                  {"weight", at::scalar_tensor(1.0)},
                  {"correct", at::scalar_tensor(0.0)},
                  {"count", at::scalar_tensor(6.0)}};
  EXPECT_EQ(word_metrics(sums).size(), 4u) << "in training";
  lengths.count(targets(row, 1), sums);
  EXPECT_EQ(sums.at("words").item<double>(), 2) << "the word behind the blank, and the end";
  EXPECT_EQ(sums.at("bytes").item<double>(), 5);
  const auto metrics = word_metrics(sums);
  ASSERT_EQ(metrics.size(), 6u);
  EXPECT_EQ(metrics[4].name, "word_perplexity");
  EXPECT_NEAR(metrics[4].value, 64, 1e-9) << "12 bits over 2 words";
  EXPECT_EQ(metrics[5].name, "bits_per_byte");
  EXPECT_NEAR(metrics[5].value, 12.0 / 5, 1e-12);
  EXPECT_FALSE(metrics[5].larger_is_better);

  Tensors none = sums;
  none.erase("words");
  none.erase("bytes");
  TextLengths({.vocabulary = 9}, at::kCPU).count(targets(row, 1), none);
  EXPECT_EQ(word_metrics(none).size(), 4u) << "no text";
}

TEST(Language, ATextHasAsManyBytesAsItsTokensSpell) {
  const auto codec = std::make_shared<TextCodec>(byte_tokenizer({}));
  const TextLengths lengths({.vocabulary = codec->vocabulary(), .codec = codec}, at::kCPU);
  for (const std::string text : {"to be", "gr\u00fc\u00dfe", "\uac00\ub098 \ub2e4"}) {
    std::vector<int32_t> ids;
    codec->encode(text, ids);
    ASSERT_EQ(ids.size(), text.size()) << "a token is a byte";
    Tensors sums;
    lengths.count(targets(std::vector<int64_t>(ids.begin(), ids.end()), 1), sums);
    EXPECT_EQ(sums.at("bytes").item<double>(), static_cast<double>(text.size())) << text;
  }
}

}  // namespace
}  // namespace longbow
