#include "longbow/text/components/normalizers.h"

#include <gtest/gtest.h>

namespace longbow {
namespace {

NormalizerPtr normalizer(const std::string& json) {
  return read_normalizer(parse_json(json, "t.json"));
}

std::string normalized(const std::string& json, std::string_view text) {
  AlignedText aligned;
  aligned.assign(text, 0, AlignedText::Alignment::kept);
  normalizer(json)->apply(aligned);
  AlignedText plain;
  plain.assign(text, 0, AlignedText::Alignment::none);
  normalizer(json)->apply(plain);
  EXPECT_EQ(plain.view(), aligned.view()) << "alignment changes the text";
  return std::string(aligned.view());
}

void expect_error(const std::string& json, const std::string& message) {
  try {
    normalizer(json);
    FAIL() << json;
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()), message);
  }
}

constexpr const char* kBert =
    R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,)"
    R"("lowercase":true})";

}  // namespace

TEST(TextNormalizer, BertCleansSpacesLowersAndStrips) {
  EXPECT_EQ(normalized(kBert, "H\u00c9llo\u200b\tW\u00f6rld\u4e2dx\x01"), "hello world \u4e2d x");
  EXPECT_EQ(normalized(kBert, "\ud55c"), "\u1112\u1161\u11ab") << "accents go by decomposition";
  EXPECT_EQ(normalized(R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":false,)"
                       R"("strip_accents":false,"lowercase":false})",
                       "\u00c9\u4e2d"),
            "\u00c9\u4e2d");
}

TEST(TextNormalizer, OffsetsSurvive) {
  AlignedText text;
  text.assign("\u00c9x\u4e2d", 0, AlignedText::Alignment::kept);
  normalizer(kBert)->apply(text);
  ASSERT_EQ(text.view(), "ex \u4e2d ");
  EXPECT_EQ(text.origin(0, 1), (ByteSpan{0, 2}));
  EXPECT_EQ(text.origin(1, 2), (ByteSpan{2, 3}));
  EXPECT_EQ(text.origin(3, 6), (ByteSpan{3, 6}));
}

TEST(TextNormalizer, FormsAndCase) {
  EXPECT_EQ(normalized(R"({"type":"NFKC"})", "\ufb01\u2460"), "fi1");
  EXPECT_EQ(normalized(R"({"type":"NFD"})", "\u00e9"), "e\u0301");
  EXPECT_EQ(normalized(R"({"type":"Lowercase"})", "A\u0130"), "ai\u0307");
  EXPECT_EQ(normalized(R"({"type":"StripAccents"})", "e\u0301\u0903"), "e");
  EXPECT_EQ(normalized(R"({"type":"Nmt"})", "a\u200b\x01\u2581"), "a  ");
}

TEST(TextNormalizer, StripReplacePrepend) {
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":true,"strip_right":false})", " \u3000a "),
            "a ");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":true,"strip_right":true})", "  "), "");
  EXPECT_EQ(
      normalized(R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "})", "a   b c"),
      "a b c");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"String":"."},"content":"!!"})", "a.b."),
            "a!!b!!");
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"\u2581"})", "a"),
            "\u2581"
            "a");
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"\u2581"})", ""), "");
}

TEST(TextNormalizer, SequencesApplyInTurn) {
  const std::string json =
      R"({"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"},{"type":"ByteLevel"}]})";
  EXPECT_EQ(normalized(json, "\u00e9 \uac00"), "e\u0120\u00e1\u0126\u0122\u00e1\u0127\u00a1");
}

TEST(TextNormalizer, WhatIsReadIsWrittenTheSame) {
  for (const std::string& json :
       {std::string(kBert),
        std::string(R"({"type":"Replace","pattern":{"Regex":"a|b"},"content":"c"})"),
        std::string(
            R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Strip","strip_left":)") +
            R"(true,"strip_right":false},{"type":"Prepend","prepend":"_"},{"type":"Nmt"}]})"})
    EXPECT_EQ(to_json(normalizer(json)->node()), json);
  EXPECT_EQ(normalizer("null"), nullptr);
}

TEST(TextNormalizer, RulesThatDoubleATextManyTimesEnd) {
  std::string steps;
  for (int i = 0; i < 60; ++i)
    steps +=
        std::string(i ? "," : "") + R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";
  EXPECT_THROW(normalized(R"({"type":"Sequence","normalizers":[)" + steps + "]}", "a"), UserError);
}

TEST(TextNormalizer, MistakesNameFileAndComponent) {
  expect_error(R"({"type":"NFX"})", "t.json:1: unknown normalizer 'NFX'; did you mean 'NFC'?");
  expect_error("[]", "t.json:1: normalizer must be an object or null");
  expect_error("{}", "t.json:1: normalizer has no \"type\"");
  expect_error(R"({"type":"Strip","strip_left":true})",
               "t.json:1: normalizer Strip: strip_right is missing");
  expect_error(R"({"type":"NFC","form":1})",
               "t.json:1: normalizer NFC: unknown field 'form'; one of: type");
  expect_error(
      R"({"type":"Replace","pattern":"a","content":"b"})",
      "t.json:1: normalizer Replace: pattern must be {\"String\": \u2026} or {\"Regex\": \u2026}");
  expect_error(R"({"type":"Replace","pattern":{"Regex":"("},"content":"b"})",
               "t.json:1: normalizer Replace: the pattern '(' cannot be used: missing closing "
               "parenthesis");
}

}  // namespace longbow
