#include "longbow/text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "longbow/core/error.h"
#include "longbow/text/formats/tokenizer_json.h"

namespace longbow {
namespace {

using Ids = std::vector<int32_t>;

// Words a, b, c and unknown ones, split at white space, in lower case.
Tokenizer words(const std::string& added,
                const std::string& normalizer = R"({"type":"Lowercase"})") {
  return parse_tokenizer_json(
      R"({"added_tokens":[)" + added + R"(],"normalizer":)" + normalizer +
          R"(,"pre_tokenizer":{"type":"WhitespaceSplit"},"model":{"type":"WordLevel",)"
          R"("vocab":{"[UNK]":0,"a":1,"b":2,"c":3},"unk_token":"[UNK]"}})",
      "t.json");
}

std::string token(const std::string& content, const std::string& flags = "") {
  return R"({"id":9,"content":")" + content + "\"" + flags + "}";
}

}  // namespace

TEST(Tokenizer, AddedTokensAreFoundFirst) {
  const auto tokenizer = words(token("[X]", R"(,"normalized":false)"));
  EXPECT_EQ(tokenizer.encode("a[X]B[x]").ids, (Ids{1, 9, 0}));
  EXPECT_EQ(tokenizer.encode("[X][X]").ids, (Ids{9, 9}));
}

TEST(Tokenizer, NormalizedTokensAreFoundInTheNormalizedText) {
  EXPECT_EQ(words(token("[X]", R"(,"normalized":true)")).encode("a [x] b").ids, (Ids{1, 9, 2}));
}

TEST(Tokenizer, TheLongestOfTheLeftmostWins) {
  const auto tokenizer =
      words(token("xy") + R"(,{"id":10,"content":"xyz"},{"id":11,"content":"yzw"})");
  EXPECT_EQ(tokenizer.encode("xyzw").ids, (Ids{10, 0}));
}

TEST(Tokenizer, SingleWordsStandAlone) {
  const auto tokenizer = words(token("x", R"(,"single_word":true,"normalized":false)"));
  EXPECT_EQ(tokenizer.encode("x a").ids, (Ids{9, 1}));
  EXPECT_EQ(tokenizer.encode("xa x, ax").ids, (Ids{0, 9, 0, 0}));
}

TEST(Tokenizer, TokensMayTakeTheSpaceAround) {
  const auto left = words(token("[X]", R"(,"lstrip":true,"normalized":false)"));
  const auto got = left.encode("a  [X] b");
  EXPECT_EQ(got.offsets[1], (TokenOffsets{1, 6}));
  EXPECT_EQ(got.tokens[1], "  [X]");
  const auto right = words(token("[X]", R"(,"rstrip":true,"normalized":false)"));
  EXPECT_EQ(right.encode("a [X]  b").offsets[1], (TokenOffsets{2, 7}));
}

TEST(Tokenizer, SpecialTokensMayBePlainText) {
  const auto tokenizer =
      words(token("a", R"(,"special":true,"normalized":false)").replace(6, 1, "1"));
  EncodeOptions plain;
  plain.special_text = EncodeOptions::SpecialText::plain;
  EXPECT_EQ(tokenizer.encode("xa").ids, (Ids{0, 1}));
  EXPECT_EQ(tokenizer.encode("xa", plain).ids, (Ids{0}));
}

TEST(Tokenizer, BrokenUtf8CountsAsOneCharacterAByte) {
  const auto tokenizer = words("", "null");
  const std::string text = "\xff\xe3\x81 \xc3\xa9 a";
  const auto got = tokenizer.encode(text);
  EXPECT_EQ(got.ids, (Ids{0, 0, 1}));
  EXPECT_EQ(got.offsets[2], (TokenOffsets{6, 7}));
  EncodeOptions bytes;
  bytes.offsets = EncodeOptions::OffsetUnit::bytes;
  EXPECT_EQ(tokenizer.encode(text, bytes).offsets[0], (TokenOffsets{0, 3}));
  EXPECT_EQ(tokenizer.encode(text, bytes).offsets[2], (TokenOffsets{7, 8}));
}

TEST(Tokenizer, OffsetsAreCodePointsOrBytes) {
  const auto tokenizer = words("");
  EXPECT_EQ(tokenizer.encode("\uac00 a").offsets[1], (TokenOffsets{2, 3}));
  EncodeOptions bytes;
  bytes.offsets = EncodeOptions::OffsetUnit::bytes;
  EXPECT_EQ(tokenizer.encode("\uac00 a", bytes).offsets[1], (TokenOffsets{4, 5}));
}

TEST(Tokenizer, ABatchKeepsItsOrderAndIsPaddedToTheLongest) {
  const auto tokenizer = words("");
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) texts.push_back(i % 2 ? "a b c" : "b");
  EncodeOptions options;
  options.padding = TokenPadding();
  options.padding->multiple_of = 2;
  const auto got = tokenizer.encode_batch(texts, options);
  ASSERT_EQ(got.size(), texts.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i].ids, i % 2 ? (Ids{1, 2, 3, 0}) : (Ids{2, 0, 0, 0})) << i;
  options.truncation = Truncation();
  options.truncation->max_length = 2;
  options.truncation->stride = 2;
  EXPECT_THROW(tokenizer.encode_batch(texts, options), UserError);
}

// The text that fails first is in the first share of the texts, and one of the last takes so long
// to fail that another thread is still at it.
TEST(Tokenizer, AFailingBatchNamesTheFirstMistake) {
  const auto tokenizer = parse_tokenizer_json(
      R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a+)+$"},"behavior":"Isolated",)"
      R"("invert":false},"model":{"type":"WordLevel","vocab":{"b":0},"unk_token":"?"}})",
      "t.json");
  std::vector<std::string> texts(64, "b");
  texts[15] = "c";
  for (size_t i = 16; i < texts.size(); ++i) texts[i] = std::string(60, 'a') + "b";
  try {
    tokenizer.encode_batch(texts);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "WordLevel: the unknown token '?' is not in the vocabulary");
  }
}

TEST(Tokenizer, ThreadsShareOne) {
  const auto tokenizer = words("");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) wrong[t] += tokenizer.encode("a b x").ids != Ids{1, 2, 0};
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Tokenizer, TokensAndIdsGoBothWays) {
  const auto tokenizer = words(token("<s>", R"(,"special":true)"));
  EXPECT_EQ(tokenizer.id_of("b"), 2);
  EXPECT_EQ(tokenizer.id_of("<s>"), 9);
  EXPECT_EQ(tokenizer.id_of("zzz"), -1);
  EXPECT_EQ(tokenizer.token_of(9), "<s>");
  EXPECT_EQ(tokenizer.token_of(7), "");
  EXPECT_EQ(tokenizer.size(), 10u);
  EXPECT_EQ(tokenizer.decode(Ids{9, 1, 7, 2}), "a b");
  EXPECT_EQ(tokenizer.decode(Ids{9, 1}, Tokenizer::SpecialTokens::kept), "<s> a");
}

TEST(Tokenizer, TruncationThatCannotBeIsRefused) {
  const auto tokenizer = words("");
  EncodeOptions options;
  options.truncation = Truncation();
  options.truncation->max_length = 1;
  options.truncation->strategy = Truncation::Strategy::only_second;
  EXPECT_THROW(tokenizer.encode("a b", options), UserError);
  EXPECT_THROW(tokenizer.encode("a b", "c", options), UserError);
  options.truncation->max_length = 0;
  EXPECT_EQ(tokenizer.encode("a b", options).ids, Ids{});
  EXPECT_EQ(tokenizer.encode("a b", options).overflowing.size(), 1u);
}

}  // namespace longbow
