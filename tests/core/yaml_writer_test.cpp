#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "longbow/core/config.h"
#include "longbow/core/seed.h"

namespace longbow {
namespace {

Node again(const Node& node) {
  return parse_yaml(to_yaml(node), "again.yaml");
}

}  // namespace

TEST(ToYaml, WritesReadableBlocks) {
  auto node = parse_yaml(
      "{model: {name: linformer, rank: 64}, seeds: [1, 2], runs: [{a: 1, b: []}, [x]], none: ~}",
      "f");
  EXPECT_EQ(to_yaml(node),
            "model:\n  name: linformer\n  rank: 64\nseeds:\n  - 1\n  - 2\nruns:\n  - a: 1\n    b: "
            "[]\n  - - x\nnone: null\n");
  EXPECT_EQ(again(node), node);
}

TEST(ToYaml, QuotesExactlyWhatWouldReadAsSomethingElse) {
  EXPECT_EQ(to_yaml(Node::string("linformer")), "linformer\n");
  EXPECT_EQ(to_yaml(Node::string("data/listops.tsv")), "data/listops.tsv\n");
  EXPECT_EQ(to_yaml(Node::string("cuda:0")), "cuda:0\n");
  EXPECT_EQ(to_yaml(Node::string("한국어 말")), "한국어 말\n");
  for (const char* text : {"12", "true", "", "null", "~", "yes", "off", "1e3", "a: b", "a #b",
                           "- a", "a ", " a", "'a'", "2020-01-01"})
    EXPECT_EQ(to_yaml(Node::string(text)), "\"" + std::string(text) + "\"\n");
  EXPECT_EQ(to_yaml(Node::scalar("12")), "12\n");
  EXPECT_EQ(to_yaml(Node::boolean(true)), "true\n");
}

TEST(ToYaml, EveryStringComesBack) {
  for (const std::string& text : {std::string("12"),
                                  std::string("true"),
                                  std::string(),
                                  std::string("a: b"),
                                  std::string("two\nlines\n"),
                                  std::string("tab\t"),
                                  std::string("\\ and \""),
                                  std::string("\0\x01\x04\x7f", 4),
                                  std::string("é 한글 😀 \u0085 \u00a0 \u2028 \ufeff"),
                                  std::string("---"),
                                  std::string("..."),
                                  std::string("%x"),
                                  std::string("@a"),
                                  std::string("`a`"),
                                  std::string("a:"),
                                  std::string("<<"),
                                  std::string("!x"),
                                  std::string("&x"),
                                  std::string("*x"),
                                  std::string("?"),
                                  std::string(2000, 'k')}) {
    auto node = Node::map({{text, Node::string(text)},
                           {"list", Node::list({Node::string(text)})},
                           {"inner", Node::map({{text, Node::map({{text, Node::list()}})}})}});
    EXPECT_EQ(again(node), node) << to_yaml(node);
    EXPECT_EQ(again(Node::string(text)).text, text);
  }
}

TEST(ToYaml, DoublesComeBackBitForBit) {
  Stream stream(1, "doubles");
  std::vector<double> values = {0.0,
                                -0.0,
                                1e-5,
                                0.1,
                                1.0 / 3,
                                5e-324,
                                2.2250738585072014e-308,
                                std::numeric_limits<double>::max()};
  for (int i = 0; i < 2000; ++i) {
    double value = std::bit_cast<double>(stream.next64());
    if (std::isfinite(value)) values.push_back(value);
  }
  for (double value : values)
    EXPECT_EQ(std::bit_cast<uint64_t>(as_number(again(Node::number(value)), "x")),
              std::bit_cast<uint64_t>(value))
        << value;
  EXPECT_EQ(to_yaml(Node::number(1e-5)), "1e-05\n");
  EXPECT_EQ(to_yaml(Node::number(0.1)), "0.1\n");
}

TEST(ToYaml, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(again(Node::string("a\xff")).text, "a\ufffd");
}

}  // namespace longbow
