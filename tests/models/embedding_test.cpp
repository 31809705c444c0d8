#include "longbow/models/encoder/embedding.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "longbow/nn/layers/positions.h"
#include "longbow/tensors/safetensors.h"
#include "tests/support/parity.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kVocabulary = 11, kLength = 12, kWidth = 8;
const Tolerance kClose = {1e-6, 1e-6};

EncoderConfig plain(Positions positions = Positions::none) {
  EncoderConfig config = {.width = kWidth, .max_length = kLength};
  config.positions = positions;
  return config;
}

Embedding embedding(const EncoderConfig& config, const Tensor& words = {}) {
  return Embedding({.init = "xavier", .seed = 1}, config, kVocabulary, words);
}

Tensor tokens() {
  return at::tensor({1, 2, 3, 0, 4, 10, 5, 6, 7, 1}, at::kLong).view({2, 5});
}

Tensor words_of(const Embedding& made) {
  return at::embedding(made.named_parameters()["words"], tokens());
}

TEST(Embedding, AddsTheRowOfEachPosition) {
  const Context counted = {.positions = at::tensor({3, 4, 5, 6, 7, 0, 1, 2, 3, 11}).view({2, 5})};
  for (const auto positions : {Positions::learned, Positions::sinusoidal}) {
    const auto made = embedding(plain(positions));
    const auto table = positions == Positions::learned ? made.named_parameters()["positions"]
                                                       : sinusoids(kLength, kWidth);
    EXPECT_NEAR_TENSOR(made(tokens(), {}), words_of(made) + table.narrow(0, 0, 5), kClose);
    EXPECT_NEAR_TENSOR(made(tokens(), counted),
                       words_of(made) + at::embedding(table, counted.positions), kClose);
  }
  for (const auto positions : {Positions::none, Positions::rotary}) {
    const auto made = embedding(plain(positions));
    EXPECT_NEAR_TENSOR(made(tokens(), counted), words_of(made), kExact);
    EXPECT_EQ(made.parameters().size(), 1u);
  }
}

// However many of its tokens are real, if these come first or the mask says where they are.
TEST(Embedding, RealTokensAreCountedFromZero) {
  const auto lengths = at::tensor({3, 5}, at::kLong);
  const auto keep =
      at::tensor({0, 1, 0, 1, 1, 1, 1, 1, 1, 1}, at::kLong).view({2, 5}).to(at::kBool);
  for (const bool scaled : {false, true}) {
    auto config = plain(Positions::learned);
    config.embedding_scale = scaled;
    const auto made = embedding(config);
    const auto table = made.named_parameters()["positions"];
    const auto words = words_of(made) * (scaled ? std::sqrt(8.0) : 1.0);
    const auto first = made(tokens(), {.mask = Mask::from_lengths(lengths, 5)});
    EXPECT_NEAR_TENSOR(first[0].narrow(0, 0, 3), (words[0] + table.narrow(0, 0, 5)).narrow(0, 0, 3),
                       kClose);
    EXPECT_NEAR_TENSOR(first[1], words[1] + table.narrow(0, 0, 5), kClose);
    const auto holes = made(tokens(), {.mask = Mask::from_keep(keep)});
    for (const auto& [token, position] : {std::pair{1, 0}, {3, 1}, {4, 2}})
      EXPECT_NEAR_TENSOR(holes[0][token], words[0][token] + table[position], kClose) << token;
    EXPECT_NEAR_TENSOR(holes[1], first[1], kClose);
  }
}

// Sinusoids stay in float32.
TEST(Embedding, AddsPositionsOfAnotherTypeAsThatOfTheWords) {
  auto made = embedding(plain(Positions::sinusoidal));
  for (auto& words : made.parameters()) words.set_data(words.to(at::kBFloat16));
  const auto y = made(tokens(), {});
  const auto table = sinusoids(kLength, kWidth).narrow(0, 0, 5).to(at::kBFloat16);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_NEAR_TENSOR(y, words_of(made) + table, kExact);
}

TEST(Embedding, PixelsHaveTheRowsOfTheirPositions) {
  auto config = plain(Positions::learned);
  config.input = Input::pixels;
  config.pixels = {.mean = 0.5, .deviation = 0.25};
  const Embedding made({.init = "xavier", .seed = 1}, config, 257);
  const auto p = made.named_parameters();
  const auto value = ((tokens() - 1).clamp_min(0) / 255.0 - 0.5) / 0.25;
  const auto x =
      value.unsqueeze(-1) * p["pixels.value.weight"].squeeze(-1) + p["pixels.value.bias"];
  EXPECT_NEAR_TENSOR(made(tokens(), {}), x + p["positions"].narrow(0, 0, 5), kClose);
  made(tokens(), {}).sum().backward();
  EXPECT_NEAR_TENSOR(p["positions"].grad().narrow(0, 0, 5), at::full({5, kWidth}, 2.0), kClose);
}

// As the transformers library computes them for its Reformer.
TEST(Embedding, AxialPositionsAreThoseOfTransformers) {
  const auto theirs =
      load_safetensors(parity_file("hf/reformer-axial.safetensors").string()).tensors;
  const auto &rows = theirs.at("table1"), &columns = theirs.at("table2");
  EncoderConfig config = {.width = rows.size(1) + columns.size(1),
                          .max_length = rows.size(0) * columns.size(0)};
  config.positions = Positions::axial;
  config.axial = {.rows = rows.size(0),
                  .columns = columns.size(0),
                  .row_width = rows.size(1),
                  .join = AxialJoin::concatenate};
  auto made = embedding(config);
  made.to(at::kDouble);
  const at::NoGradGuard no_grad;
  made.named_parameters()["words"].zero_();
  made.named_parameters()["row_positions"].copy_(rows);
  made.named_parameters()["column_positions"].copy_(columns);
  EXPECT_NEAR_TENSOR(made(at::ones({1, config.max_length}, at::kLong), {}), theirs.at("y"), kExact);
}

TEST(Embedding, AxialPositionsAreThoseOfTheRowAndOfTheColumn) {
  auto config = plain(Positions::axial);
  config.axial.columns = 3;
  for (const auto join : {AxialJoin::sum, AxialJoin::concatenate}) {
    config.axial.join = join;
    config.axial.row_width = join == AxialJoin::sum ? 0 : 3;
    const auto made = embedding(config);
    const auto p = made.named_parameters();
    const bool sum = join == AxialJoin::sum;
    ASSERT_EQ(p["row_positions"].sizes(), (at::IntArrayRef{4, sum ? 8 : 3}));
    ASSERT_EQ(p["column_positions"].sizes(), (at::IntArrayRef{3, sum ? 8 : 5}));
    const auto added = made(tokens(), {}) - words_of(made);
    for (int64_t t = 0; t < 5; ++t) {
      const auto row = p["row_positions"][t / 3], column = p["column_positions"][t % 3];
      EXPECT_NEAR_TENSOR(added[1][t], sum ? row + column : at::cat({row, column}), kClose) << t;
    }
  }
}

TEST(Embedding, AxialSidesFollowFromTheLongestSequence) {
  const auto near_square = AxialConfig{}.filled(12, 8);
  EXPECT_EQ(near_square.columns, 4);
  EXPECT_EQ(near_square.rows, 3);
  EXPECT_EQ(near_square.row_width, 4);
  EXPECT_EQ(AxialConfig{.rows = 5}.filled(12, 8).columns, 3);
  EXPECT_EQ(AxialConfig{.columns = 5}.filled(12, 8).rows, 3);
  auto config = plain(Positions::axial);
  config.axial = {.rows = 3, .columns = 3};
  EXPECT_EQ(error_of([&] { embedding(config); }),
            "encoder: 3 x 3 axial positions, but max_length is 12");
}

TEST(Embedding, AddsTheRowOfEachSegment) {
  auto config = plain();
  config.segments = 3;
  const auto made = embedding(config);
  const auto table = made.named_parameters()["segments"];
  ASSERT_EQ(table.sizes(), (at::IntArrayRef{3, kWidth}));
  const Context context = {.segments = at::tensor({0, 0, 1, 1, 2, 2, 2, 2, 2, 1}).view({2, 5})};
  EXPECT_NEAR_TENSOR(made(tokens(), context),
                     words_of(made) + at::embedding(table, context.segments), kClose);
  EXPECT_NEAR_TENSOR(made(tokens(), {}), words_of(made) + table[0], kClose);
}

TEST(Embedding, NormalisesScalesAndProjectsInThisOrder) {
  auto config = plain(Positions::learned);
  config.embedding_width = 4;
  config.embedding_norm = config.embedding_scale = true;
  config.block.norm_epsilon = 0.5;
  const auto made = embedding(config);
  const auto p = made.named_parameters();
  ASSERT_EQ(p["words"].sizes(), (at::IntArrayRef{kVocabulary, 4}));
  ASSERT_EQ(p["projection.weight"].sizes(), (at::IntArrayRef{kWidth, 4}));
  const auto sum = 2 * words_of(made) + p["positions"].narrow(0, 0, 5);
  EXPECT_NEAR_TENSOR(made(tokens(), {}),
                     at::linear(at::layer_norm(sum, {4}, {}, {}, 0.5), p["projection.weight"],
                                p["projection.bias"]),
                     kClose);
}

TEST(Embedding, APaddingOfZeroStaysZero) {
  auto config = plain();
  for (const bool zero : {false, true}) {
    config.zero_padding = zero;
    const auto made = embedding(config);
    made(tokens(), {}).sum().backward();
    const auto words = made.words();
    EXPECT_EQ(words[0].abs().sum().item<double>() == 0, zero);
    EXPECT_EQ(words.grad()[0].abs().sum().item<double>() == 0, zero);
    EXPECT_NEAR_TENSOR(words.grad()[1], at::full({kWidth}, 2.0), kClose);
  }
}

TEST(Embedding, DropoutIsDrawnFromTheContext) {
  auto config = plain();
  config.embedding_dropout = 0.5;
  auto made = embedding(config);
  const Context context = {.random = Random::from_seed(1)};
  const auto y = made(tokens(), context), x = words_of(made);
  const auto kept = (y != 0).to(at::kFloat);
  EXPECT_NEAR_TENSOR(y, x * kept * 2, kClose);
  EXPECT_GT(kept.mean().item<double>(), 0.2);
  EXPECT_LT(kept.mean().item<double>(), 0.8);
  made.eval();
  EXPECT_NEAR_TENSOR(made(tokens(), {}), x, kExact);
}

TEST(Embedding, ReadsTheWordsOfAnotherModule) {
  const auto words = random_normal({kVocabulary, 6}, 4).to(at::kFloat);
  const auto made = embedding(plain(Positions::learned), words);
  const auto p = made.named_parameters();
  EXPECT_FALSE(p.contains("words"));
  EXPECT_TRUE(made.words().is_same(words));
  EXPECT_NEAR_TENSOR(made(tokens(), {}),
                     at::linear(at::embedding(words, tokens()) + p["positions"].narrow(0, 0, 5),
                                p["projection.weight"], p["projection.bias"]),
                     kClose);
}

}  // namespace
}  // namespace longbow
