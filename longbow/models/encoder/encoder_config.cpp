#include "longbow/models/encoder/encoder_config.h"

#include <algorithm>
#include <cmath>

namespace longbow {

AxialConfig AxialConfig::filled(int64_t length, int64_t width) const {
  const auto covering = [&](int64_t side) { return (length + side - 1) / side; };
  auto all = *this;
  if (all.columns == 0)
    all.columns = rows > 0
                      ? covering(rows)
                      : static_cast<int64_t>(std::ceil(std::sqrt(std::max(length, int64_t{1}))));
  if (all.rows == 0) all.rows = covering(all.columns);
  if (all.row_width == 0) all.row_width = width / 2;
  return all;
}

Site site_of(const EncoderConfig& config, uint64_t seed) {
  return {.shape = {.width = config.width,
                    .heads = config.heads,
                    .head_width = config.head_width,
                    .max_length = config.max_length > 0 ? config.max_length + config.front : 0},
          .init = name_of(config.init),
          .bias = config.bias,
          .layers = config.layers,
          .seed = seed};
}

void require_tokens(const EncoderConfig& config, const Node& tree, const std::string& who) {
  if (config.input == Input::pixels)
    throw UserError(tree.place_of("input"), who + " reads tokens, but model.input is pixels",
                    "leave model.input out");
}

void check_attention(const EncoderConfig& config) {
  for (const auto& options : attention_per_layer(config.attention, config.layers)) {
    if (config.positions == Positions::rotary) check_rotary(options);
    const auto& mechanism = mechanism_of(options);
    const auto promises = mechanism.promises(options_of(options));
    if (config.causal && promises.future == Future::refused)
      throw UserError(options.place, mechanism.name + " is not causal",
                      "mechanisms that are: " + mechanisms_that([](const Promises& p) {
                        return p.future != Future::refused;
                      }));
    if (!config.causal && !promises.bidirectional)
      throw UserError(options.place, mechanism.name + " is causal only", "set causal: true");
  }
  check_layer_options(config.attention, site_of(config, 0));
}

namespace {

// Not an OptionError: it is not the mechanism's options that are wrong.
void check_blocks(const EncoderConfig& config, const Node& tree, bool crosses) {
  const auto* found = tree.find("block");
  try {
    for (const auto& options : attention_per_layer(config.attention, config.layers)) {
      const auto block = block_of(options, config.block);
      check_options(found ? *found : tree, "model.block",
                    [&] { check_block(block, config.width, block.mixes || crosses); });
    }
  } catch (const OptionError& error) {
    throw UserError(error);
  }
}

void check_axial(const EncoderConfig& config, const Node& tree) {
  const auto place = tree.place_of("axial");
  const int64_t width = config.words();
  const auto axial = config.axial.filled(config.max_length, width);
  if (axial.rows * axial.columns < config.max_length)
    throw UserError(place,
                    std::to_string(axial.rows) + " x " + std::to_string(axial.columns) +
                        " axial positions are fewer than max_length " +
                        std::to_string(config.max_length),
                    "raise axial.rows or axial.columns");
  if (axial.join == AxialJoin::concatenate && axial.row_width >= width)
    throw UserError(place,
                    "axial.row_width " + std::to_string(axial.row_width) +
                        " leaves no channels for the columns",
                    "the embeddings are " + std::to_string(width) + " wide");
}

}  // namespace

void check_encoder(const EncoderConfig& config, const Node& tree, bool crosses) {
  if (config.head_width == 0 && config.width % config.heads != 0) {
    throw UserError(tree.place_of("heads"),
                    "model.width " + std::to_string(config.width) +
                        " is not a multiple of model.heads " + std::to_string(config.heads),
                    "change one of them, or set model.head_width");
  }
  if (config.positions == Positions::axial) check_axial(config, tree);
  check_attention(config);
  check_blocks(config, tree, crosses);
  if (config.causal && config.block.convolution.columns > 0)
    throw UserError(
        tree.place_of("block"),
        "model.block.convolution over an image is around a pixel, but the model is causal",
        "leave out convolution.columns");
}

}  // namespace longbow
