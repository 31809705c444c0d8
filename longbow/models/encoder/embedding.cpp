#include "longbow/models/encoder/embedding.h"

#include <ATen/ATen.h>

#include <cmath>

#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/layer_norm.h"
#include "longbow/nn/layers/positions.h"
#include "longbow/ops/embedding.h"

namespace longbow {
namespace {

constexpr double kDeviation = 0.02;

Tensor initial_words(const Site& site, const EncoderConfig& config, int64_t vocabulary,
                     int64_t width) {
  auto words = initial_normal(site, "words", {vocabulary, width},
                              config.init == Init::lra ? 1.0 : kDeviation);
  if (config.zero_padding) words[0].zero_();
  return words;
}

}  // namespace

Embedding::Embedding(const Site& site, const EncoderConfig& config, int64_t vocabulary,
                     const Tensor& words)
    : path_(site.at("embedding").path),
      dropout_(config.embedding_dropout),
      padding_(config.zero_padding ? 0 : -1),
      words_(words) {
  if (config.input == Input::pixels) {
    TORCH_CHECK(!words.defined(), "embedding: pixels are not words of another module");
    pixels_ = register_module(
        "pixels", std::make_shared<Pixels>(site.at("embedding.pixels"), config.pixels, vocabulary,
                                           config.words()));
  } else if (!words.defined()) {
    words_ = parameter("words", initial_words(site, config, vocabulary, config.words()));
  }
  const int64_t width = words.defined() ? words.size(1) : config.words();
  scale_ = config.embedding_scale ? std::sqrt(static_cast<double>(width)) : 1;
  add_positions(site, config, width);
  if (config.segments > 0)
    segments_ = parameter("segments",
                          initial_normal(site, "segments", {config.segments, width}, kDeviation));
  if (config.embedding_norm)
    norm_ = register_module("norm", std::make_shared<LayerNorm>(width, config.block.norm_epsilon));
  if (width != config.width)
    projection_ = register_module(
        "projection",
        std::make_shared<Linear>(site.at("embedding.projection"), width, config.width));
}

void Embedding::add_positions(const Site& site, const EncoderConfig& config, int64_t width) {
  const int64_t length = config.max_length;
  const auto table = [&](const std::string& name, int64_t rows, int64_t channels) {
    return parameter(name, initial_normal(site, name, {rows, channels}, kDeviation));
  };
  if (config.positions == Positions::learned) positions_ = table("positions", length, width);
  if (config.positions == Positions::sinusoidal)
    positions_ = register_buffer("positions", sinusoids(length, width));
  if (config.positions != Positions::axial) return;
  const auto axial = config.axial.filled(length, width);
  TORCH_CHECK(axial.rows * axial.columns >= length, "encoder: ", axial.rows, " x ", axial.columns,
              " axial positions, but max_length is ", length);
  columns_ = axial.columns;
  side_by_side_ = axial.join == AxialJoin::concatenate;
  rows_of_ = table("row_positions", axial.rows, side_by_side_ ? axial.row_width : width);
  columns_of_ =
      table("column_positions", axial.columns, side_by_side_ ? width - axial.row_width : width);
}

Tensor Embedding::positions(const Tensor& tokens, const Context& context) const {
  const auto places = positions_of(tokens, context);
  if (positions_.defined()) return at::embedding(positions_, places);
  const auto row = at::embedding(rows_of_, places.div(columns_, "floor")),
             column = at::embedding(columns_of_, places.remainder(columns_));
  return side_by_side_ ? at::cat({row, column}, -1) : row + column;
}

// Where padding comes last, real tokens have the positions 0, 1, 2, ... in every sequence; padded
// tokens may have any.
bool Embedding::counts_from_zero(const Context& context) const {
  return positions_.defined() && !context.positions.defined() && !context.mask.ragged;
}

Tensor Embedding::placed(const Tensor& tokens, const Context& context) const {
  const bool from_zero = counts_from_zero(context);
  const auto first_rows = [&](at::ScalarType type) {
    return positions_.narrow(0, 0, tokens.size(1)).to(type);
  };
  if (from_zero && !pixels_ && scale_ == 1) {
    const auto type = words_.scalar_type();
    return embed(words_, tokens, padding_,
                 positions_.scalar_type() == type ? positions_ : first_rows(type));
  }
  auto x = pixels_ ? (*pixels_)(tokens) : embed(words_, tokens, padding_);
  if (scale_ != 1) x = x * scale_;
  if (from_zero) return x + first_rows(x.scalar_type());
  if (!positions_.defined() && !rows_of_.defined()) return x;
  return x + positions(tokens, context).to(x.scalar_type());
}

Tensor Embedding::operator()(const Tensor& tokens, const Context& context) const {
  auto x = placed(tokens, context);
  if (segments_.defined())
    x = x +
        (context.segments.defined() ? at::embedding(segments_, context.segments) : segments_[0]);
  if (norm_) x = (*norm_)(x);
  x = dropout(x, dropout_, is_training(), context, path_ + ".dropout");
  return projection_ ? (*projection_)(x) : x;
}

}  // namespace longbow
