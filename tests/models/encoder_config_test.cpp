#include "longbow/models/encoder/encoder_config.h"

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
  EXPECT_EQ(checked_whole("positions: rotary\nrotary: {fraction: 0}"),
            "model.yaml:2: model.rotary.fraction is 0, out of range; it may be > 0, <= 1");
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

TEST(CheckEncoder, OptionsFitTheModelAndTheirLayer) {
  EXPECT_EQ(checked_whole("heads: 4\nattention:\n  name: softmax\n  head_mask: [1, 0]"),
            "model.yaml:4: softmax.head_mask has 2 entries for 4 heads; give one for each head, or "
            "leave it out");
  EXPECT_EQ(checked_whole("layers: 2\nattention:\n  name: gmlp\n  per_layer:\n    width:\n"
                          "      - 8\n      - 9"),
            "model.yaml:7: gmlp.width is 9, but it is halved; take an even number");
  EXPECT_EQ(checked_whole("attention:\n  - softmax\n  - {name: h1d, block: 6, coverage: siblings}"),
            "model.yaml:3: h1d.block is 6, but coverage: siblings needs a power of two; take 2, 4, "
            "8 or more");
}

TEST(CheckEncoder, LengthsAreCheckedWhenTheyAreKnown) {
  EXPECT_EQ(checked_whole("max_length: 32\nattention: linformer"),
            "model.yaml:2: linformer.rank is 64, but max_length is 32; lower rank");
  EXPECT_EQ(checked_whole("max_length: 64\nattention: linformer"), "");
  EXPECT_EQ(checked_whole("attention: linformer"), "");
  // Of each layer: 10, 7 and 4 slots.
  const std::string steps = "layers: 3\nattention: {name: linformer, method: convolution, rank: ";
  EXPECT_EQ(checked_whole("max_length: 40\n" + steps + "10, rank_step: 5}"), "");
  EXPECT_EQ(checked_whole("max_length: 40\n" + steps + "10, rank_step: 3}"),
            "model.yaml:3: linformer.rank is 7, which does not divide max_length 40, as method: "
            "convolution needs; take a divisor of max_length");
}

TEST(CheckEncoder, BlocksAreThoseThatTheirMechanismsWant) {
  EXPECT_EQ(checked_whole("attention: none\nblock:\n  residual: reversible"),
            "model.yaml:3: model.block.residual is reversible, which needs a mixer and a "
            "feed-forward layer; take another residual");
  EXPECT_EQ(checked_whole("attention: gmlp\nblock:\n  residual: reversible"),
            "model.yaml:3: model.block.residual is reversible, which needs a mixer and a "
            "feed-forward layer; take another residual");
  EXPECT_EQ(checked_whole("width: 6\nblock:\n  feed_forward_kind: sparse\n  sparse: {group: 5}"),
            "model.yaml:4: model.block.sparse.group is 5, but 24 units do not divide into such "
            "groups; take a divisor of the width of the feed-forward layer");
  EXPECT_EQ(checked_whole("attention: scaling\nblock:\n  feed_forward_chunk: 4"),
            "model.yaml:3: model.block.feed_forward_chunk is 4, but a sparse layer is not fed in "
            "chunks; leave it out");
}

}  // namespace
}  // namespace longbow
