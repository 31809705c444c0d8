#include "longbow/text/components/pre_tokenizers.h"

#include <gtest/gtest.h>

namespace longbow {
namespace {

struct Split {
  std::vector<std::string> pieces;
  std::vector<ByteSpan> origins;
};

Split split(const std::string& json, std::string_view text) {
  TextPieces pieces;
  pieces.text.assign(text, 0, AlignedText::Alignment::kept);
  pieces.list = {{0, static_cast<uint32_t>(text.size()), -1}};
  read_pre_tokenizer(parse_json(json, "t.json"))->split(pieces);
  Split out;
  for (const auto& piece : pieces.list) {
    out.pieces.emplace_back(pieces.view(piece));
    out.origins.push_back(pieces.text.origin(piece.begin, piece.end));
  }
  return out;
}

using Pieces = std::vector<std::string>;

std::string byte_level(bool add_prefix_space, bool use_regex) {
  const auto word = [](bool value) { return std::string(value ? "true" : "false"); };
  return R"({"type":"ByteLevel","add_prefix_space":)" + word(add_prefix_space) +
         R"(,"trim_offsets":true,"use_regex":)" + word(use_regex) + "}";
}

}  // namespace

TEST(TextPreTokenizer, BertSplitsAtSpacesAndPunctuation) {
  const auto got = split(R"({"type":"BertPreTokenizer"})", "Hi, there!! \uac00");
  EXPECT_EQ(got.pieces, (Pieces{"Hi", ",", "there", "!", "!", "\uac00"}));
  EXPECT_EQ(got.origins.back(), (ByteSpan{12, 15}));
}

TEST(TextPreTokenizer, WhitespaceKeepsWordsAndRunsOfOthers) {
  EXPECT_EQ(split(R"({"type":"Whitespace"})", "a_b 1?! c").pieces, (Pieces{"a_b", "1", "?!", "c"}));
  EXPECT_EQ(split(R"({"type":"WhitespaceSplit"})", " a? b ").pieces, (Pieces{"a?", "b"}));
}

TEST(TextPreTokenizer, ByteLevelSplitsAsGpt2) {
  EXPECT_EQ(split(byte_level(false, true), "I'll  go's 12a\n\nb ").pieces,
            (Pieces{"I", "'ll", "\u0120", "\u0120go", "'s", "\u012012", "a", "\u010a", "\u010a",
                    "b", "\u0120"}));
  const auto got = split(byte_level(true, true), "\u00e9 x");
  EXPECT_EQ(got.pieces, (Pieces{"\u0120\u00c3\u00a9", "\u0120x"}));
  EXPECT_EQ(got.origins[0], (ByteSpan{0, 2}));
  EXPECT_EQ(split(byte_level(true, false), "a b").pieces, (Pieces{"\u0120"
                                                                  "a\u0120"
                                                                  "b"}));
  EXPECT_EQ(split(byte_level(true, true), "").pieces, Pieces{});
}

TEST(TextPreTokenizer, MetaspaceMarksWords) {
  const auto metaspace = [](const std::string& scheme, const std::string& is_split) {
    return R"({"type":"Metaspace","replacement":"_","prepend_scheme":")" + scheme +
           R"(","split":)" + is_split + "}";
  };
  const auto got = split(metaspace("always", "true"), "a  b");
  EXPECT_EQ(got.pieces, (Pieces{"_a", "_", "_b"}));
  EXPECT_EQ(got.origins[0], (ByteSpan{0, 1}));
  EXPECT_EQ(got.origins[2], (ByteSpan{2, 4}));
  EXPECT_EQ(split(metaspace("never", "true"), "a b").pieces, (Pieces{"a", "_b"}));
  EXPECT_EQ(split(metaspace("always", "false"), "a b").pieces, (Pieces{"_a_b"}));
  const auto first = R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},)" +
                     metaspace("first", "true") + "]}";
  EXPECT_EQ(split(first, "a b").pieces, (Pieces{"_a", "b"}));
}

TEST(TextPreTokenizer, DelimitersBehaveAsTold) {
  const auto punctuation = [](const std::string& behavior) {
    return split(R"({"type":"Punctuation","behavior":")" + behavior + "\"}", "a-b--c").pieces;
  };
  EXPECT_EQ(punctuation("Removed"), (Pieces{"a", "b", "c"}));
  EXPECT_EQ(punctuation("Isolated"), (Pieces{"a", "-", "b", "-", "-", "c"}));
  EXPECT_EQ(punctuation("MergedWithPrevious"), (Pieces{"a-", "b-", "-", "c"}));
  EXPECT_EQ(punctuation("MergedWithNext"), (Pieces{"a", "-b", "-", "-c"}));
  EXPECT_EQ(punctuation("Contiguous"), (Pieces{"a", "-", "b", "--", "c"}));
}

TEST(TextPreTokenizer, DigitsDelimitersAndPatterns) {
  EXPECT_EQ(split(R"({"type":"Digits","individual_digits":true})", "a12b").pieces,
            (Pieces{"a", "1", "2", "b"}));
  EXPECT_EQ(split(R"({"type":"Digits","individual_digits":false})", "a12b").pieces,
            (Pieces{"a", "12", "b"}));
  EXPECT_EQ(split(R"({"type":"CharDelimiterSplit","delimiter":"|"})", "a||b").pieces,
            (Pieces{"a", "b"}));
  const std::string pattern =
      R"({"type":"Split","pattern":{"Regex":"\\p{L}+"},"behavior":"Removed")";
  EXPECT_EQ(split(pattern + R"(,"invert":true})", "ab1c").pieces, (Pieces{"ab", "c"}));
  EXPECT_EQ(split(pattern + R"(,"invert":false})", "ab1c").pieces, (Pieces{"1"}));
}

TEST(TextPreTokenizer, WhatIsReadIsWrittenTheSame) {
  for (const std::string& json :
       {byte_level(true, false), std::string(R"({"type":"Punctuation","behavior":"Contiguous"})"),
        std::string(
            R"({"type":"Split","pattern":{"String":"x"},"behavior":"Isolated","invert":true})"),
        std::string(R"({"type":"Sequence","pretokenizers":[{"type":"Whitespace"},{"type":"Digits",)"
                    R"("individual_digits":true}]})"),
        std::string(
            R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first","split":false})")})
    EXPECT_EQ(to_json(read_pre_tokenizer(parse_json(json, "t.json"))->node()), json);
}

TEST(TextPreTokenizer, MistakesNameFileAndComponent) {
  const auto message = [](const std::string& json) -> std::string {
    try {
      read_pre_tokenizer(parse_json(json, "t.json"));
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(R"({"type":"UnicodeScripts"})").substr(0, 49),
            "t.json:1: unknown pre_tokenizer 'UnicodeScripts';");
  EXPECT_EQ(message(R"({"type":"Split","behavior":"Removed","invert":false})"),
            "t.json:1: pre_tokenizer Split: pattern is missing");
  EXPECT_EQ(message(R"({"type":"Punctuation","behavior":"Remove"})"),
            "t.json:1: pre_tokenizer Punctuation: behavior is 'Remove'; did you mean 'Removed'?");
  EXPECT_EQ(message(R"({"type":"Metaspace","replacement":"ab"})"),
            "t.json:1: pre_tokenizer Metaspace: replacement must be one character");
}

}  // namespace longbow
