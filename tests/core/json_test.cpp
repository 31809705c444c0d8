#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "longbow/core/config.h"
#include "tests/core/support.h"
#include "tests/support/memory.h"

namespace longbow {
namespace {

Node json(const std::string& text) {
  return parse_json(text, "f.json");
}
std::string refused(const std::string& text) {
  return mistake([&] { json(text); });
}

}  // namespace

TEST(Json, KeepsTheTextOfNumbers) {
  auto node = json("[-0, 1.50, 1E5, 123456789012345678901234567890, true, null, \"12\"]");
  EXPECT_EQ(node.items[0].text, "-0");
  EXPECT_EQ(node.items[1].text, "1.50");
  EXPECT_EQ(node.items[3].text, "123456789012345678901234567890");
  EXPECT_TRUE(node.items[5].is_null());
  EXPECT_TRUE(node.items[6].quoted);
}

TEST(Json, ReadsEscapesAndSurrogatePairs) {
  EXPECT_EQ(json(R"("\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00")").text, "\"\\/\b\f\n\r\té😀");
  EXPECT_EQ(json(R"("\u0000")").text, std::string(1, '\0'));
}

TEST(Json, GivesEveryValueItsLine) {
  auto node = json("{\n \"a\": 1,\n \"b\": [\n  2,\n  3]\n}\n");
  EXPECT_EQ(node.find("a")->place.str(), "f.json:2");
  EXPECT_EQ(node.find("b")->items[1].place.line, 5);
}

TEST(Json, AByteOrderMarkIsDropped) {
  EXPECT_EQ(json("\xef\xbb\xbf[1]").items.size(), 1u);
  EXPECT_EQ(refused("\xef\xbb\xbf\n\"\xff\""), "f.json:2: not valid JSON: not UTF-8");
  EXPECT_EQ(refused("\xef\xbb\xbf\xef\xbb\xbf[1]"),
            "f.json:1: not valid JSON: a value is expected");
}

TEST(Json, MistakesNameTheirLine) {
  EXPECT_EQ(refused("{\n\"a\": 1,\n\"a\": 2}"), "f.json:3: not valid JSON: duplicate key 'a'");
  EXPECT_EQ(refused("{\n\"a\" 1}"), "f.json:2: not valid JSON: ':' is missing after a key");
  EXPECT_EQ(refused("{\"a\": 1\n"),
            "f.json:2: not valid JSON: '}' is missing after the last entry");
  EXPECT_EQ(refused("[1 2]"), "f.json:1: not valid JSON: ']' is missing after the last item");
  EXPECT_EQ(refused("{a: 1}"), "f.json:1: not valid JSON: a key in double quotes is expected");
  EXPECT_EQ(refused(""), "f.json:1: not valid JSON: the text ends where a value is expected");
  EXPECT_EQ(refused("{} {}"), "f.json:1: not valid JSON: text after the end of the value");
  EXPECT_EQ(refused("[1,]"), "f.json:1: not valid JSON: a value is expected");
  EXPECT_EQ(refused("NaN"), "f.json:1: not valid JSON: 'NaN' is not a value");
  EXPECT_EQ(refused("01"), "f.json:1: not valid JSON: '01' is not a value");
  EXPECT_EQ(refused("\"abc"), "f.json:1: not valid JSON: a string does not end");
  EXPECT_EQ(refused("\"a\nb\""), "f.json:1: not valid JSON: a string contains a control character");
  EXPECT_EQ(refused(R"("\x")"), "f.json:1: not valid JSON: a string contains an unknown escape");
  EXPECT_EQ(refused(R"("\u12g4")"), "f.json:1: not valid JSON: \\u needs four hexadecimal digits");
  EXPECT_EQ(refused(R"("\ud83d")"),
            "f.json:1: not valid JSON: a string contains half of a surrogate pair");
  EXPECT_EQ(refused(R"("\ud83d\u0041")"),
            "f.json:1: not valid JSON: a string contains half of a surrogate pair");
  EXPECT_EQ(refused("\n\"\xff\""), "f.json:2: not valid JSON: not UTF-8");
}

TEST(Json, DeepNestingIsAMistakeAndNotACrash) {
  EXPECT_EQ(refused(std::string(100000, '[')),
            "f.json:1: not valid JSON: nested deeper than 100 levels");
  EXPECT_NO_THROW(json(std::string(100, '[') + std::string(100, ']')));
}

TEST(Json, ManyValuesAreRefusedBeforeTheyTakeMemory) {
  std::string zeros, text = "[0";
  for (int i = 0; i < 1000; ++i) zeros += ",0";
  for (int i = 0; i < 30'000; ++i) text += zeros;
  text += "]";
  EXPECT_EQ(refused(text), "f.json:1: holds more than 1000000 values");
  EXPECT_LT(peak_bytes([&] { json(text); }), int64_t{500} << 20);
}

TEST(Json, AgreesWithAnotherReader) {
  for (const char* text : {"{\"a\":[1,2,{\"b\":null}],\"c\":\"\\u00e9\\n\"}", "[]", "{}", "[[],{}]",
                           "\"x\"", "-1.5e-7", "true"}) {
    auto oracle = nlohmann::ordered_json::parse(text);
    EXPECT_EQ(nlohmann::ordered_json::parse(to_json(json(text))), oracle) << text;
  }
}

TEST(ToJson, IsCompactOrIndented) {
  auto node = json("{\"a\": [1, 2], \"b\": {}, \"c\": {\"d\": \"e\"}}");
  auto oracle = nlohmann::ordered_json::parse(to_json(node));
  EXPECT_EQ(to_json(node), "{\"a\":[1,2],\"b\":{},\"c\":{\"d\":\"e\"}}");
  EXPECT_EQ(to_json(node), oracle.dump());
  EXPECT_EQ(to_json(node, 2), oracle.dump(2));
}

TEST(ToJson, ScalarsThatJsonKnowsStandBare) {
  auto node =
      parse_yaml("[12, \"12\", true, 'true', ~, .5, 0x10, linformer, 1e-05, .nan]", "f.yaml");
  EXPECT_EQ(to_json(node), R"([12,"12",true,"true",null,".5","0x10","linformer",1e-05,".nan"])");
}

}  // namespace longbow
