#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/objectives.h"
#include "tests/cli/program.h"

namespace longbow::cli {
namespace {

using nlohmann::json;

Outcome trained(const Workspace& here, const std::string& attention) {
  here.write("run.yaml", replaced(replaced(kTinyRecall, "{name: linear}", attention), "layers: 1",
                                  "layers: 2"));
  return here.run(
      {"train", "run.yaml", "--out", "run", "--progress", "off", "--set", "train.max_steps=2"});
}

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// What each objective shows, layer by layer.
const std::map<std::string, std::vector<std::string>> kLayers = {
    {"classification", {"layers.0", "layers.1"}},
    {"pairs", {"layers.0 first", "layers.0 second", "layers.1 first", "layers.1 second"}},
    {"joint_pairs", {"layers.0", "layers.1"}},
    {"class_token", {"layers.0 first", "layers.0 second", "layers.1 first", "layers.1 second"}},
    {"regression", {"layers.0", "layers.1"}},
    {"span", {"layers.0", "layers.1"}},
    {"characters", {"first.layers.0", "deep.layers.0", "deep.layers.1", "last.layers.0"}},
    {"perceiver",
     {"cross.0", "cross.1", "blocks.0.layers.0", "blocks.0.layers.1", "blocks.1.layers.0",
      "blocks.1.layers.1"}},
    {"causal_lm", {"layers.0", "layers.1"}},
    {"perceiver_ar", {"cross", "blocks.layers.0", "blocks.layers.1"}},
    {"masked_lm", {"layers.0", "layers.1"}},
    {"replaced_tokens", {"generator.layers.0", "detector.layers.0", "detector.layers.1"}},
    {"translation",
     {"encoder.layers.0", "encoder.layers.1", "decoder.layers.0", "decoder.layers.0.cross",
      "decoder.layers.1", "decoder.layers.1.cross"}},
    {"pretrained", {"layers.0", "layers.1"}},
};

class MapsOf : public testing::TestWithParam<TinyObjective> {};

// Softmax everywhere: every real query gives its keys weights that sum to one.
TEST_P(MapsOf, ShowEveryHeadOfEveryLayer) {
  const Workspace here;
  here.write("run.yaml",
             "{" + GetParam().config + ", train: {max_steps: 2, batch_size: 8, bucket: 4}}");
  const auto training = here.run({"train", "run.yaml", "--out", "run", "--progress", "off"});
  ASSERT_EQ(training.code, 0) << training.err;
  const auto outcome = here.run({"maps", "run", "--out", "maps.svg", "--json", "maps.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto found = json::parse(here.read("maps.json"));
  std::vector<std::string> layers;
  for (const auto& map : found.at("maps")) {
    SCOPED_TRACE(map.at("layer"));
    if (map.at("head") == 0) layers.push_back(map.at("layer"));
    const auto& rows = map.at("weights");
    const auto& queries = map.at("queries");
    const auto& keys = map.at("keys");
    if (!queries.empty()) EXPECT_EQ(queries.size(), rows.size());
    ASSERT_FALSE(rows.empty());
    for (const auto& row : rows) {
      if (!keys.empty()) EXPECT_EQ(keys.size(), row.size());
      double sum = 0;
      for (const auto& weight : row) sum += weight.get<double>();
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
  EXPECT_EQ(layers, kLayers.at(GetParam().name));
  const auto svg = here.read("maps.svg");
  EXPECT_EQ(count(svg, "<rect"), found.at("maps").size());
  for (const auto& layer : layers) EXPECT_EQ(count(svg, ">" + layer + "<"), 1u) << layer;
}

INSTANTIATE_TEST_SUITE_P(Objectives, MapsOf, testing::ValuesIn(tiny_objectives()),
                         [](const auto& info) { return info.param.name; });

TEST(MapsCommand, DrawsEveryHeadOfEveryLayer) {
  const Workspace here;
  ASSERT_EQ(trained(here, "{name: linformer, rank: 4}").code, 0);
  const auto outcome = here.run({"maps", "run", "--out", "maps.svg"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "maps.svg\n");
  const auto svg = here.read("maps.svg");
  EXPECT_EQ(count(svg, "<rect"), 4u);  // two layers of two heads
  for (const auto* label : {">layers.0<", ">layers.1<", ">head 0<", ">head 1<"})
    EXPECT_EQ(count(svg, label), 1u) << label;
  EXPECT_EQ(count(svg, "linformer on recall"), 2u);
  EXPECT_EQ(count(svg, ">queries<"), 2u) << "one a layer";
  EXPECT_EQ(count(svg, ">slots<"), 4u) << "one a map";
  EXPECT_EQ(count(svg, "url(#shades)"), 4u);
}

// A sample of 4 pairs and 4 queries is 13 tokens long; linformer's columns are slots.
TEST(MapsCommand, NamesTokensButNotSlots) {
  const Workspace here;
  for (const auto* attention : {"{name: softmax}", "{name: linformer, rank: 13}"}) {
    SCOPED_TRACE(attention);
    std::filesystem::remove_all(here.path("run"));
    ASSERT_EQ(trained(here, attention).code, 0);
    ASSERT_EQ(
        here.run({"maps", "run", "--out", "maps.svg", "--json", "maps.json", "--limit", "3"}).code,
        0);
    const auto map = json::parse(here.read("maps.json")).at("maps").at(0);
    EXPECT_EQ(map.at("weights").size(), 3u);
    EXPECT_EQ(map.at("weights").at(0).size(), 13u);
    EXPECT_EQ(map.at("queries").size(), 3u);
    EXPECT_EQ(map.at("keys").size(), attention == std::string("{name: softmax}") ? 13u : 0u);
    const auto token = ">" + map.at("queries").at(0).get<std::string>() + "<";
    EXPECT_GE(count(here.read("maps.svg"), token), 2u) << "one a layer";
  }
}

// A decoder reads the source backwards once it is trained; here only the names are looked at.
TEST(MapsCommand, NamesTheTokensOfATargetInTheTargetsSymbols) {
  const Workspace here;
  here.write("run.yaml",
             "{task: reverse, data: {reverse: {train: 8, valid: 2, test: 2, symbols: 5, length: 4, "
             "length_min: 4}}, model: {encoder: {width: 8, heads: 1, layers: 1}, decoder: {width: "
             "8, heads: 1, layers: 1}}, train: {max_steps: 1, batch_size: 2, bucket: 1}}");
  const auto training = here.run({"train", "run.yaml", "--out", "run", "--progress", "off"});
  ASSERT_EQ(training.code, 0) << training.err;
  ASSERT_EQ(here.run({"maps", "run", "--out", "maps.svg", "--json", "maps.json"}).code, 0);
  const auto found = json::parse(here.read("maps.json"));
  for (const auto& map : found.at("maps")) {
    if (map.at("layer") != "decoder.layers.0.cross") continue;
    auto target = map.at("queries").get<std::vector<std::string>>();
    EXPECT_EQ(target.front(), "<begin>");
    std::vector<std::string> source = map.at("keys");
    std::reverse(source.begin(), source.end());
    EXPECT_EQ(std::vector(target.begin() + 1, target.end()), source);
    return;
  }
  FAIL() << "there is no map of the cross-attention";
}

TEST(MapsCommand, SaysInOneLineWhatCannotBeDrawn) {
  const Workspace here;
  ASSERT_EQ(trained(here, "{name: linear}").code, 0);
  const auto error = [&](const Arguments& arguments) {
    const auto outcome = here.run(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_FALSE(here.has("maps.svg"));
    return outcome.err;
  };
  const auto none = error({"maps", "run", "--out", "maps.svg"});
  EXPECT_TRUE(
      none.starts_with("longbow: run: linear forms no attention maps; mechanisms that do: "))
      << none;
  for (const auto* name : {"softmax", "linformer", "nystromformer", "rela"})
    EXPECT_NE(none.find(name), std::string::npos) << none;
  EXPECT_EQ(count(none, "linear"), 1u) << none;
  EXPECT_EQ(error({"maps", "run", "--out", "maps.svg", "--sample", "99"}),
            "longbow: --sample: there is no sample 99; the split has 24\n");
}

}  // namespace
}  // namespace longbow::cli
