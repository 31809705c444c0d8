#include "longbow/nn/layers/block.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/core/option_error.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6;

// y = x W, with a decoding state that holds nothing; reads a shared scale when the site has one.
class Projection : public MixerImpl {
 public:
  explicit Projection(const Site& site) {
    weight = parameter("weight", initial_matrix(site, "weight", kWidth, kWidth));
    if (site.shared)
      scale = site.shared->parameter("scale", {kWidth}, [] { return at::ones({kWidth}); });
    label({"projection", {.future = Future::exact, .decode = true}, {}});
  }
  Tensor weight, scale;

 protected:
  Tensor mix(const Tensor& x, Context&) override {
    const auto y = x.matmul(weight);
    return scale.defined() ? y * scale : y;
  }
  void open(State&, int64_t, int64_t, Context&) override {}
  Tensor grow(const Tensor& x, State&, Context& context) override { return mix(x, context); }
};

Site site() {
  return {.shape = {.width = kWidth}, .path = "block", .init = "xavier", .seed = 1};
}

struct Built {
  std::shared_ptr<Projection> mixer;
  Block block;
};

Built build(const BlockConfig& config, const Site& here = site()) {
  auto mixer = std::make_shared<Projection>(here.at("mixer"));
  return {mixer, residual(here, mixer, config)};
}

Tensor normalised(const Tensor& x) {
  return at::layer_norm(x, {kWidth});
}

Tensor fed(const Block& block, const Tensor& x, Activation activation) {
  const auto p = block->named_parameters();
  const auto up = at::linear(x, p["feed_forward.up.weight"], p["feed_forward.up.bias"]);
  const auto active = activation == Activation::relu   ? up.relu()
                      : activation == Activation::gelu ? at::gelu(up)
                                                       : at::gelu(up, "tanh");
  return at::linear(active, p["feed_forward.down.weight"], p["feed_forward.down.bias"]);
}

Tensor input() {
  return random_normal({2, 5, kWidth}, 3).to(at::kFloat);
}

TEST(Residual, PreNormAddsTheSubLayersOfTheNormalisedStream) {
  for (const auto activation : {Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
    const auto [mixer, block] = build({.feed_forward = {.width = 9, .activation = activation}});
    Context context;
    const auto x = input(), y = x + normalised(x).matmul(mixer->weight);
    EXPECT_NEAR_TENSOR(block->forward(x, context), y + fed(block, normalised(y), activation),
                       tolerance(at::kFloat));
  }
}

TEST(Residual, PostNormNormalisesTheSum) {
  const auto [mixer, block] = build({.residual = Residual::post_norm});
  Context context;
  const auto x = input(), y = normalised(x + x.matmul(mixer->weight));
  EXPECT_NEAR_TENSOR(block->forward(x, context), normalised(y + fed(block, y, Activation::gelu)),
                     tolerance(at::kFloat));
}

TEST(Residual, TheEpsilonOfItsNormsIsAnOption) {
  const auto [mixer, block] = build({.residual = Residual::post_norm, .norm_epsilon = 4});
  Context context;
  const auto x = input();
  const auto wide = [](const Tensor& y) { return at::layer_norm(y, {kWidth}, {}, {}, 4); };
  const auto y = wide(x + x.matmul(mixer->weight));
  EXPECT_NEAR_TENSOR(block->forward(x, context), wide(y + fed(block, y, Activation::gelu)),
                     tolerance(x.scalar_type()));
}

TEST(Residual, RezeroStartsAsTheIdentityAndScalesItsSubLayers) {
  const auto [mixer, block] = build({.residual = Residual::rezero});
  Context context;
  const auto x = input();
  EXPECT_NEAR_TENSOR(block->forward(x, context), x, kExact);
  at::NoGradGuard no_grad;
  block->named_parameters()["mixer_scale"].fill_(0.5);
  block->named_parameters()["feed_forward_scale"].fill_(-2);
  const auto y = x + 0.5 * x.matmul(mixer->weight);
  EXPECT_NEAR_TENSOR(block->forward(x, context), y - 2 * fed(block, y, Activation::gelu),
                     tolerance(at::kFloat));
}

TEST(Residual, TheFeedForwardIsFourTimesAsWideUnlessTold) {
  EXPECT_EQ(build({}).block->named_parameters()["feed_forward.up.weight"].size(0), 4 * kWidth);
  EXPECT_EQ(build({.feed_forward = {.width = 9}})
                .block->named_parameters()["feed_forward.up.weight"]
                .size(0),
            9);
}

TEST(Residual, DropoutNeedsARandomKeyAndIsOffInEvaluation) {
  const auto [mixer, block] = build({.dropout = 0.5});
  Context none, keyed = {.random = Random::from_seed(1)};
  const auto x = input();
  EXPECT_EQ(error_of([&, b = block] { b->forward(x, none); }),
            "block.dropout.mixer: random numbers wanted, but the context has no random key");
  const auto trained = block->forward(x, keyed);
  EXPECT_NEAR_TENSOR(block->forward(x, keyed), trained, kExact);
  block->eval();
  EXPECT_FALSE(at::equal(block->forward(x, none), trained));
  EXPECT_NEAR_TENSOR(block->forward(x, none), build({}).block->forward(x, none), kExact);
}

// Drops half of its input at the site where mechanisms drop their weights.
class Dropping : public MixerImpl {
 public:
  explicit Dropping(const Site& site) : path_(site.path) {}

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    return dropout(x, 0.5, is_training(), context, path_ + ".dropout");
  }

 private:
  std::string path_;
};

TEST(Residual, AMixerAndItsSubLayerDropIndependently) {
  const auto block = residual(site(), std::make_shared<Dropping>(site().at("mixer")),
                              {.feed_forward = {.kind = FeedForwardKind::none}, .dropout = 0.5});
  Context context = {.random = Random::from_seed(4)};
  const auto x = random_normal({20, 50, kWidth}, 3).to(at::kFloat);
  const auto added = block->forward(x, context) - x;
  EXPECT_NEAR((added != 0).to(at::kDouble).mean().item<double>(), 0.25, 0.03)
      << "0.5 when both draw the same numbers";
}

TEST(Residual, AConvolutionStandsBetweenTheNormAndTheMixer) {
  for (const auto kind : {Residual::pre_norm, Residual::post_norm}) {
    const auto [mixer, block] = build({.residual = kind,
                                       .feed_forward = {.kind = FeedForwardKind::none},
                                       .convolution = {.width = 3}});
    const auto taps = block->named_parameters()["convolution.weight"];
    Context context = {.mask = {.causal = true}};
    const auto x = input(), u = kind == Residual::pre_norm ? normalised(x) : x;
    auto z = u * taps.select(1, 2);
    z.narrow(1, 1, 4) += u.narrow(1, 0, 4) * taps.select(1, 1);
    z.narrow(1, 2, 3) += u.narrow(1, 0, 3) * taps.select(1, 0);
    const auto y = x + z.matmul(mixer->weight);
    EXPECT_NEAR_TENSOR(block->forward(x, context), kind == Residual::pre_norm ? y : normalised(y),
                       tolerance(at::kFloat));
    State state;
    block->start(state, 2, 5, context);
    const auto first = block->extend(x.narrow(1, 0, 2), state, context);
    const auto rest = block->extend(x.narrow(1, 2, 3), state, context);
    EXPECT_NEAR_TENSOR(at::cat({first, rest}, 1), block->forward(x, context),
                       tolerance(at::kFloat));
  }
}

TEST(Residual, AConvolutionMayHaveAResidualOfItsOwn) {
  for (const bool mixes : {true, false}) {
    const auto [mixer, block] =
        build({.feed_forward = {.width = 9},
               .convolution = {.width = 2, .place = ConvolutionPlace::residual},
               .mixes = mixes});
    const auto taps = block->named_parameters()["convolution.weight"];
    Context context = {.mask = {.causal = true}};
    const auto x = input(), u = normalised(x);
    auto z = u * taps.select(1, 1);
    z.narrow(1, 1, 4) += u.narrow(1, 0, 4) * taps.select(1, 0);
    auto y = x + z;
    if (mixes) y = y + normalised(y).matmul(mixer->weight);
    const auto whole = block->forward(x, context);
    EXPECT_NEAR_TENSOR(whole, y + fed(block, normalised(y), Activation::gelu),
                       tolerance(at::kFloat));
    State state;
    block->start(state, 2, 5, context);
    const auto first = block->extend(x.narrow(1, 0, 2), state, context);
    const auto rest = block->extend(x.narrow(1, 2, 3), state, context);
    EXPECT_NEAR_TENSOR(at::cat({first, rest}, 1), whole, tolerance(at::kFloat));
  }
  EXPECT_THROW(build({.residual = Residual::reversible,
                      .convolution = {.width = 3, .place = ConvolutionPlace::residual}}),
               OptionError);
}

TEST(Residual, AnyExtensionEqualsTheForwardPass) {
  const auto [mixer, block] = build({});
  Context context;
  State state;
  const auto x = input();
  block->start(state, 2, 5, context);
  const auto first = block->extend(x.narrow(1, 0, 2), state, context);
  const auto rest = block->extend(x.narrow(1, 2, 3), state, context);
  EXPECT_NEAR_TENSOR(at::cat({first, rest}, 1), block->forward(x, context), tolerance(at::kFloat));
}

// Gradients of x, of every parameter of the block and of the shared one.
std::map<std::string, Tensor> gradients(Recompute recompute, bool wants_x) {
  auto here = site();
  here.shared = std::make_shared<Shared>();
  const auto [mixer, block] = build({.dropout = 0.3, .recompute = recompute}, here);
  Context context = {.random = Random::from_seed(8, 2)};
  auto x = input().requires_grad_(wants_x);
  block->forward(x, context).square().sum().backward();
  std::map<std::string, Tensor> found;
  for (const auto& entry : block->named_parameters()) found[entry.key()] = entry.value().grad();
  found["shared.scale"] = here.shared->parameters().front().grad();
  if (wants_x) found["x"] = x.grad();
  return found;
}

TEST(Residual, RecomputationGivesTheSameGradientsAlsoOfWhatLayersShare) {
  for (const bool wants_x : {true, false}) {
    const auto want = gradients(Recompute::none, wants_x);
    for (const auto recompute : {Recompute::block, Recompute::attention})
      for (const auto& [name, gradient] : gradients(recompute, wants_x))
        EXPECT_NEAR_TENSOR(gradient, want.at(name), (Tolerance{1e-6, 1e-5})) << name;
  }
}

// The calls of all mixers, under a key that is common to them.
void count(Context& context) {
  auto& calls = context.carry["all.calls"];
  calls = calls.defined() ? calls + 1 : at::ones({1});
}

// y_i = (mean of the real rows of the memory) W + x_i / 2, in a state the mean; hands on how many
// layers it passed under a key that others use, too.
class Averaging : public MixerImpl {
 public:
  explicit Averaging(const Site& site) {
    weight = parameter("weight", initial_matrix(site, "weight", kWidth, kWidth));
    label({"averaging", {.future = Future::exact, .cross = true, .decode = true}, {}});
  }
  Tensor weight;

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    EXPECT_FALSE(context.mask.causal);
    auto& passed = context.carry["passed"];
    passed = passed.defined() ? passed + 1 : at::ones({1});
    count(context);
    return read(mean(context), x);
  }
  void open(State& state, int64_t, int64_t, Context& context) override {
    state.lane["mean"] = mean(context);
    state.fill["mean"] = 0;
  }
  Tensor grow(const Tensor& x, State& state, Context&) override {
    return read(state.lane.at("mean"), x);
  }

 private:
  static Tensor mean(const Context& context) {
    const auto keep = context.mask.keep.unsqueeze(-1).to(at::kFloat);
    return (context.memory * keep).sum(1) / keep.sum(1);
  }
  Tensor read(const Tensor& mean, const Tensor& x) const {
    return mean.matmul(weight).unsqueeze(1) + x / 2;
  }
};

// The running sum of the tokens, which must not see the memory.
class Summing : public MixerImpl {
 public:
  Summing() { label({"summing", {.future = Future::exact, .decode = true}, {}}); }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    EXPECT_FALSE(context.memory.defined());
    auto& passed = context.carry["passed"];
    passed = passed.defined() ? passed * 2 : at::ones({1});
    count(context);
    return x.cumsum(1) / 4;
  }
  void open(State& state, int64_t lanes, int64_t, Context& context) override {
    EXPECT_FALSE(context.memory.defined());
    state.add("sum", {lanes, 1, kWidth}, at::kFloat);
  }
  Tensor grow(const Tensor& x, State& state, Context&) override {
    const auto y = x.cumsum(1) + state.lane.at("sum");
    state.lane["sum"] = y.narrow(1, y.size(1) - 1, 1);
    return y / 4;
  }
};

Block build_decoder(const BlockConfig& config) {
  return residual(site(),
                  {{"mixer", std::make_shared<Summing>()},
                   {"cross", std::make_shared<Averaging>(site().at("cross")), true}},
                  config);
}

Context reading(const Tensor& memory) {
  return {.mask = {.causal = true},
          .memory = memory,
          .memory_keep = at::tensor({1, 1, 0, 1, 0, 0}, at::kLong).to(at::kBool).view({2, 3})};
}

Tensor some_memory() {
  return random_normal({2, 3, kWidth}, 9).to(at::kFloat);
}

TEST(Residual, ADecoderReadsItsTokensThenTheMemoryThenFeedsForward) {
  const auto memory = some_memory();
  const auto x = input();
  const auto means = at::stack({memory[0].narrow(0, 0, 2).mean(0), memory[1][0]});
  const auto of_memory = [&](const Block& block, const Tensor& t) {
    return means.matmul(block->named_parameters()["cross.weight"]).unsqueeze(1) + t / 2;
  };
  auto block = build_decoder({});
  auto context = reading(memory);
  const auto y = x + normalised(x).cumsum(1) / 4, z = y + of_memory(block, normalised(y));
  EXPECT_NEAR_TENSOR(block->forward(x, context), z + fed(block, normalised(z), Activation::gelu),
                     tolerance(at::kFloat));
  block = build_decoder({.residual = Residual::post_norm});
  const auto first = normalised(x + x.cumsum(1) / 4),
             second = normalised(first + of_memory(block, first));
  EXPECT_NEAR_TENSOR(block->forward(x, context),
                     normalised(second + fed(block, second, Activation::gelu)),
                     tolerance(at::kFloat));
}

// y_i = the first row of the memory, which is to be a real one.
class First : public MixerImpl {
 public:
  First() { label({"first", {.future = Future::exact, .cross = true, .decode = true}, {}}); }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    EXPECT_FALSE(context.mask.ragged) << "rows come aligned";
    return context.memory.narrow(1, 0, 1).expand_as(x);
  }
  void open(State& state, int64_t, int64_t, Context& context) override {
    state.lane["first"] = context.memory.narrow(1, 0, 1);
    state.fill["first"] = 0;
  }
  Tensor grow(const Tensor& x, State& state, Context&) override {
    return state.lane.at("first").expand_as(x);
  }
};

// How the memory is padded has nothing to do with how the tokens are.
TEST(Residual, AMemoryIsAlignedWhereItsRealRowsStandAnywhere) {
  const auto block = residual(
      site(), {{"mixer", std::make_shared<Summing>()}, {"cross", std::make_shared<First>(), true}},
      {.feed_forward = {.kind = FeedForwardKind::none}});
  const auto memory = some_memory(), x = input();
  const auto keep = at::tensor({0, 1, 1, 0, 0, 1}, at::kLong).to(at::kBool).view({2, 3});
  const auto rows = at::stack({memory[0][1], memory[1][2]}).unsqueeze(1);
  Context whole = {
      .mask = {.causal = true}, .memory = memory, .memory_keep = keep, .memory_ragged = true};
  auto opening = whole;
  const auto want = x + normalised(x).cumsum(1) / 4 + rows;
  EXPECT_NEAR_TENSOR(block->forward(x, whole), want, tolerance(at::kFloat));
  State state;
  block->start(state, 2, 5, opening);
  Context growing;
  EXPECT_NEAR_TENSOR(block->extend(x, state, growing), want, tolerance(at::kFloat));
}

TEST(Residual, MixersOfOneBlockCarryApart) {
  const auto block = build_decoder({});
  auto context = reading(some_memory());
  block->forward(input(), context);
  block->forward(input(), context);
  EXPECT_EQ(context.carry.at("mixer.passed").item<double>(), 2);
  EXPECT_EQ(context.carry.at("cross.passed").item<double>(), 2);
  block->forward(input(), context);
  EXPECT_EQ(context.carry.at("mixer.passed").item<double>(), 4);
  EXPECT_EQ(context.carry.at("cross.passed").item<double>(), 3);
}

TEST(Residual, MixersOfOneBlockCarryTogetherWhatIsCommonToThem) {
  const auto block = build_decoder({});
  auto context = reading(some_memory());
  block->forward(input(), context);
  EXPECT_EQ(context.carry.at("all.calls").item<double>(), 2);
  block->forward(input(), context);
  EXPECT_EQ(context.carry.at("all.calls").item<double>(), 4);
  EXPECT_EQ(context.carry.size(), 3u);
}

TEST(Residual, ADecoderExtendsAsItReads) {
  for (const auto kind :
       {Residual::pre_norm, Residual::post_norm, Residual::rezero, Residual::reversible}) {
    const auto block = build_decoder({.residual = kind, .rezero_start = 0.5});
    const bool two = kind == Residual::reversible;
    const auto x = two ? at::cat({input(), input().flip(1)}, -1) : input();
    auto context = reading(some_memory()), opening = context;
    const auto whole = block->forward(x, context);
    State state;
    block->start(state, 2, 5, opening);
    Context growing;
    const auto first = block->extend(x.narrow(1, 0, 2), state, growing);
    const auto rest = block->extend(x.narrow(1, 2, 3), state, growing);
    EXPECT_NEAR_TENSOR(at::cat({first, rest}, 1), whole, tolerance(at::kFloat));
  }
}

TEST(Residual, AReversibleDecoderAddsBothMixersToTheFirstStream) {
  const auto block = build_decoder({.residual = Residual::reversible});
  const auto memory = some_memory(), x1 = input(), x2 = input().flip(1);
  auto context = reading(memory);
  const auto means = at::stack({memory[0].narrow(0, 0, 2).mean(0), memory[1][0]});
  const auto s = normalised(x2).cumsum(1) / 4;
  const auto c =
      means.matmul(block->named_parameters()["cross.weight"]).unsqueeze(1) + normalised(x2 + s) / 2;
  const auto y1 = x1 + s + c, y2 = x2 + fed(block, normalised(y1), Activation::gelu);
  EXPECT_NEAR_TENSOR(block->forward(at::cat({x1, x2}, -1), context), at::cat({y1, y2}, -1),
                     tolerance(at::kFloat));
}

TEST(Residual, RecomputationGivesTheGradientOfTheMemory) {
  std::map<Recompute, Tensor> found;
  for (const auto recompute : {Recompute::none, Recompute::block, Recompute::attention}) {
    const auto block = build_decoder({.recompute = recompute});
    const auto memory = some_memory().requires_grad_();
    auto context = reading(memory);
    block->forward(input(), context).square().sum().backward();
    found[recompute] = memory.grad();
  }
  EXPECT_GT(found[Recompute::none].abs().max().item<double>(), 1e-3);
  EXPECT_NEAR_TENSOR(found[Recompute::block], found[Recompute::none], (Tolerance{1e-6, 1e-5}));
  EXPECT_NEAR_TENSOR(found[Recompute::attention], found[Recompute::none], (Tolerance{1e-6, 1e-5}));
}

}  // namespace
}  // namespace longbow
