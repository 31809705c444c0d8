#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "longbow/core/config.h"
#include "tests/core/support.h"
#include "tests/support/memory.h"

namespace longbow {
namespace {

Node yaml(const std::string& text) {
  return parse_yaml(text, "f.yaml");
}
std::string refused(const std::string& text) {
  return mistake([&] { yaml(text); });
}
std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

}  // namespace

TEST(Yaml, KeepsOrderTextAndQuotes) {
  auto node = yaml("b: 1e-3\na: \"12\"\nc: [x, 'y']\nd: {}\ne:\n");
  EXPECT_EQ(node.keys(), (std::vector<std::string>{"b", "a", "c", "d", "e"}));
  EXPECT_EQ(node.find("b")->text, "1e-3");
  EXPECT_FALSE(node.find("b")->quoted);
  EXPECT_TRUE(node.find("a")->quoted);
  EXPECT_TRUE(node.find("c")->items[1].quoted);
  EXPECT_TRUE(node.find("d")->is_map());
  EXPECT_TRUE(node.find("e")->is_null());
}

TEST(Yaml, GivesEveryValueTheLineToLookAt) {
  auto node = yaml("a: 1\nmodel:\n  # a comment\n  rank: 64\n  list:\n    - 1\n    - 2\nlast:\n");
  EXPECT_EQ(node.place.str(), "f.yaml:1");
  EXPECT_EQ(node.find("model")->place.line, 2);
  EXPECT_EQ(node.find("model")->find("rank")->place.str(), "f.yaml:4");
  EXPECT_EQ(node.find("model")->find("list")->items[1].place.line, 7);
  EXPECT_EQ(node.find("last")->place.line, 8);
}

TEST(Yaml, ReadsJsonAsItIs) {
  EXPECT_EQ(yaml("{\"a\": [1, 2.5, \"x\", null, true], \"b\": {\"c\": \"\"}}"),
            parse_json("{\"a\": [1, 2.5, \"x\", null, true], \"b\": {\"c\": \"\"}}", "f.json"));
}

TEST(Yaml, AnEmptyDocumentIsNull) {
  EXPECT_TRUE(yaml("").is_null());
  EXPECT_TRUE(yaml("# only a comment\n").is_null());
  EXPECT_EQ(yaml("").place.str(), "f.yaml:1");
}

TEST(Yaml, ReadsBlockScalarsToTheLastLine) {
  EXPECT_EQ(yaml("a: |\n  x\n  y\n").find("a")->text, "x\ny\n");
  EXPECT_EQ(yaml("a: |-\n  x\n").find("a")->text, "x");
  EXPECT_EQ(yaml("a: |+\n  x\n\n").find("a")->text, "x\n\n");
  EXPECT_EQ(yaml("a: >\n  x\n  y\n").find("a")->text, "x y\n");
}

TEST(Yaml, AliasesAreCopies) {
  auto node = yaml("a: &x {rank: 64}\nb: *x\n");
  EXPECT_EQ(*node.find("a"), *node.find("b"));
  EXPECT_EQ(node.find("b")->place.line, 2);
}

TEST(Yaml, RefusesDuplicateKeys) {
  EXPECT_EQ(refused("a: 1\nb: 2\na: 3\n"), "f.yaml:3: duplicate key 'a'; keep one of them");
}

TEST(Yaml, RefusesASecondDocument) {
  EXPECT_EQ(refused("a: 1\n---\nb: 2\n"),
            "f.yaml:3: a second document starts; keep one document a file");
}

TEST(Yaml, RefusesRecursiveAliases) {
  EXPECT_EQ(refused("a: &x\n  - 1\n  - *x\n"),
            "f.yaml:3: an alias is inside the value that it refers to; write the values out");
}

TEST(Yaml, RefusesTagsAndMergeKeys) {
  EXPECT_EQ(refused("a: !!binary aGk=\n"),
            "f.yaml:1: tag 'tag:yaml.org,2002:binary' is not supported; remove it");
  EXPECT_EQ(refused("a: !mine [1]\n"), "f.yaml:1: tag '!mine' is not supported; remove it");
  EXPECT_EQ(refused("x: &b {r: 1}\na:\n  <<: *b\n"),
            "f.yaml:3: merge keys '<<' are not supported; use `base:` or write the keys out");
}

TEST(Yaml, RefusesKeysThatAreNoNames) {
  EXPECT_EQ(refused("[a]: 1\n"),
            "f.yaml:1: a key is a list or a map; write a name, or close the bracket");
  EXPECT_EQ(refused("~: 1\n"), "f.yaml:1: a key is empty or null; quote it to use it as a name");
  EXPECT_EQ(refused("a: &x b\n*x : 1\n"), "f.yaml:2: a key is an alias; write its name");
}

TEST(Yaml, RefusesBytesThatAreNoText) {
  EXPECT_EQ(refused("a: 1\nb: \xff\n"), "f.yaml:2: not UTF-8; save the file as UTF-8");
  EXPECT_EQ(refused(std::string("a: 1\nb: \0\n", 10)),
            "f.yaml:2: control character 0x00; remove it");
  EXPECT_EQ(refused("a: 1\n\x04 b: 2\n"), "f.yaml:2: control character 0x04; remove it");
}

TEST(Yaml, RefusesEscapesThatItsParserGetsWrong) {
  EXPECT_EQ(refused("a: \"\\N\"\n"),
            "f.yaml:1: escapes \\N and \\_ are not supported; write \\u0085 or \\u00a0");
  EXPECT_EQ(yaml("a: \"\\u0085\\L\"\n").find("a")->text, "\u0085\u2028");
}

TEST(Yaml, SyntaxErrorsNameTheLineAndAFix) {
  EXPECT_EQ(refused("a: 1\nb: [1, 2\nc: 3\n"),
            "f.yaml:3: not valid YAML: end of sequence flow not found; check the indentation, "
            "colons and brackets");
  EXPECT_EQ(refused("a: 1\n\tb: 2\n").substr(0, 27), "f.yaml:2: not valid YAML: i");
  EXPECT_EQ(refused("a: \"abc\n"),
            "f.yaml:1: not valid YAML: illegal EOF in scalar; check the quotes");
  EXPECT_EQ(refused("a: 'abc\n  "),
            "f.yaml:1: not valid YAML: illegal EOF in scalar; check the quotes");
  EXPECT_EQ(refused("a: \"abc"),
            "f.yaml:1: not valid YAML: illegal EOF in scalar; check the quotes");
  EXPECT_EQ(
      refused("a: b: c\n"),
      "f.yaml:1: not valid YAML: illegal map value; check the indentation, colons and brackets");
}

TEST(Yaml, SyntaxErrorsDoNotRepeatTheFile) {
  EXPECT_EQ(refused("%YAML 1." + std::string(3000, '~')),
            "f.yaml:1: not valid YAML: 'bad YAML version: 1." + std::string(40, '~') +
                "…'; check the indentation, colons and brackets");
}

TEST(Yaml, DeepNestingIsAMistakeAndNotACrash) {
  auto too_deep = "f.yaml:1: nested deeper than 100 levels; check the brackets";
  EXPECT_EQ(refused(repeated("[", 101) + repeated("]", 101)), too_deep);
  EXPECT_EQ(refused(repeated("{a: ", 101) + repeated("}", 101)), too_deep);
  EXPECT_EQ(refused(repeated("- ", 100000)), too_deep);
  for (const char* text : {"[", "{a: ", "? ", "- ? ", "[a: ", "{", "&a [", "!x ", "\"a\": "})
    EXPECT_EQ(refused(repeated(text, 100000)).substr(0, 9), "f.yaml:1:") << text;
  EXPECT_NO_THROW(yaml(repeated("[", 100) + repeated("]", 100)));
}

TEST(Yaml, BillionLaughsEndEarly) {
  std::string text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n";
  for (int i = 1; i < 12; ++i)
    text += fmt::format("a{0}: &a{0} [{1}*a{2}]\n", i, repeated(fmt::format("*a{}, ", i - 1), 8),
                        i - 1);
  auto start = std::chrono::steady_clock::now();
  EXPECT_NE(refused(text).find("more than 100000 values; use fewer aliases"), std::string::npos)
      << refused(text);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Yaml, EmptyValuesCountToo) {
  const auto text = "[" + repeated("~,", 500'000) + "]";
  EXPECT_EQ(refused(text), "f.yaml:1: more than 100000 values; use fewer aliases");
  EXPECT_LT(peak_bytes([&] { yaml(text); }), int64_t{200} << 20);
}

TEST(Yaml, ALongTextIsRefusedBeforeItIsRead) {
  const auto text = repeated("# nothing\n", 110'000);
  EXPECT_EQ(refused(text),
            "f.yaml: longer than 1048576 bytes; a config is short; is this another file?");
  EXPECT_LT(peak_bytes([&] { yaml(text); }), int64_t{1} << 20);
}

TEST(Yaml, LongTextsBehindAliasesCountToo) {
  auto text = "a: &a " + std::string(1 << 19, 'x') + "\nb: [" + repeated("*a, ", 2000) + "]\n";
  EXPECT_EQ(refused(text), "f.yaml:2: more than 100000 values; use fewer aliases");
}

TEST(Yaml, AliasesDoNotDeepenPastTheLimit) {
  auto text = "a: &a " + repeated("[", 60) + repeated("]", 60) + "\nb: " + repeated("[", 60) +
              "*a" + repeated("]", 60);
  EXPECT_EQ(refused(text), "f.yaml:2: nested deeper than 100 levels; check the brackets");
}

}  // namespace longbow
