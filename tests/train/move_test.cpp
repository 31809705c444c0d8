#include "longbow/train/run/move.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor counted(int64_t rows, double first = 1) {
  return at::arange(first, first + 2.0 * static_cast<double>(rows)).view({rows, 2});
}

TEST(Move, TakesTheEncoderByNameAndListsTheRest) {
  const Tensors from = {{"encoder.embedding.words", counted(4)},
                        {"encoder.norm.weight", at::ones({2})},
                        {"encoder.norm.count", at::ones({2}, at::kLong)},
                        {"encoder.layers.0.mixer.e", at::ones({3, 5})},
                        {"head.bias", at::ones({3})},
                        {"head.norm.bias", at::ones({3})}};
  Tensors to = {{"encoder.embedding.words", at::zeros({3, 2})},
                {"encoder.norm.weight", at::zeros({2})},
                {"encoder.norm.count", at::zeros({2})},
                {"encoder.layers.0.mixer.e", at::zeros({3, 6})},
                {"head.bias", at::zeros({3})},
                {"output.weight", at::zeros({3, 2})}};
  const auto result = move_weights(from, to, {.source = "the pretraining"});
  EXPECT_EQ(result.text(),
            "2 tensors of the pretraining moved; cut to the rows wanted: encoder.embedding.words; "
            "not used: encoder.layers.0.mixer.e, encoder.norm.count, head.*; initialised randomly: "
            "encoder.layers.0.mixer.e, encoder.norm.count, head.*, output.*");
  EXPECT_NEAR_TENSOR(to.at("encoder.embedding.words"), counted(3), kExact);
  EXPECT_NEAR_TENSOR(to.at("encoder.norm.weight"), at::ones({2}), kExact);
  EXPECT_NEAR_TENSOR(to.at("encoder.layers.0.mixer.e"), at::zeros({3, 6}), kExact);
  EXPECT_NEAR_TENSOR(to.at("head.bias"), at::zeros({3}), kExact);
}

TEST(Move, TakesOtherPartsOnlyWhenAsked) {
  const Tensors from = {{"encoder.norm.weight", at::ones({2})}, {"head.bias", at::ones({3})}};
  Tensors to = {{"encoder.norm.weight", at::zeros({2})}, {"head.bias", at::zeros({3})}};
  const auto result = move_weights(from, to, {.source = "a run", .everything = true});
  EXPECT_EQ(result.text(), "2 tensors of a run moved");
  EXPECT_NEAR_TENSOR(to.at("head.bias"), at::ones({3}), kExact);
}

TEST(Move, GivesTablesTheRowsThatAreWanted) {
  const Tensors from = {{"encoder.embedding.positions", counted(2)},
                        {"encoder.embedding.segments", counted(1)}};
  const Tensors fresh = {{"encoder.embedding.positions", at::full({5, 2}, -1.0)},
                         {"encoder.embedding.segments", at::full({2, 2}, -2.0)}};
  auto to = fresh;
  EXPECT_EQ(move_weights(from, to, {.source = "a run"}).text(),
            "2 tensors of a run moved; with more rows, initialised randomly: "
            "encoder.embedding.positions, encoder.embedding.segments");
  EXPECT_NEAR_TENSOR(to.at("encoder.embedding.positions"),
                     at::cat({counted(2), at::full({3, 2}, -1.0)}), kExact);
  EXPECT_NEAR_TENSOR(to.at("encoder.embedding.segments"),
                     at::cat({counted(1), at::full({1, 2}, -2.0)}), kExact);
  EXPECT_NEAR_TENSOR(fresh.at("encoder.embedding.positions"), at::full({5, 2}, -1.0), kExact)
      << "what the model reads changes only when it is loaded";

  to = fresh;
  EXPECT_EQ(move_weights(from, to, {.source = "a run", .tile = true}).text(),
            "2 tensors of a run moved; with more rows, initialised randomly: "
            "encoder.embedding.segments; repeated for more rows: encoder.embedding.positions");
  EXPECT_NEAR_TENSOR(to.at("encoder.embedding.positions"),
                     at::cat({counted(2), counted(2), counted(1)}), kExact);
}

TEST(Move, RefusesWeightsOfWhichNothingFitsTheEncoder) {
  const std::string error =
      "no tensor of a run fits the encoder; both models must have an encoder of the same kind and "
      "width";
  const Moving all = {.source = "a run", .everything = true};
  const Tensors from = {{"encoder.norm.weight", at::ones({2})}, {"head.bias", at::ones({3})}};
  Tensors wider = {{"encoder.norm.weight", at::zeros({4})}, {"head.bias", at::zeros({3})}};
  EXPECT_EQ(error_of([&] { move_weights(from, wider, all); }), error) << "a head alone is nothing";
  Tensors other = {{"output.weight", at::zeros({3, 2})}};
  EXPECT_EQ(error_of([&] { move_weights(from, other, all); }), error);
  Tensors without = {{"head.bias", at::zeros({3})}};
  EXPECT_EQ(move_weights(from, without, all).moved.size(), 1u) << "a model without an encoder";
}

}  // namespace
}  // namespace longbow
