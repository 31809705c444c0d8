#include "longbow/models/encoder_config.h"

#include "tests/support/tensor.h"

namespace longbow {
namespace {

Node yaml(const std::string& text) {
  return parse_yaml(text, "model.yaml");
}

std::string checked(const std::string& attention, bool causal = false) {
  EncoderConfig config = {.causal = causal, .attention = yaml(attention)};
  return error_of([&] { check_attention(config); });
}

TEST(CheckAttention, NamesFileAndLineOfWhatIsWrong) {
  EXPECT_EQ(checked("name: liner"),
            "model.yaml:1: unknown mechanism 'liner'; did you mean 'linear'?");
  EXPECT_EQ(checked("name: linformer\nrnak: 8"),
            "model.yaml:2: unknown key 'rnak'; did you mean 'rank'?");
  EXPECT_TRUE(checked("name: linformer\nrank: 0").starts_with("model.yaml:2: "));
  EXPECT_EQ(checked("rank: 8"),
            "model.yaml:1: attention has no name; write {name: softmax}, or another mechanism");
  EXPECT_EQ(checked("name: nystromformer", true),
            "model.yaml:1: nystromformer is not causal; mechanisms that are: " +
                mechanisms_that([](const Promises& p) { return p.future != Future::refused; }));
  EXPECT_EQ(checked("- {name: softmax, layers: 0}\n- {name: fnet, layers: 1}", true),
            "model.yaml:2: fnet is not causal; mechanisms that are: " +
                mechanisms_that([](const Promises& p) { return p.future != Future::refused; }));
  EXPECT_EQ(checked("name: linear", true), "");
}

std::string checked_whole(const std::string& model) {
  return error_of([&] {
    const auto tree = yaml(model);
    check_encoder(read<EncoderConfig>(tree, "model"), tree);
  });
}

TEST(CheckEncoder, RotaryPositionsNeedQueriesAndKeys) {
  EXPECT_EQ(checked_whole("positions: rotary"), "");
  EXPECT_EQ(checked_whole("positions: rotary\nattention: linformer"), "");
  const auto others = mechanisms_that([](const Promises& p) { return p.rotary; });
  EXPECT_NE(others.find("softmax"), std::string::npos);
  EXPECT_EQ(others.find("fnet"), std::string::npos);
  EXPECT_EQ(
      checked_whole("positions: rotary\nlayers: 2\nattention: [softmax, fnet]"),
      "model.yaml:3: fnet has no queries and keys to rotate; mechanisms that have: " + others);
  EXPECT_EQ(
      checked_whole("positions: rotary\nattention: none"),
      "model.yaml:2: none has no queries and keys to rotate; mechanisms that have: " + others);
  EXPECT_EQ(checked_whole("positions: rotary\nrotary: {share: 0}"),
            "model.yaml:2: model.rotary.share is 0, out of range; it may be > 0, <= 1");
}

TEST(CheckEncoder, AxialTablesCoverTheLongestSequence) {
  EXPECT_EQ(checked_whole("positions: axial\nmax_length: 12"), "");
  EXPECT_EQ(checked_whole("positions: axial\nmax_length: 12\naxial: {rows: 3, columns: 3}"),
            "model.yaml:3: 3 x 3 axial positions are fewer than max_length 12; raise axial.rows or "
            "axial.columns");
  EXPECT_EQ(
      checked_whole("positions: axial\nwidth: 8\naxial: {join: concatenate, row_width: 8}"),
      "model.yaml:3: axial.row_width 8 leaves no channels for the columns; the embeddings are "
      "8 wide");
}

}  // namespace
}  // namespace longbow
