#include "longbow/nn/layers/feed_forward.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6, kUnits = 12, kGroup = 4;

Site site() {
  return {.shape = {.width = kWidth}, .path = "block.feed_forward", .init = "xavier", .seed = 5};
}

std::shared_ptr<FeedForward> build(const FeedForwardConfig& config) {
  auto layer = std::make_shared<FeedForward>(site(), config);
  layer->to(at::kDouble);
  return layer;
}

FeedForwardConfig sparse(const SparseUnits& units = {.group = kGroup}) {
  return {.kind = FeedForwardKind::sparse, .width = kUnits, .sparse = units};
}

Tensor input(int64_t tokens = 7) {
  return random_normal({2, tokens, kWidth}, 3);
}

Tensor logits_of(const FeedForward& layer, const Tensor& x) {
  const auto p = layer.named_parameters();
  return at::linear(x.matmul(p["squeeze.weight"].t()), p["choose.weight"], p["choose.bias"])
      .unflatten(-1, {-1, kGroup});
}

// The dense layer with all units but the chosen ones taken out.
Tensor masked_dense(const FeedForward& layer, const Tensor& x, const Tensor& mask) {
  const auto p = layer.named_parameters();
  const auto units = (x.matmul(p["up.weight"].t()) * mask.flatten(-2)).relu();
  return at::linear(units, p["down.weight"], p["down.bias"]);
}

Tensor best_units(const Tensor& logits) {
  return at::one_hot(logits.argmax(-1), kGroup).to(at::kDouble);
}

TEST(FeedForward, GluGatesEveryUnit) {
  for (const auto activation : {Activation::silu, Activation::gelu}) {
    const auto layer = build({.kind = FeedForwardKind::glu, .width = 9, .activation = activation});
    const auto p = layer->named_parameters();
    const auto x = input();
    Context context;
    const auto gate = at::linear(x, p["gate.weight"], p["gate.bias"]);
    const auto units = (activation == Activation::silu ? gate * gate.sigmoid() : at::gelu(gate)) *
                       at::linear(x, p["up.weight"], p["up.bias"]);
    EXPECT_NEAR_TENSOR((*layer)(x, context), at::linear(units, p["down.weight"], p["down.bias"]),
                       tolerance(at::kDouble));
  }
}

TEST(FeedForward, ChunksGiveTheSameValuesAndGradients) {
  const auto whole = build({.width = 9}), pieces = build({.width = 9, .chunk = 3});
  const auto x = input().requires_grad_();
  Context context;
  (*whole)(x, context).square().sum().backward();
  const auto want = x.grad().clone();
  x.mutable_grad().zero_();
  const auto y = (*pieces)(x, context);
  EXPECT_NEAR_TENSOR(y, (*whole)(x, context), tolerance(at::kDouble));
  y.square().sum().backward();
  EXPECT_NEAR_TENSOR(x.grad(), want, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(pieces->named_parameters()["up.weight"].grad(),
                     whole->named_parameters()["up.weight"].grad(), tolerance(at::kDouble));
}

TEST(FeedForward, SparseEvaluationIsTheDenseLayerWithoutTheOtherUnits) {
  const auto layer = build(sparse());
  layer->eval();
  Context context;
  for (const int64_t tokens : {1, 7}) {  // gathered, and dense
    const auto x = input(tokens);
    EXPECT_NEAR_TENSOR((*layer)(x, context),
                       masked_dense(*layer, x, best_units(logits_of(*layer, x))),
                       tolerance(at::kDouble));
  }
}

TEST(FeedForward, GroupsOfOneAreThePlainReluLayer) {
  const auto layer = build(sparse({.group = 1, .hard = 1}));
  const auto p = layer->named_parameters();
  const auto x = input();
  Context context = {.random = Random::from_seed(1)};
  EXPECT_NEAR_TENSOR(
      (*layer)(x, context),
      at::linear(x.matmul(p["up.weight"].t()).relu(), p["down.weight"], p["down.bias"]),
      tolerance(at::kDouble));
}

TEST(FeedForward, SparseTrainingIsHardOrSoftAsDrawn) {
  const auto x = input();
  Context context = {.random = Random::from_seed(4, 1)};
  const auto soft = build(sparse({.group = kGroup, .hard = 0}));
  EXPECT_NEAR_TENSOR((*soft)(x, context), masked_dense(*soft, x, logits_of(*soft, x).softmax(-1)),
                     tolerance(at::kDouble));

  Choices choices = {.mode = Choices::Mode::record};
  context.choices = &choices;
  const auto hard = build(sparse({.group = kGroup, .temperature = 5, .hard = 1}));
  const auto y = (*hard)(x, context);
  const auto units = choices.kept.at("block.feed_forward.unit").squeeze(-1);
  EXPECT_FALSE(at::equal(units, logits_of(*hard, x).argmax(-1))) << "the noise changed nothing";
  EXPECT_NEAR_TENSOR(y, masked_dense(*hard, x, at::one_hot(units, kGroup).to(at::kDouble)),
                     tolerance(at::kDouble));

  int drawn_hard = 0;
  const auto mixed = build(sparse({.group = kGroup, .temperature = 1e-6, .hard = 0.3}));
  context.choices = nullptr;
  const auto as_hard = masked_dense(*mixed, x, best_units(logits_of(*mixed, x)));
  for (int64_t step = 0; step < 200; ++step) {
    context.random = Random::from_seed(4, step);
    if ((((*mixed)(x, context) - as_hard).abs().max() < 1e-9).item<bool>()) ++drawn_hard;
  }
  EXPECT_GT(drawn_hard, 40);  // 60 expected, deviation 6.5
  EXPECT_LT(drawn_hard, 80);
}

TEST(FeedForward, AHardChoicePassesTheGradientOfTheProbabilities) {
  for (const auto controller : {Controller::trax, Controller::gumbel_softmax}) {
    const auto layer = build(sparse({.group = kGroup, .controller = controller, .hard = 1}));
    Context context = {.random = Random::from_seed(4, 1)};
    (*layer)(input(), context).square().sum().backward();
    EXPECT_GT(layer->named_parameters()["squeeze.weight"].grad().abs().max().item<double>(), 0);
  }
}

TEST(FeedForward, OptionsWeighTheUnitsAndScaleTheStart) {
  const auto weighed = build(sparse({.group = kGroup, .weigh = true}));
  weighed->eval();
  const auto x = input();
  Context context;
  const auto logits = logits_of(*weighed, x);
  EXPECT_NEAR_TENSOR((*weighed)(x, context),
                     masked_dense(*weighed, x, best_units(logits) * logits.softmax(-1)),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(
      build(sparse({.group = kGroup, .scale_output = true}))->named_parameters()["down.weight"],
      build(sparse())->named_parameters()["down.weight"] * 2, tolerance(at::kFloat));
}

TEST(FeedForward, RefusesUnitsThatDoNotDivideAndChunksOfASparseLayer) {
  EXPECT_EQ(error_of([] { build(sparse({.group = 5})); }),
            "sparse.group is 5, but 12 units do not divide into such groups; take a divisor of the "
            "width of the feed-forward layer");
  auto chunked = sparse();
  chunked.chunk = 2;
  EXPECT_EQ(error_of([&] { build(chunked); }),
            "feed_forward_chunk is 2, but a sparse layer is not fed in chunks; leave it out");
}

}  // namespace
}  // namespace longbow
