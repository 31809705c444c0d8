#include "longbow/core/fields.h"

#include <gtest/gtest.h>

#include "tests/core/support.h"

namespace longbow {
namespace {

enum class Sharing { none, kv };
constexpr std::array<std::string_view, 2> names_of(Sharing) {
  return {"none", "kv"};
}

struct Model {
  int64_t rank = 64;
  double dropout = 0.1;
  Sharing sharing = Sharing::none;
  std::vector<int64_t> windows = {1, 2};
};
template <class V>
void fields(V& v, Model& m) {
  v("rank", m.rank, "projected length", range(1, 65536));
  v("dropout", m.dropout, "share of zeros", range(0, 1));
  v("sharing", m.sharing, "what shares a projection");
  v("windows", m.windows, "one per layer", at_least(1));
}

struct Training {
  Model model;
  std::string title = "a run";
  bool causal = false;
  std::optional<double> clip;
  float scale = 1;
  int32_t small = 0;
  uint8_t byte = 0;
  Node attention = Node::map();
};
template <class V>
void fields(V& v, Training& r) {
  v("model", r.model, "the model");
  v("title", r.title, "what it is called");
  v("causal", r.causal, "no look ahead");
  v("clip", r.clip, "largest norm", above(0));
  v("scale", r.scale, "factor");
  v("small", r.small, "a small number");
  v("byte", r.byte, "a smaller number");
  v("attention", r.attention, "the mechanism and its options");
}

Training read_run(const std::string& text) {
  return read<Training>(parse_yaml(text, "f.yaml"));
}
std::string refused(const std::string& text) {
  return mistake([&] { read_run(text); });
}

}  // namespace

TEST(Fields, ReadsWhatIsSaidAndKeepsDefaults) {
  auto run = read_run(
      "model: {rank: 8, sharing: kv, windows: []}\nclip: 0.5\ncausal: true\nattention: {name: "
      "fnet}\n");
  EXPECT_EQ(run.model.rank, 8);
  EXPECT_EQ(run.model.dropout, 0.1);
  EXPECT_EQ(run.model.sharing, Sharing::kv);
  EXPECT_TRUE(run.model.windows.empty());
  EXPECT_EQ(run.clip, 0.5);
  EXPECT_TRUE(run.causal);
  EXPECT_EQ(run.title, "a run");
  EXPECT_EQ(run.attention.find("name")->text, "fnet");
  EXPECT_FALSE(read_run("clip: ~").clip.has_value());
  EXPECT_EQ(read_run("model:").model.rank, 64);
}

TEST(Fields, AnUnknownKeyNamesItsNearest) {
  EXPECT_EQ(mistake([] { read<Training>(parse_yaml("\n\nmodel:\n  rnak: 3\n", "listops.yaml")); }),
            "listops.yaml:4: unknown key 'rnak'; did you mean 'rank'?");
  EXPECT_EQ(refused("model: {foo: 3}"),
            "f.yaml:1: unknown key 'foo'; one of: rank, dropout, sharing, windows");
}

TEST(Fields, AWrongTypeNamesTheFieldAndTheLine) {
  EXPECT_EQ(refused("\n\nmodel: {rank: abc}"),
            "f.yaml:3: model.rank is 'abc', not an integer; write a whole number such as 64");
  EXPECT_EQ(refused("model: {windows: [1, x]}"),
            "f.yaml:1: model.windows[1] is 'x', not an integer; write a whole number such as 64");
  EXPECT_EQ(refused("model: 5"),
            "f.yaml:1: model is '5', not a map; write its keys below it, each as `key: value`");
  EXPECT_EQ(refused("model: {windows: 5}"),
            "f.yaml:1: model.windows is '5', not a list; write [a, b]");
  EXPECT_EQ(refused("causal: yes"),
            "f.yaml:1: causal is 'yes', not a boolean; write true or false");
}

TEST(Fields, AValueOutOfRangeNamesTheRange) {
  EXPECT_EQ(refused("\n\nmodel: {rank: 0}"),
            "f.yaml:3: model.rank is 0, out of range; it may be 1..65536");
  EXPECT_EQ(refused("clip: 0"), "f.yaml:1: clip is 0, out of range; it may be > 0");
  EXPECT_EQ(refused("clip: -0." + std::string(3000, '0')),
            "f.yaml:1: clip is '-0." + std::string(57, '0') + "…', out of range; it may be > 0");
  EXPECT_EQ(refused("model: {windows: [3, 0]}"),
            "f.yaml:1: model.windows[1] is 0, out of range; it may be >= 1");
}

TEST(Fields, ANumberThatItsTypeCannotHoldIsRefused) {
  EXPECT_EQ(refused("small: 3000000000"),
            "f.yaml:1: small is 3000000000, out of range; it may be -2147483648..2147483647");
  EXPECT_EQ(refused("byte: -1"), "f.yaml:1: byte is -1, out of range; it may be 0..255");
  EXPECT_EQ(refused("scale: 1e300").substr(0, 52),
            "f.yaml:1: scale is 1e300, out of range; it may be -3");
}

TEST(Fields, AChoiceNamesItsNearestOrAll) {
  EXPECT_EQ(refused("model: {sharing: kvv}"),
            "f.yaml:1: model.sharing is 'kvv'; did you mean 'kv'?");
  EXPECT_EQ(refused("model: {sharing: headwise}"),
            "f.yaml:1: model.sharing is 'headwise'; one of: none, kv");
  EXPECT_EQ(refused("model: {sharing: [kv]}"),
            "f.yaml:1: model.sharing is a list; one of: none, kv");
}

TEST(Fields, WithoutAPlaceTheMessageHasNoPrefix) {
  auto node = Node::map({{"title", Node::list()}});
  EXPECT_EQ(mistake([&] { read<Training>(node); }),
            "title is a list, not a string; write a text, \"\" for an empty one");
  EXPECT_EQ(mistake([&] { read<Training>(node, "run"); }).substr(0, 9), "run.title");
}

TEST(Fields, WhatIsWrittenReadsBack) {
  auto run = read_run(
      "{model: {rank: 8, dropout: 0.3, windows: [3]}, title: '12', clip: 1e-3, scale: 0.1, "
      "attention: {name: x}}");
  auto node = written(run);
  EXPECT_EQ(written(read<Training>(parse_yaml(to_yaml(node), "again.yaml"))), node);
  EXPECT_EQ(node.keys().size(), 8u);
  EXPECT_EQ(read<Training>(node).scale, 0.1f);
}

TEST(Fields, DescribesEveryFieldOnce) {
  auto docs = describe<Training>();
  ASSERT_EQ(docs.size(), 11u);
  EXPECT_EQ(docs[0].name, "model.rank");
  EXPECT_EQ(docs[0].type, "integer");
  EXPECT_EQ(docs[0].fallback, "64");
  EXPECT_EQ(docs[0].range, "1..65536");
  EXPECT_EQ(docs[0].meaning, "projected length");
  EXPECT_EQ(docs[2].type, "one of none|kv");
  EXPECT_EQ(docs[3].type, "list of integer");
  EXPECT_EQ(docs[3].fallback, "[1,2]");
  EXPECT_EQ(docs[6].fallback, "none");
  EXPECT_EQ(docs[6].range, "> 0");
}

struct Trees {
  Node open = Node::map(), named = Node::string("softmax"), filled = Node::map({{"name", Node{}}});
};
template <class V>
void fields(V& v, Trees& c) {
  v("open", c.open, "any keys");
  v("named", c.named, "a name or more");
  v("filled", c.filled, "a map or something else");
}

TEST(Fields, ATreeIsAMapWhereItIsAnEmptyOneByDefault) {
  const auto docs = describe<Trees>();
  EXPECT_EQ(docs[0].type, "map");
  EXPECT_EQ(docs[1].type, "any");
  EXPECT_EQ(docs[2].type, "any");
}

TEST(RangeText, ShowsBothEnds) {
  EXPECT_EQ(detail::range_text({}), "");
  EXPECT_EQ(detail::range_text(range(0, 1)), "0..1");
  EXPECT_EQ(detail::range_text(at_least(0.5)), ">= 0.5");
  EXPECT_EQ(detail::range_text({.least = 0, .most = 1, .open_least = true}), "> 0, <= 1");
  EXPECT_EQ(detail::range_text({.most = 1}), "<= 1");
}

}  // namespace longbow
