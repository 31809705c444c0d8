#include "longbow/train/run/unknown_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "longbow/core/console.h"
#include "longbow/data/samples/text_codec.h"
#include "longbow/text/tokenizer/plain_tokenizers.h"

namespace longbow {
namespace {

// Samples of four tokens each, of which so many are the token 1.
Splits splits_with(int64_t samples, int64_t unknown) {
  std::vector<Sample> all;
  for (int64_t i = 0; i < samples; ++i) {
    std::vector<int32_t> tokens(4, 7);
    std::fill_n(tokens.begin(), unknown, 1);
    all.push_back({.tokens = tokens, .targets = {0}});
  }
  Splits splits = {.vocabulary = 8, .classes = 1, .unknown = 1};
  splits.train = std::make_shared<SampleList>(all, false);
  return splits;
}

std::string warning_of(const Splits& splits) {
  std::string written;
  set_console({.write = [&](const std::string& text) { written += text; }});
  warn_of_unknown_tokens(splits);
  set_console({});
  return written;
}

TEST(UnknownTokens, AreCountedInTheTrainingSplit) {
  EXPECT_EQ(unknown_share(splits_with(3, 1)), 0.25);
  EXPECT_EQ(unknown_share(splits_with(20000, 3)), 0.75) << "of samples spread over it";
  auto none = splits_with(3, 4);
  none.unknown = 0;
  EXPECT_EQ(unknown_share(none), 0);
}

TEST(UnknownTokens, OfTextsAreThoseOfTheTokenizer) {
  const auto codec =
      std::make_shared<TextCodec>(character_tokenizer("abc", {"[PAD]", "[UNK]"}, "[UNK]"));
  Sample sample = {.targets = {0}};
  codec->encode("axyz", sample.tokens);
  ASSERT_EQ(sample.tokens.size(), 4u);
  Splits splits = {.vocabulary = codec->vocabulary(), .classes = 1, .codec = codec};
  splits.train = std::make_shared<SampleList>(std::vector{sample}, false);
  EXPECT_EQ(unknown_share(splits), 0.75);
}

TEST(UnknownTokens, AreNamedWhereTheyAreMoreThanHalf) {
  EXPECT_EQ(warning_of(splits_with(5, 2)), "");
  EXPECT_EQ(warning_of(splits_with(5, 3)),
            "warning: 75 % of the tokens of the training split are unknown tokens; the tokenizer "
            "may be one of another language, or may not lowercase as it did when it was trained\n");
}

}  // namespace
}  // namespace longbow
