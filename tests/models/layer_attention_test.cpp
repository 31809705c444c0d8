#include "longbow/models/encoder/layer_attention.h"

#include "tests/support/tensor.h"

namespace longbow {
namespace {

Node yaml(const std::string& text) {
  return parse_yaml(text, "model.yaml");
}

std::string per_layer(const std::string& text, int64_t layers = 3) {
  return error_of([&] { attention_per_layer(yaml(text), layers); });
}

TEST(AttentionPerLayer, OneMechanismServesAllLayers) {
  const auto layers = attention_per_layer(yaml("{name: local, window: 8}"), 3);
  ASSERT_EQ(layers.size(), 3u);
  for (const auto& layer : layers) EXPECT_EQ(layer, yaml("{name: local, window: 8}"));
  EXPECT_EQ(attention_per_layer(yaml("softmax"), 2).at(1), yaml("softmax"));
}

TEST(AttentionPerLayer, ListsGiveEveryLayerItsOwnValue) {
  const auto layers =
      attention_per_layer(yaml("{name: local, window: 8, per_layer: {window: [2, 4, 6]}}"), 3);
  EXPECT_EQ(layers[0], yaml("{name: local, window: 2}"));
  EXPECT_EQ(layers[2], yaml("{name: local, window: 6}"));
}

TEST(AttentionPerLayer, RangesGiveLayersTheirMechanism) {
  const auto layers =
      attention_per_layer(yaml("[{name: softmax, layers: 2}, {name: fnet, layers: 0-1}]"), 3);
  EXPECT_EQ(layers[0], yaml("{name: fnet}"));
  EXPECT_EQ(layers[1], yaml("{name: fnet}"));
  EXPECT_EQ(layers[2], yaml("{name: softmax}"));
}

TEST(AttentionPerLayer, AListMayNameOneForEachLayer) {
  const auto list = yaml("[local, {name: local, window: 8}, linformer]");
  const auto layers = attention_per_layer(list, 3);
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0], yaml("local"));
  EXPECT_EQ(layers[1], yaml("{name: local, window: 8}"));
  EXPECT_EQ(layers[2], yaml("linformer"));
  const auto resolved = resolved_attention(list);
  ASSERT_EQ(resolved.items.size(), 3u);
  EXPECT_EQ(*resolved.items[0].find("name"), Node::string("local"));
  EXPECT_EQ(resolved.items[1].find("window")->text, "8");
  EXPECT_TRUE(resolved.items[2].find("rank"));
  EXPECT_FALSE(resolved.items[2].find("layers"));
}

TEST(AttentionPerLayer, EveryMistakeSaysWhereAndWhatToWrite) {
  EXPECT_EQ(per_layer("{name: local, per_layer: {window: [2, 4]}}"),
            "model.yaml:1: per_layer.window is not a list of 3 values; give one for each layer");
  EXPECT_EQ(per_layer("{name: local, per_layer: {window: 4}}"),
            "model.yaml:1: per_layer.window is not a list of 3 values; give one for each layer");
  EXPECT_EQ(per_layer("{name: local, per_layer: 4}"),
            "model.yaml:1: per_layer is not a map; write per_layer: {window: [32, 64]}");
  EXPECT_EQ(per_layer("- {name: fnet, layers: 0-1}\n- softmax"),
            "model.yaml:2: a mechanism in a list needs its layers; write layers: 0-3");
  EXPECT_EQ(per_layer("- fnet\n- softmax"),
            "model.yaml:1: the list names 2 mechanisms, but the model has 3 layers; give one for "
            "each layer, or say which with layers: 0-3");
  EXPECT_EQ(per_layer("- {name: fnet, layers: 1-3}"),
            "model.yaml:1: layer 3 does not exist; the model has layers 0-2");
  EXPECT_EQ(per_layer("- {name: fnet, layers: 0-2}\n- {name: softmax, layers: 1}"),
            "model.yaml:2: layer 1 is given twice; each layer has one mechanism");
  EXPECT_EQ(per_layer("- {name: fnet, layers: 0-1}"),
            "model.yaml:1: layer 2 has no mechanism; the model has layers 0-2");
  EXPECT_EQ(per_layer("- {name: fnet, layers: 2-0}"),
            "model.yaml:1: layers 2-0 run backwards; write the smaller one first");
  EXPECT_TRUE(per_layer("- {name: fnet, layers: a-b}")
                  .starts_with("model.yaml:1: layers is 'a', not an integer"));
}

std::string checked(const std::string& attention, int64_t max_length = 64) {
  return error_of([&] {
    check_layer_options(yaml(attention),
                        {.shape = {.width = 16, .max_length = max_length}, .layers = 2});
  });
}
std::string differs(const std::string& place, const std::string& option, const std::string& value,
                    const std::string& other) {
  return "model.yaml:" + place + ": " + option + " is " + value + ", but " + other +
         " in layer 0, and both layers use the same tensors; write the same value for both";
}

TEST(LayerOptions, LayersThatUseTheSameTensorsAgreeOnWhatDependsOnThem) {
  EXPECT_EQ(checked("{name: luna,\n per_layer: {length: [8, 16]}}"),
            differs("2", "luna.length", "16", "8"));
  EXPECT_EQ(checked("{name: etc,\n per_layer: {globals: [4, 3]}}"),
            differs("2", "etc.globals", "3", "4"));
  EXPECT_EQ(checked("{name: realformer,\n per_layer: {form: [concatenated, scores]}}"),
            differs("2", "realformer.form", "scores", "concatenated"));
  const std::string layerwise = "{name: linformer, sharing: layerwise, ";
  EXPECT_EQ(checked(layerwise + "\n per_layer: {rank: [8, 16]}}"),
            differs("2", "linformer.rank", "16", "8"));
  EXPECT_EQ(checked("- " + layerwise + "rank: 8}\n- " + layerwise + "rank: 8, max_length: 128}"),
            differs("2", "linformer.max_length", "128", "64"));
  EXPECT_EQ(
      checked("- " + layerwise + "rank: 8}\n- " + layerwise + "rank: 8, method: fixed_random}"),
      differs("2", "linformer.method", "fixed_random", "learnable"));
}

TEST(LayerOptions, LayersThatShareNothingAndLengthsThatAreNotKnownMayDiffer) {
  const std::string layerwise = "{name: linformer, sharing: layerwise, rank: 8";
  EXPECT_EQ(checked("{name: linformer, per_layer: {rank: [8, 16]}}"), "");
  EXPECT_EQ(checked("- " + layerwise + "}\n- {name: linformer, rank: 16}"), "");
  EXPECT_EQ(checked("- " + layerwise + "}\n- " + layerwise + ", max_length: 64}"), "");
  EXPECT_EQ(checked("- " + layerwise + "}\n- " + layerwise + ", max_length: 128}", 0), "");
  EXPECT_EQ(checked("{name: etc, per_layer: {globals: [4, 0]}}"), "");
  EXPECT_EQ(checked("{name: luna, length: 8}"), "");
}

TEST(AttentionPerLayer, SaysWhichLayerCannotWriteTokenByToken) {
  const auto check = [](const std::string& text) {
    return error_of([&] { check_decodes(parse_yaml(text, "m.yaml"), 2); });
  };
  EXPECT_EQ(check("[linear,\n local]"), "");
  const auto message = check("[linear,\n fnet]");
  EXPECT_TRUE(message.starts_with("m.yaml:2: fnet does not decode; mechanisms that do: abc, "))
      << message;
  EXPECT_EQ(message.find("fastformer"), std::string::npos);
}

}  // namespace
}  // namespace longbow
