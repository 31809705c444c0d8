#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/recompute.h"
#include "longbow/tensors/meter.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6, kHeads = 2, kHead = 3;

// The first layer of a stack has nothing below it.
const bool registered =
    oracle::add("realformer", [](const torch::nn::Module& mixer, const Node&, const Site& site,
                                 const Tensor& x, const Context& context) {
      return oracle::multi_head(mixer, site, x, context, oracle::softmax);
    });

Site site_of(int64_t layer, int64_t layers = 3) {
  return {.shape = {.width = kWidth, .heads = kHeads, .head_width = kHead, .max_length = 32},
          .path = "layers." + std::to_string(layer),
          .init = "xavier",
          .layer = layer,
          .layers = layers,
          .seed = 5};
}

Mixer made(const Site& site, const std::string& options = "") {
  auto mixer = make_mixer("realformer", site, options);
  mixer->to(at::kDouble);
  return mixer;
}

// Layers one upon the other, without what stands between them in a model but a residual.
struct Stack {
  explicit Stack(const std::string& options = "", int64_t layers = 3) {
    for (int64_t layer = 0; layer < layers; ++layer)
      mixers.push_back(made(site_of(layer, layers), options));
  }
  Tensor operator()(Tensor x, Context context = {}) const {
    for (const auto& mixer : mixers) x = x + (*mixer)(x, context);
    return x;
  }
  std::vector<Mixer> mixers;
};

// S_l = q_l k_l^T / sqrt D + S_(l-1), with the scores of all layers kept.
Tensor dense(const Stack& stack, Tensor x, const Context& context, bool mean = false) {
  Tensor sum;
  double layers = 0;
  for (const auto& mixer : stack.mixers) {
    layers += 1;
    x = x + oracle::multi_head(
                *mixer, site_of(0), x, context,
                [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
                  const auto own = q.matmul(k.transpose(-2, -1)) / std::sqrt(double{kHead});
                  sum = sum.defined() ? sum + own : own;
                  const auto scores = mean ? sum / layers : sum;
                  return oracle::weighted_mean(scores.exp(), v, visible);
                });
  }
  return x;
}

std::vector<Mask> some_masks(int64_t tokens) {
  const auto keep = Mask::from_lengths(at::tensor({tokens, tokens / 2}), tokens).keep;
  const auto holes = at::arange(tokens).remainder(3).ne(1).expand({2, tokens});
  return {{},
          {.causal = true},
          {.keep = keep},
          {.causal = true, .keep = keep},
          {.ragged = true, .keep = holes},
          {.causal = true, .ragged = true, .keep = holes}};
}

// What either form of the sum does, with queries and keys or with scores handed upwards.
const std::vector<std::string> kOptions = {"{}",
                                           "{mean: true}",
                                           "{detach_prev: true}",
                                           "{form: scores}",
                                           "{form: scores, mean: true}",
                                           "{form: scores, detach_prev: true}"};
bool takes_mean(const std::string& options) {
  return options.find("mean: true") != std::string::npos;
}

// Real tokens may stand anywhere: hidden keys are hidden, and a causal order is that of all tokens.
TEST(Realformer, AStackIsTheFormulaWithStoredScores) {
  const auto x = random_normal({2, 9, kWidth}, 1);
  for (const auto& options : kOptions)
    for (const auto& mask : some_masks(9)) {
      const Stack stack(options);
      const auto rows = mask.keep.defined() ? mask.keep.unsqueeze(-1).to(at::kDouble)
                                            : at::ones({1, 1, 1}, at::kDouble);
      EXPECT_NEAR_TENSOR(stack(x, {.mask = mask}) * rows,
                         dense(stack, x, {.mask = mask}, takes_mean(options)) * rows,
                         tolerance(at::kDouble))
          << options;
    }
}

// Any split of the tokens; the layers of one extension hand their scores on. With a memory, every
// layer reads it.
Tensor in_extensions(const Stack& stack, const Tensor& x, const std::vector<int64_t>& split,
                     const Mask& mask = {}, const Tensor& memory = {}) {
  std::vector<State> states(stack.mixers.size());
  for (size_t layer = 0; layer < states.size(); ++layer) {
    Context context = {.mask = {.keep = memory.defined() ? mask.keep : Tensor()}, .memory = memory};
    stack.mixers[layer]->start(states[layer], x.size(0), x.size(1), context);
  }
  std::vector<Tensor> outputs;
  int64_t first = 0;
  for (const int64_t count : split) {
    Context context;
    if (!memory.defined() && mask.keep.defined())
      context.mask = {.ragged = mask.ragged, .keep = mask.keep.narrow(1, first, count)};
    auto y = x.narrow(1, first, count);
    for (size_t layer = 0; layer < states.size(); ++layer)
      y = y + stack.mixers[layer]->extend(y, states[layer], context);
    outputs.push_back(y);
    first += count;
  }
  return at::cat(outputs, 1);
}

// Up to 16 tokens hand on their scores, more of them their queries and keys.
const std::vector<std::vector<int64_t>> kSplits = {
    {20}, {1, 19}, {4, 1, 15}, {17, 1, 1, 1}, std::vector<int64_t>(20, 1)};

TEST(Realformer, AStackExtendsAsItRunsForward) {
  const auto x = random_normal({2, 20, kWidth}, 21).requires_grad_(),
             weights = random_normal(x.sizes(), 22);
  for (const auto& options : kOptions)
    for (const auto& mask : some_masks(20)) {
      if (!mask.causal) continue;
      const Stack stack(options);
      const auto want = stack(x, {.mask = mask});
      const auto slope = torch::autograd::grad({(want * weights).sum()}, {x})[0];
      for (const auto& split : kSplits) {
        const auto got = in_extensions(stack, x, split, mask);
        EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
        EXPECT_NEAR_TENSOR(torch::autograd::grad({(got * weights).sum()}, {x})[0], slope,
                           tolerance(at::kDouble));
        const at::NoGradGuard no_grad;
        EXPECT_NEAR_TENSOR(in_extensions(stack, x, split, mask), want, tolerance(at::kDouble));
      }
    }
}

TEST(Realformer, AStackReadsAMemoryInExtensionsAsItRunsForward) {
  const auto x = random_normal({2, 20, kWidth}, 23), memory = random_normal({2, 6, kWidth}, 24);
  const Mask mask = {.keep = Mask::from_lengths(at::tensor({6, 4}), 6).keep};
  for (const auto& options : kOptions) {
    Stack stack;
    for (int64_t layer = 0; layer < 3; ++layer) {
      auto site = site_of(layer);
      site.cross = true;
      stack.mixers[static_cast<size_t>(layer)] = made(site, options);
    }
    for (const auto& split : kSplits)
      EXPECT_NEAR_TENSOR(in_extensions(stack, x, split, mask, memory),
                         stack(x, {.mask = mask, .memory = memory}), tolerance(at::kDouble))
          << options;
  }
}

// A step writes one key and hands its row of scores upwards: it copies no cache.
TEST(Realformer, AStepAllocatesLessThanTheKeysOfOneLayer) {
  constexpr int64_t kCapacity = 2000, kWide = 64;
  const at::NoGradGuard no_grad;
  Stack stack;
  std::vector<State> states(stack.mixers.size());
  for (int64_t layer = 0; layer < 3; ++layer) {
    auto site = site_of(layer);
    site.shape.head_width = kWide;
    const auto place = static_cast<size_t>(layer);
    stack.mixers[place] = made(site);
    Context context;
    stack.mixers[place]->start(states[place], 1, kCapacity, context);
  }
  const auto usage = measure([&] {
    Context context;
    auto x = random_normal({1, 1, kWidth}, 25);
    for (size_t layer = 0; layer < 3; ++layer)
      x = x + stack.mixers[layer]->extend(x, states[layer], context);
  });
  EXPECT_LT(usage.allocated_bytes, int64_t{kHeads} * kCapacity * kWide * 8);
}

double score(const Tensor& q, const Tensor& k, int64_t head, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t c = head * kHead; c < (head + 1) * kHead; ++c)
    sum += q[0][i][c].item<double>() * k[0][j][c].item<double>();
  return sum / std::sqrt(double{kHead});
}

TEST(Realformer, TheWeightsOfTheSecondLayerAreThoseOfLoopsOverBoth) {
  const auto lower = made(site_of(0)), upper = made(site_of(1));
  const auto x = random_normal({1, 5, kWidth}, 2), y = random_normal({1, 5, kWidth}, 3);
  Tensors maps;
  Context context = {.maps = &maps};
  (void)(*lower)(x, context);
  (void)(*upper)(y, context);
  const auto projected = [](const Mixer& mixer, const std::string& name, const Tensor& tokens) {
    return at::linear(tokens, oracle::tensor_of(*mixer, name + ".weight"),
                      oracle::tensor_of(*mixer, name + ".bias"));
  };
  auto want = at::empty({1, kHeads, 5, 5}, at::kDouble);
  for (int64_t head = 0; head < kHeads; ++head)
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 5; ++j)
        want[0][head][i][j] =
            std::exp(score(projected(lower, "query", x), projected(lower, "key", x), head, i, j) +
                     score(projected(upper, "query", y), projected(upper, "key", y), head, i, j));
      want[0][head][i] /= want[0][head][i].sum();
    }
  EXPECT_NEAR_TENSOR(maps.at("layers.1"), want, tolerance(at::kDouble));
}

TEST(Realformer, OneLayerIsSoftmax) {
  const auto mixer = made(site_of(0)), softmax = make_mixer("softmax", site_of(0));
  softmax->to(at::kDouble);  // the same seed and path: the same projections
  const auto x = random_normal({2, 9, kWidth}, 4);
  for (const auto& mask : some_masks(9)) {
    Context one = {.mask = mask}, other = {.mask = mask};
    EXPECT_NEAR_TENSOR((*mixer)(x, one), (*softmax)(x, other), tolerance(at::kDouble));
  }
}

TEST(Realformer, LayersWithoutQueriesUseTheMapOfTheFirst) {
  const Stack stack;
  const at::NoGradGuard no_grad;
  for (const auto& mixer : {stack.mixers[1], stack.mixers[2]})
    for (const auto& part : {"query.weight", "query.bias"}) mixer->named_parameters()[part].zero_();
  Tensors maps;
  (void)stack(random_normal({2, 7, kWidth}, 5), {.mask = {.causal = true}, .maps = &maps});
  ASSERT_EQ(maps.size(), 3u);
  for (const auto& [path, map] : maps)
    EXPECT_NEAR_TENSOR(map, maps.begin()->second, tolerance(at::kDouble)) << path;
}

std::vector<Leaf> leaves_of(const Stack& stack) {
  std::vector<Leaf> leaves;
  for (const auto& mixer : stack.mixers)
    for (const auto& entry : mixer->named_parameters())
      leaves.push_back({std::to_string(leaves.size()) + entry.key(), entry.value()});
  return leaves;
}

TEST(Realformer, GradientsOfAStackAreThoseOfDifferences) {
  const auto x = random_normal({2, 7, kWidth}, 6).requires_grad_();
  for (const std::string options : {"{}", "{form: scores}"})
    for (const auto& mask : some_masks(7)) {
      const Stack stack(options);
      auto leaves = leaves_of(stack);
      leaves.push_back({"x", x});
      EXPECT_TRUE(gradcheck([&] { return stack(x, {.mask = mask}); }, leaves)) << options;
    }
}

// The identity of the two forms, in values and in the gradients of all layers.
TEST(Realformer, TheScoreFormIsTheConcatenatedForm) {
  const auto x = random_normal({2, 9, kWidth}, 26);
  const auto run = [&](const std::string& options, const Mask& mask) {
    const Stack stack(options);  // the same seed: the same parameters
    const auto y = stack(x, {.mask = mask});
    y.square().sum().backward();
    std::vector<Tensor> found = {y};
    for (const auto& leaf : leaves_of(stack)) found.push_back(leaf.tensor.grad());
    return found;
  };
  for (const std::string rest : {"}", ", mean: true}", ", detach_prev: true}"})
    for (const auto& mask : some_masks(9)) {
      const auto got = run("{form: scores" + rest, mask),
                 want = run("{form: concatenated" + rest, mask);
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << rest << i;
    }
}

TEST(Realformer, OneLayerMoreCostsTheSameInTheScoreForm) {
  const auto x = random_normal({1, 64, kWidth}, 27);
  const auto added_by = [&](int64_t layer, const std::string& options) {
    const auto operations = [&](int64_t layers) {
      const Stack stack(options, layers);
      return measure([&] { (void)stack(x, {.mask = {.causal = true}}); }).operations;
    };
    return operations(layer + 1) - operations(layer);
  };
  EXPECT_EQ(added_by(4, "{form: scores}"), added_by(2, "{form: scores}"));
  EXPECT_GT(added_by(4, "{}"), added_by(2, "{}"));
}

TEST(Realformer, DetachedALayerDoesNotTeachTheScoresBelow) {
  for (const bool detach : {false, true}) {
    const std::string options = detach ? "{detach_prev: true}" : "{}";
    const auto lower = made(site_of(0), options), upper = made(site_of(1), options);
    Context context;
    (void)(*lower)(random_normal({1, 5, kWidth}, 7), context);
    (*upper)(random_normal({1, 5, kWidth}, 8), context).square().sum().backward();
    EXPECT_EQ(lower->named_parameters()["query.weight"].grad().defined(), !detach);
    EXPECT_TRUE(upper->named_parameters()["query.weight"].grad().defined());
  }
}

void expect_recomputed(const Stack& stack) {
  const auto run = [&](bool again) {
    for (const auto& mixer : stack.mixers) mixer->zero_grad();
    auto x = random_normal({2, 9, kWidth}, 9);
    Context context = {.mask = some_masks(9).back()};
    for (const auto& mixer : stack.mixers) {
      const Body body = [&](const Tensor& t, Context& c) { return (*mixer)(t, c); };
      x = x + (again ? recomputed(body, x, context, mixer->parameters()) : body(x, context));
    }
    x.square().sum().backward();
    std::vector<Tensor> found;
    for (const auto& leaf : leaves_of(stack)) found.push_back(leaf.tensor.grad().clone());
    return found;
  };
  const auto want = run(false), got = run(true);
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR_TENSOR(got[i], want[i], tolerance(at::kDouble)) << i;
}

TEST(Realformer, ARecomputedStackHasTheSameGradients) {
  for (const auto* options : {"{}", "{form: scores}", "{form: scores, mean: true}"})
    expect_recomputed(Stack(options));
}

int64_t peak_bytes(int64_t tokens) {
  const Stack stack;
  const auto x = random_normal({1, tokens, kWidth}, 10);
  return measure([&] { stack(x, {.mask = {.causal = true}}).sum().backward(); }).peak_bytes;
}

TEST(Realformer, NoLayerOfAStackStoresItsScores) {
  EXPECT_LT(static_cast<double>(peak_bytes(2048)), 2.3 * static_cast<double>(peak_bytes(1024)));
}

TEST(Realformer, SelfAndCrossAttentionAreTwoChains) {
  auto crossing = site_of(1);
  crossing.cross = true;
  const auto lower = made(site_of(0)), reader = made(crossing), upper = made(site_of(1));
  const auto x = random_normal({1, 5, kWidth}, 11), memory = random_normal({1, 8, kWidth}, 12);
  Context both, self;
  (void)(*lower)(x, both);
  (void)(*lower)(x, self);
  both.memory = memory;
  Context alone = {.memory = memory};
  EXPECT_NEAR_TENSOR((*reader)(x, both), (*reader)(x, alone), tolerance(at::kDouble));
  both.memory = Tensor();
  EXPECT_NEAR_TENSOR((*upper)(x, both), (*upper)(x, self), tolerance(at::kDouble));
}

TEST(Realformer, ANewStackBeginsANewChain) {
  const Stack stack;
  const auto x = random_normal({1, 5, kWidth}, 13);
  Context context;
  const auto first = (*stack.mixers[0])(x, context);
  (void)(*stack.mixers[1])(x, context);
  EXPECT_NEAR_TENSOR((*stack.mixers[0])(x, context), first, kExact);
}

TEST(Realformer, DropoutLeavesTheCarriedScoresAlone) {
  const auto lower = made(site_of(0), "{dropout: 0.5}");
  const auto x = random_normal({1, 8, kWidth}, 14);
  Context dropped = {.random = Random::from_seed(1)}, plain;
  const auto y = (*lower)(x, dropped);
  lower->eval();
  EXPECT_FALSE((*lower)(x, plain).allclose(y));
  for (const auto& [name, rows] : plain.carry)
    EXPECT_NEAR_TENSOR(dropped.carry.at(name), rows, kExact) << name;
}

TEST(Realformer, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made(site_of(0), "{dropout: 1}"); }),
            "realformer options:1: realformer.dropout is 1, out of range; it may be 0..0.99");
  EXPECT_EQ(error_of([] { (void)made(site_of(0), "{means: true}"); }),
            "realformer options:1: unknown key 'means'; did you mean 'mean'?");
  auto other = site_of(0);
  other.shape.heads = 3;
  Context context;
  (void)(*made(other))(at::zeros({1, 4, kWidth}, at::kDouble), context);
  EXPECT_EQ(error_of([&] {
              (void)(*made(site_of(1)))(at::zeros({1, 4, kWidth}, at::kDouble), context);
            }),
            "realformer: q is [1, 2, 4, 3], but the layers below carry [1, 3, 4, 3]");
}

}  // namespace
}  // namespace longbow
