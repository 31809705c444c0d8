#include "longbow/predict/map_axes.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace longbow::predict {
namespace {

using Names = std::vector<std::string>;

MapReader translation() {
  const auto model = parse_yaml(
      "{encoder: {layers: 2, attention: {name: softmax}}, "
      "decoder: {layers: 1, attention: {name: softmax}, cross_attention: {name: linformer}}}",
      "config.yaml");
  const Splits splits = {.vocabulary = 4,
                         .second_vocabulary = 9,
                         .begin = 1,
                         .end = 2,
                         .symbols = {"<pad>", "a", "b", "c"}};
  return {model, "translation", splits, {.tokens = {1, 2, 3}, .second = {7, 8, 5, 2}}};
}

TEST(MapAxes, LayersComeInTheOrderThatASampleMeetsThem) {
  const auto check = [](const char* objective, const Names& wanted) {
    const MapReader reader(Node::map(), objective, {}, {});
    auto paths = wanted;
    std::sort(paths.begin(), paths.end());
    std::sort(paths.begin(), paths.end(), [&](const std::string& path, const std::string& other) {
      return reader.comes_before(path, other);
    });
    EXPECT_EQ(paths, wanted) << objective;
  };
  check("translation",
        {"layers.2.mixer", "layers.2.mixer.pack", "layers.10.mixer", "decoder.layers.0.mixer",
         "decoder.layers.0.cross", "decoder.layers.1.mixer"});
  check("replaced_tokens", {"generator.layers.0.mixer", "layers.0.mixer"});
  check("characters", {"first.layers.0.mixer", "deep.layers.0.mixer", "last.layers.0.mixer"});
  check("perceiver", {"cross.0", "cross.1", "blocks.0.layers.0.mixer", "blocks.0.layers.1.mixer",
                      "blocks.1.layers.0.mixer", "blocks.10.layers.0.mixer"});
}

TEST(MapAxes, ALayerIsNamedByItsPartOfTheModel) {
  const auto reader = translation();
  EXPECT_EQ(reader.name("layers.1.mixer"), "encoder.layers.1");
  EXPECT_EQ(reader.name("layers.1.mixer.pack"), "encoder.layers.1.pack");
  EXPECT_EQ(reader.name("decoder.layers.0.cross"), "decoder.layers.0.cross");
}

// The rows of the latents that read tokens are not tokens; the columns are.
TEST(MapAxes, LatentsReadTheTokens) {
  const auto model = parse_yaml("{layers: 2, attention: {name: softmax}}", "config.yaml");
  const Splits splits = {.vocabulary = 4, .symbols = {"<pad>", "a", "b", "c"}};
  const MapReader reader(model, "perceiver", splits, {.tokens = {1, 2, 3}});
  const auto cross = reader.axes("cross.1", 0, 5, 4);
  EXPECT_EQ(reader.name("cross.1"), "cross.1");
  EXPECT_EQ(cross.mechanism, "softmax");
  EXPECT_EQ(cross.rows, 5);
  EXPECT_EQ(cross.columns, 3);
  EXPECT_EQ(cross.row_title, "latents");
  EXPECT_EQ(cross.keys, (Names{"a", "b", "c"}));
  EXPECT_TRUE(cross.queries.empty());
  const auto latents = reader.axes("blocks.1.layers.1.mixer", 0, 5, 5);
  EXPECT_EQ(latents.row_title, "latents");
  EXPECT_EQ(latents.column_title, "latents");
  EXPECT_TRUE(latents.keys.empty());
}

// Sequences are padded to four: what is real is shown, with its own words.
TEST(MapAxes, TokensAreThoseOfTheSequenceThatIsReadOrWritten) {
  const auto reader = translation();
  const auto encoder = reader.axes("layers.0.mixer", 0, 4, 4);
  EXPECT_EQ(encoder.mechanism, "softmax");
  EXPECT_EQ(encoder.rows, 3);
  EXPECT_EQ(encoder.columns, 3);
  EXPECT_EQ(encoder.queries, (Names{"a", "b", "c"}));
  EXPECT_EQ(encoder.keys, encoder.queries);
  EXPECT_EQ(encoder.row_title, "queries");
  EXPECT_EQ(encoder.column_title, "keys");
  const auto decoder = reader.axes("decoder.layers.0.mixer", 0, 4, 4);
  EXPECT_EQ(decoder.rows, 4);
  EXPECT_EQ(decoder.queries, (Names{"<begin>", "7", "8", "5"}));
  EXPECT_EQ(decoder.keys, decoder.queries);
}

TEST(MapAxes, AClassTokenComesBeforeTheTokensOfEachSequence) {
  const auto model =
      parse_yaml("{layers: 1, attention: {name: softmax}, pooling: class_token}", "config.yaml");
  const Splits splits = {.vocabulary = 4, .symbols = {"<pad>", "a", "b", "c"}};
  const MapReader reader(model, "pairs", splits, {.tokens = {1, 2}, .second = {3}});
  const auto first = reader.axes("layers.0.mixer", 0, 4, 4);
  EXPECT_EQ(first.rows, 3);
  EXPECT_EQ(first.columns, 3);
  EXPECT_EQ(first.queries, (Names{"<class>", "a", "b"}));
  EXPECT_EQ(first.keys, first.queries);
  EXPECT_EQ(reader.axes("layers.0.mixer", 1, 4, 4).keys, (Names{"<class>", "c"}));
}

TEST(MapAxes, SlotsHaveNoWords) {
  const auto cross = translation().axes("decoder.layers.0.cross", 0, 4, 64);
  EXPECT_EQ(cross.mechanism, "linformer");
  EXPECT_EQ(cross.rows, 4);
  EXPECT_EQ(cross.columns, 64);
  EXPECT_EQ(cross.queries.size(), 4u);
  EXPECT_TRUE(cross.keys.empty());
  EXPECT_EQ(cross.row_title, "queries");
  EXPECT_EQ(cross.column_title, "slots");
  const auto pack = translation().axes("layers.0.mixer.pack", 0, 64, 4);
  EXPECT_EQ(pack.row_title, "slots");
  EXPECT_EQ(pack.column_title, "keys");
}

TEST(MapAxes, RowsCanBeCutOff) {
  auto axes = translation().axes("layers.0.mixer", 0, 4, 4);
  axes.keep_rows(2);
  EXPECT_EQ(axes.rows, 2);
  EXPECT_EQ(axes.queries, (Names{"a", "b"}));
  axes.keep_rows(9);
  EXPECT_EQ(axes.rows, 2);
}

TEST(MapAxes, MechanismsThatShowWhatTheyWeighAreFoundByTrying) {
  const auto names = mechanisms_with_maps();
  const auto has = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const auto* name : {"softmax", "linformer", "rela", "nystromformer"})
    EXPECT_TRUE(has(name)) << name;
  for (const auto* name : {"linear", "fnet", "none"}) EXPECT_FALSE(has(name)) << name;
}

}  // namespace
}  // namespace longbow::predict
