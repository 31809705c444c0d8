#include "longbow/corpus/readers/json_stream.h"

#include <gtest/gtest.h>

#include "tests/corpus/support.h"

namespace longbow::corpus {
namespace {

// What a reader sees of a value, in a notation of its own.
std::string seen(JsonStream& json) {
  using Kind = JsonStream::Kind;
  std::string text;
  switch (json.kind()) {
    case Kind::object: {
      std::string key, all = "{";
      for (json.open_object(); json.key(key);) all += key + "=" + seen(json) + ";";
      return all + "}";
    }
    case Kind::array: {
      std::string all = "[";
      for (json.open_array(); json.item();) all += seen(json) + ";";
      return all + "]";
    }
    case Kind::string:
      json.string(text);
      return "<" + text + ">";
    default:
      json.word(text);
      return text;
  }
}

std::string read(const std::string& text) {
  auto file = TextFile::in_memory(text, "a.json");
  JsonStream json(file);
  auto all = seen(json);
  json.finish();
  return all;
}

std::string refused(const std::string& text) {
  const auto by_value = mistake([&] { read(text); });
  const auto by_skipping = mistake([&] {
    auto file = TextFile::in_memory(text, "a.json");
    JsonStream json(file);
    json.skip();
    json.finish();
  });
  EXPECT_EQ(by_value, by_skipping);
  return by_value;
}

TEST(JsonStream, ReadsEveryKindOfValue) {
  EXPECT_EQ(read(R"( {"a": [1, -2.5e3, true, null], "b": {}, "c": [], "d": "x"} )"),
            "{a=[1;-2.5e3;true;null;];b={};c=[];d=<x>;}");
  EXPECT_EQ(read("\"x\""), "<x>");
}

TEST(JsonStream, DecodesEscapes) {
  EXPECT_EQ(read(R"("\"\\\/\b\f\n\r\t\u00e9\uD55C\ud83d\ude00")"), "<\"\\/\b\f\n\r\té한😀>");
}

TEST(JsonStream, ReadsTextThatIsCutAnywhere) {
  // More than one block, so that keys, escapes and numbers lie across the cuts.
  std::string text = "[", wanted = "[";
  for (int i = 0; text.size() < 900000; ++i) {
    text += R"({"key": "한\ud83d\ude00\n", "n": 12345.5},)" + std::string(i % 7, ' ');
    wanted += "{key=<한😀\n>;n=12345.5;};";
  }
  EXPECT_EQ(read(text + "0]"), wanted + "0;]");
}

TEST(JsonStream, NamesLineAndReason) {
  EXPECT_EQ(refused(""), "a.json:1: not valid JSON: the text ends where a value is expected");
  EXPECT_EQ(refused("[1,\n2"), "a.json:2: not valid JSON: ']' is missing after the last item");
  EXPECT_EQ(refused("{\"a\": 1 \"b\": 2}"),
            "a.json:1: not valid JSON: '}' is missing after the last entry");
  EXPECT_EQ(refused("{\"a\" 1}"), "a.json:1: not valid JSON: ':' is missing after a key");
  EXPECT_EQ(refused("{\"a\": 1,}"), "a.json:1: not valid JSON: a key in double quotes is expected");
  EXPECT_EQ(refused("{a: 1}"), "a.json:1: not valid JSON: a key in double quotes is expected");
  EXPECT_EQ(refused("[1,]"), "a.json:1: not valid JSON: a value is expected");
  EXPECT_EQ(refused("[01]"), "a.json:1: not valid JSON: '01' is not a value");
  EXPECT_EQ(refused("\n\n[nul]"), "a.json:3: not valid JSON: 'nul' is not a value");
  EXPECT_EQ(refused("\"a"), "a.json:1: not valid JSON: a string does not end");
  EXPECT_EQ(refused("\"a\tb\""), "a.json:1: not valid JSON: a string contains a control character");
  EXPECT_EQ(refused("\"\\x\""), "a.json:1: not valid JSON: a string contains an unknown escape");
  EXPECT_EQ(refused("\"\\u12g4\""), "a.json:1: not valid JSON: \\u needs four hexadecimal digits");
  EXPECT_EQ(refused("\"\\u0000\""),
            "a.json:1: not valid JSON: a string contains the character U+0000");
  for (const auto* text : {"\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83d\\n\"", "\"\\ud83d\\u0041\""})
    EXPECT_EQ(refused(text),
              "a.json:1: not valid JSON: a string contains half of a surrogate pair");
  EXPECT_EQ(refused("1 2"), "a.json:1: not valid JSON: text after the end of the value");
  EXPECT_EQ(refused(std::string(101, '[')),
            "a.json:1: not valid JSON: nested deeper than 100 levels");
}

TEST(JsonStream, RefusesAnotherKindThanTheOneAskedFor) {
  auto file = TextFile::in_memory("[1]", "a.json");
  JsonStream json(file);
  EXPECT_EQ(mistake([&] { json.open_object(); }),
            "a.json:1: not valid JSON: an object is expected");
  json.open_array();
  ASSERT_TRUE(json.item());
  EXPECT_EQ(mistake([&] { json.open_array(); }), "a.json:1: not valid JSON: a list is expected");
  std::string text;
  EXPECT_EQ(mistake([&] { json.string(text); }), "a.json:1: not valid JSON: a string is expected");
}

TEST(JsonStream, BoundsTheLengthOfAString) {
  auto file = TextFile::in_memory("\"123456\"", "a.json", {.max_line = 5});
  JsonStream json(file);
  std::string text;
  EXPECT_EQ(mistake([&] { json.string(text); }),
            "a.json:1: not valid JSON: a string is longer than 5 bytes");
}

}  // namespace
}  // namespace longbow::corpus
