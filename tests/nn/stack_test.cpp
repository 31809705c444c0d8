#include "longbow/nn/layers/stack.h"

#include <ATen/ATen.h>

#include "longbow/nn/layers/block.h"
#include "longbow/tensors/meter.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6;

// y = tanh(x W + sum of the memory + what the layers before carried) * a scale that all share; it
// adds to the loss, and carries its output on.
class Carrying : public MixerImpl {
 public:
  explicit Carrying(const Site& site) {
    weight_ = parameter("weight", initial_matrix(site, "weight", kWidth, kWidth));
    scale_ = site.shared->parameter("scale", {kWidth}, [] { return at::full({kWidth}, 0.75); });
    label({"carrying", {.future = Future::exact, .cross = true, .decode = true}, {}});
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    auto y = x.matmul(weight_);
    if (context.memory.defined()) y = y + context.memory.sum(1, true);
    if (context.carry.count("sum")) y = y + context.carry.at("sum");
    y = y.tanh() * scale_;
    context.carry["sum"] = y.mul(0.5);
    if (context.maps) (*context.maps)["tokens"] = y.detach();
    context.add_loss(y.pow(3).mean());
    return y;
  }
  void open(State&, int64_t, int64_t, Context&) override {}
  Tensor grow(const Tensor& x, State&, Context& context) override { return mix(x, context); }

 private:
  Tensor weight_, scale_;
};

struct Built {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::shared_ptr<Stack> stack;
};

Built build(const BlockConfig& config, int64_t layers = 3) {
  Built built;
  std::vector<Block> blocks;
  for (int64_t i = 0; i < layers; ++i) {
    const Site site = {.shape = {.width = kWidth},
                       .path = "layers." + std::to_string(i),
                       .init = "xavier",
                       .seed = 9,
                       .shared = built.shared};
    blocks.push_back(residual(site, std::make_shared<Carrying>(site.at("mixer")), config));
  }
  built.stack = std::make_shared<Stack>(std::move(blocks), built.shared);
  built.stack->to(at::kDouble);
  built.shared->to(at::kDouble);
  return built;
}

BlockConfig reversible() {
  return {.residual = Residual::reversible, .feed_forward = {.width = 9}, .dropout = 0.2};
}

Tensor normalised(const Tensor& x) {
  return at::layer_norm(x, {kWidth});
}

TEST(Stack, ReversibleBlocksAreTheTwoStreamFormula) {
  auto config = reversible();
  config.dropout = 0;
  const auto built = build(config, 2);
  built.stack->eval();
  const auto x = random_normal({2, 4, kWidth}, 1);
  const auto p = built.stack->named_parameters();
  Tensor first = x, second = x, carried = at::zeros({1}, at::kDouble);
  for (const std::string layer : {"0.", "1."}) {
    const auto mixed =
        (normalised(second).matmul(p[layer + "mixer.weight"]) + carried).tanh() * 0.75;
    carried = mixed / 2;
    first = first + mixed;
    const auto units = at::gelu(at::linear(normalised(first), p[layer + "feed_forward.up.weight"],
                                           p[layer + "feed_forward.up.bias"]));
    second = second + at::linear(units, p[layer + "feed_forward.down.weight"],
                                 p[layer + "feed_forward.down.bias"]);
  }
  Context context;
  EXPECT_NEAR_TENSOR((*built.stack)(x, context), (first + second) / 2, tolerance(at::kDouble));
}

// Everything a training step leaves behind.
Tensors step(const Built& built, bool stored) {
  Tensors found;
  auto x = random_normal({2, 4, kWidth}, 1).requires_grad_();
  auto memory = random_normal({2, 3, kWidth}, 2).requires_grad_();
  auto carried = random_normal({2, 4, kWidth}, 3).requires_grad_();
  Context context = {.memory = memory, .random = Random::from_seed(3, 1)};
  context.carry["sum"] = carried;
  Tensor y;
  if (stored) {  // the blocks themselves keep their activations
    y = at::cat({x, x}, -1);
    for (const auto& block : built.stack->children())
      y = std::dynamic_pointer_cast<BlockImpl>(block)->forward(y, context);
    y = y.unflatten(-1, {2, -1}).mean(-2);
  } else {
    y = (*built.stack)(x, context);
  }
  found["y"] = y.detach();
  const auto weights = random_normal(y.sizes(), 5);
  ((y * weights).sum() + 3 * context.loss + (context.carry.at("sum") * weights).sum()).backward();
  found["loss"] = context.loss.detach();
  found["x"] = x.grad();
  found["memory"] = memory.grad();
  found["carry"] = carried.grad();
  for (const auto& p : built.stack->named_parameters()) {
    found[p.key()] = p.value().grad().clone();
    p.value().mutable_grad().zero_();
  }
  auto scale = built.shared->parameters().front();
  found["scale"] = scale.grad().clone();
  scale.mutable_grad().zero_();
  return found;
}

TEST(Stack, RebuiltInputsGiveTheGradientsOfStoredOnes) {
  for (const auto kind : {FeedForwardKind::dense, FeedForwardKind::sparse}) {
    auto config = reversible();
    config.feed_forward.kind = kind;
    config.feed_forward.sparse = {.group = 3, .temperature = 1, .hard = 1};
    const auto built = build(config);
    const auto want = step(built, true), got = step(built, false);
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [name, value] : got)
      EXPECT_NEAR_TENSOR(value, want.at(name), (Tolerance{1e-11, 1e-9})) << name;
  }
}

// Keeps what it reads.
class Watching : public MixerImpl {
 public:
  Watching(const Site& site, std::vector<Tensor>* seen) : seen_(seen) {
    weight_ = parameter("weight", initial_matrix(site, "weight", kWidth, kWidth));
    label({"watching", {.future = Future::exact}, {}});
  }

 protected:
  Tensor mix(const Tensor& x, Context&) override {
    seen_->push_back(x.detach().clone());
    return x.matmul(weight_).tanh();
  }

 private:
  std::vector<Tensor>* seen_;
  Tensor weight_;
};

TEST(Stack, RebuiltInputsOfAHalfTypeAreThoseOfTheForwardPass) {
  constexpr size_t kLayers = 24;
  std::vector<Tensor> seen;
  std::vector<Block> blocks;
  for (size_t i = 0; i < kLayers; ++i) {
    const Site site = {.shape = {.width = kWidth},
                       .path = "layers." + std::to_string(i),
                       .init = "xavier",
                       .seed = 9};
    blocks.push_back(residual(site, std::make_shared<Watching>(site.at("mixer"), &seen),
                              {.residual = Residual::reversible, .feed_forward = {.width = 9}}));
  }
  Stack stack(std::move(blocks));
  stack.to(at::kBFloat16);
  Context context;
  const auto x = random_normal({4, 8, kWidth}, 1).to(at::kBFloat16).requires_grad_();
  const auto y = stack(x, context);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  y.sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), at::kBFloat16);
  ASSERT_EQ(seen.size(), 2 * kLayers);
  for (size_t i = 0; i < kLayers; ++i) {
    const auto want = seen[i].to(at::kDouble), got = seen[2 * kLayers - 1 - i].to(at::kDouble);
    EXPECT_LT(((got - want).norm() / want.norm()).item<double>(), 0x1p-9) << i;
  }
}

TEST(Stack, RebuildingInputsDoesNotTouchTheCallersMaps) {
  const auto built = build(reversible());
  Tensors maps;
  Context context = {.random = Random::from_seed(5), .maps = &maps};
  const auto y = (*built.stack)(random_normal({2, 4, kWidth}, 1).requires_grad_(), context);
  EXPECT_EQ(maps.size(), 1u);
  maps.clear();
  y.sum().backward();
  EXPECT_TRUE(maps.empty());
}

TEST(Stack, MemoryOfAReversibleStepDoesNotGrowWithDepth) {
  const auto growth = [](Residual kind) {
    const auto peak = [&](int64_t layers) {
      const auto built = build({.residual = kind}, layers);
      const auto x = random_normal({4, 256, kWidth}, 1).requires_grad_();
      return measure([&] {
               Context context;
               (*built.stack)(x, context).sum().backward();
             })
          .peak_bytes;
    };
    return static_cast<double>(peak(16) - peak(4)) / (12 * 4 * 256 * kWidth * 8);
  };
  // In tensors like x a layer: the test's mixer hands one on from layer to layer, which is kept.
  EXPECT_LT(growth(Residual::reversible), 1.2);
  EXPECT_GT(growth(Residual::pre_norm), 8);
}

TEST(Stack, AnyExtensionEqualsTheForwardPass) {
  for (const auto kind : {Residual::pre_norm, Residual::reversible}) {
    const auto built = build({.residual = kind});
    built.stack->eval();
    const auto x = random_normal({2, 5, kWidth}, 1);
    Context whole;
    const auto want = (*built.stack)(x, whole);
    State state;
    Context first, second;
    built.stack->start(state, 2, 5, first);
    const auto y = at::cat({built.stack->extend(x.narrow(1, 0, 2), state, first),
                            built.stack->extend(x.narrow(1, 2, 3), state, second)},
                           1);
    EXPECT_NEAR_TENSOR(y, want, tolerance(at::kDouble));
  }
}

TEST(Stack, RefusesHalfABlockAndMixedResiduals) {
  auto config = reversible();
  config.feed_forward.kind = FeedForwardKind::none;
  EXPECT_EQ(error_of([&] { build(config); }),
            "residual is reversible, which needs a mixer and a feed-forward layer; take another "
            "residual");
  const Site site = {.shape = {.width = kWidth}, .shared = std::make_shared<Shared>()};
  const auto block = [&](Residual kind) {
    return residual(site, std::make_shared<Carrying>(site), {.residual = kind});
  };
  EXPECT_EQ(error_of([&] {
              Stack({block(Residual::pre_norm), block(Residual::reversible)});
            }),
            "a stack is reversible as a whole or not at all");
}

}  // namespace
}  // namespace longbow
