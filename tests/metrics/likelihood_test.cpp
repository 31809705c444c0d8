#include "longbow/metrics/likelihood.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longbow::metrics {
namespace {

// Every token has probability 1/4: four choices a token, two bits.
const LikelihoodSums kSums = {.negative_log_likelihood = 12 * std::log(4.0),
                              .tokens = 12,
                              .words = 4,
                              .bytes = 48,
                              .characters = 24};

TEST(Likelihood, CountsTheSameBitsPerTokenWordByteAndCharacter) {
  EXPECT_NEAR(perplexity_per_token(kSums), 4, 1e-12);
  EXPECT_NEAR(perplexity_per_word(kSums), 64, 1e-12);  // three tokens a word
  EXPECT_NEAR(bits_per_byte(kSums), 0.5, 1e-15);
  EXPECT_NEAR(bits_per_character(kSums), 1, 1e-15);
}

TEST(Likelihood, AddsUpOverBatches) {
  LikelihoodSums twice = kSums;
  twice += kSums;
  EXPECT_EQ(twice.tokens, 24);
  EXPECT_EQ(twice.words, 8);
  EXPECT_EQ(twice.bytes, 96);
  EXPECT_EQ(twice.characters, 48);
  EXPECT_DOUBLE_EQ(perplexity_per_token(twice), perplexity_per_token(kSums));
}

TEST(Likelihood, OfNothingIsNotANumber) {
  EXPECT_TRUE(std::isnan(perplexity_per_token({})));
  EXPECT_TRUE(std::isnan(perplexity_per_word({.negative_log_likelihood = 1, .tokens = 1})));
  EXPECT_TRUE(std::isnan(bits_per_byte({})));
}

}  // namespace
}  // namespace longbow::metrics
