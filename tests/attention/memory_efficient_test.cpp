#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/attention/mechanism.h"
#include "longbow/tensors/meter.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

const bool registered =
    oracle::add("memory_efficient", [](const torch::nn::Module& mixer, const Node&,
                                       const Site& site, const Tensor& x, const Context& context) {
      return oracle::multi_head(mixer, site, x, context, oracle::softmax);
    });

const Site kSite = {.shape = {.width = 6, .heads = 2, .head_width = 3, .max_length = 64},
                    .init = "xavier"};

Mixer made(const std::string& options = "", const Site& site = kSite,
           const std::string& name = "memory_efficient") {
  const auto mixer = make_mixer(name, site, options);
  mixer->to(at::kDouble);
  return mixer;
}

// One head whose projections are the identity: the attention itself.
Mixer bare(int64_t width, const std::string& options) {
  const auto mixer =
      made(options, {.shape = {.width = width, .heads = 1, .max_length = 64}, .bias = false});
  const at::NoGradGuard no_grad;
  for (auto& parameter : mixer->parameters()) parameter.copy_(at::eye(width));
  return mixer;
}

TEST(MemoryEfficient, IsTheEquationInLoops) {
  constexpr int64_t kTokens = 7, kWidth = 3;
  const auto x = random_normal({1, kTokens, kWidth}, 1);
  const auto at = [&](int64_t i, int64_t c) { return x[0][i][c].item<double>(); };
  const auto want = at::zeros({1, kTokens, kWidth}, at::kDouble);
  for (int64_t i = 0; i < kTokens; ++i) {
    std::array<double, kWidth> sum = {};
    double total = 0;
    for (int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (int64_t c = 0; c < kWidth; ++c) score += at(i, c) * at(j, c) / std::sqrt(3.0);
      total += std::exp(score);
      for (int64_t c = 0; c < kWidth; ++c) sum[c] += std::exp(score) * at(j, c);
    }
    for (int64_t c = 0; c < kWidth; ++c) want[0][i][c] = sum[c] / total;
  }
  for (const std::string options : {"", "{query_chunk: 2, key_chunk: 3}", "{key_chunk: 1}"}) {
    Context context = {.mask = {.causal = true}};
    EXPECT_NEAR_TENSOR((*bare(kWidth, options))(x, context), want, (Tolerance{1e-12, 1e-12}));
  }
}

// Chunks that divide nothing, another number of keys, padding, a row without a key: everything a
// tile meets.
TEST(MemoryEfficient, IsSoftmaxInValuesAndGradients) {
  Site site = kSite;
  site.cross = true;
  const auto softmax = made("{form: naive}", site, "softmax");
  for (const std::string options :
       {"", "{query_chunk: 4, key_chunk: 7}", "{query_chunk: 16, key_chunk: 3}",
        "{query_chunk: 1, key_chunk: 64}"})
    for (const int64_t keys : {11, 23, 40})
      for (const bool causal : {false, true})
        for (const bool padded : {false, true}) {
          const auto x = random_normal({3, 23, 6}, 2).requires_grad_(),
                     memory = random_normal({3, keys, 6}, 3).requires_grad_(),
                     weights = random_normal({3, 23, 6}, 4);
          Mask mask = {.causal = causal};
          if (padded)
            mask.keep =
                Mask::from_lengths(at::tensor({keys, int64_t{0}, int64_t{5}}, at::kLong), keys)
                    .keep;
          const auto run = [&](const Mixer& mixer) {
            Context context = {.mask = mask, .memory = memory};
            const auto y = (*mixer)(x, context);
            auto leaves = mixer->parameters();
            leaves.insert(leaves.end(), {x, memory});
            auto all = torch::autograd::grad({(y * weights).sum()}, leaves);
            all.push_back(y);
            return all;
          };
          const auto got = run(made(options, site)), want = run(softmax);
          EXPECT_NEAR_TENSOR(got.back(), want.back(), (Tolerance{1e-12, 1e-12}));
          for (size_t i = 0; i < want.size(); ++i)
            EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{1e-10, 1e-10})) << options << " " << i;
        }
}

TEST(MemoryEfficient, AQueryWithoutAKeyReadsZeroAndHasNoGradient) {
  Site site = kSite;
  site.cross = true, site.bias = false;
  const auto x = random_normal({1, 9, 6}, 5).requires_grad_(),
             memory = random_normal({1, 4, 6}, 6).requires_grad_();
  Context context = {.mask = {.causal = true}, .memory = memory};  // queries 0..4 see nothing
  const auto y = (*made("{query_chunk: 3, key_chunk: 2}", site))(x, context);
  EXPECT_NEAR_TENSOR(y.narrow(1, 0, 5), at::zeros({1, 5, 6}), kExact);
  const auto slopes = torch::autograd::grad({y.square().sum()}, {x, memory});
  EXPECT_NEAR_TENSOR(slopes[0].narrow(1, 0, 5), at::zeros({1, 5, 6}), kExact);
  for (const auto& slope : slopes) EXPECT_TRUE(slope.isfinite().all().item<bool>());
}

TEST(MemoryEfficient, ALaterTileMayHoldTheLargestScoreByFar) {
  auto x = random_normal({1, 12, 4}, 7);
  x.mul_(at::arange(12, at::kDouble).mul_(100).view({1, 12, 1}));
  for (const bool backwards : {false, true}) {
    const auto ordered = backwards ? x.flip(1) : x;
    Context context;
    EXPECT_NEAR_TENSOR(
        (*bare(4, "{query_chunk: 5, key_chunk: 2}"))(ordered, context),
        oracle::softmax(ordered, ordered, ordered, at::ones({1, 12, 12}, at::kDouble)),
        tolerance(at::kDouble));
  }
}

TEST(MemoryEfficient, LiveMemoryIsThatOfATile) {
  const auto peak = [](const std::string& name, const std::string& options, int64_t tokens) {
    const auto mixer = made(options, kSite, name);
    const auto x = random_normal({1, tokens, 6}, 8).requires_grad_();
    return static_cast<double>(measure([&] {
                                 Context context = {.random = Random::from_seed(1)};
                                 (*mixer)(x, context).sum().backward();
                               }).peak_bytes);
  };
  const std::string chunks = "query_chunk: 64, key_chunk: 64";
  for (const std::string dropout : {"0", "0.1"}) {
    const auto options = "{" + chunks + ", dropout: " + dropout + "}";
    const double once = peak("memory_efficient", options, 512),
                 twice = peak("memory_efficient", options, 1024);
    EXPECT_LT(twice, 2.1 * once);
    EXPECT_LT(10 * twice, peak("softmax", "{form: naive}", 1024));
  }
}

// A mask of dropped weights read off with values that are unit vectors, against the formula.
TEST(MemoryEfficient, DropoutTakesWeightsAfterTheSumAndHasItsGradient) {
  constexpr int64_t kTokens = 6;
  const auto mixer = bare(kTokens, "{dropout: 0.4, query_chunk: 4, key_chunk: 5}");
  const auto random = Random::from_seed(3);
  const auto run = [&](const Tensor& x, bool training) {
    mixer->train(training);
    Context context = {.random = random};
    return (*mixer)(x, context);
  };
  const auto x = at::eye(kTokens, at::kDouble).unsqueeze(0).requires_grad_();
  const auto whole = run(x, false), kept = run(x, true);
  const auto ratio = kept / whole;  // 0 or 1 / (1 - 0.4)
  EXPECT_NEAR_TENSOR(ratio * (ratio - 1 / 0.6), at::zeros_like(ratio), (Tolerance{1e-12, 0}));
  EXPECT_GT((ratio == 0).sum().item<int64_t>(), 3);
  EXPECT_GT((ratio != 0).sum().item<int64_t>(), 3);
  EXPECT_TRUE(gradcheck([&] { return run(x, true); }, {{"x", x}}));
}

// The layers have the same path, so the same seed; softmax draws for all pairs at once.
TEST(MemoryEfficient, TilesOfAnySizeDropTheWeightsThatTheFormulaDrops) {
  const auto x = random_normal({2, 23, 6}, 12).requires_grad_(),
             weights = random_normal({2, 23, 6}, 13);
  for (const bool causal : {false, true}) {
    const auto run = [&](const std::string& name, const std::string& options) {
      const auto mixer = made("{dropout: 0.4, " + options + "}", kSite, name);
      mixer->train();
      Context context = {.mask = {.causal = causal}, .random = Random::from_seed(3)};
      const auto y = (*mixer)(x, context);
      return std::pair{y, torch::autograd::grad({(y * weights).sum()}, {x})[0]};
    };
    const auto want = run("softmax", "form: naive");
    for (const std::string chunks :
         {"", "query_chunk: 1, key_chunk: 1", "query_chunk: 4, key_chunk: 7",
          "query_chunk: 23, key_chunk: 5"}) {
      const auto got = run("memory_efficient", chunks);
      EXPECT_NEAR_TENSOR(got.first, want.first, tolerance(at::kDouble)) << chunks;
      EXPECT_NEAR_TENSOR(got.second, want.second, (Tolerance{1e-10, 1e-10})) << chunks;
    }
  }
}

TEST(MemoryEfficient, DropoutDropsInTrainingOnlyAndKeepsTheMean) {
  const auto mixer = made("{dropout: 0.5, query_chunk: 3, key_chunk: 3}");
  const auto x = random_normal({1, 8, 6}, 9);
  const at::NoGradGuard no_grad;
  Context context = {.random = Random::from_seed(1)};
  mixer->eval();
  const auto y = (*mixer)(x, context);
  EXPECT_NEAR_TENSOR(y, (*made())(x, context), tolerance(at::kDouble));
  mixer->train();
  auto sum = at::zeros_like(y);
  for (int64_t step = 0; step < 2000; ++step) {
    context.random = Random::from_seed(1, step);
    sum += (*mixer)(x, context);
  }
  EXPECT_FALSE((*mixer)(x, context).equal(y));
  EXPECT_NEAR_TENSOR(sum / 2000, y, (Tolerance{.absolute = 0.1 * y.abs().max().item<double>()}));
  Context keyless;
  EXPECT_EQ(error_of([&] { (void)(*mixer)(x, keyless); }),
            ".dropout: random numbers wanted, but the context has no random key");
}

TEST(MemoryEfficient, TheWeightsOfALookAreTheSoftmaxOfTheScores) {
  Tensors maps;
  Site site = kSite;
  site.path = "layer.0";
  const auto x = random_normal({1, 5, 6}, 10);
  Context context = {.mask = {.causal = true}}, looking = {.mask = {.causal = true}, .maps = &maps};
  const auto mixer = made("{query_chunk: 2, key_chunk: 2}", site);
  EXPECT_NEAR_TENSOR((*mixer)(x, looking), (*mixer)(x, context), tolerance(at::kDouble));
  const auto weights = maps.at("layer.0");
  EXPECT_NEAR_TENSOR(weights.sum(-1), at::ones({1, 2, 5}), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(weights.triu(1), at::zeros({1, 2, 5, 5}), kExact);
}

TEST(MemoryEfficient, ASecondDerivativeIsRefused) {
  const auto x = random_normal({1, 5, 6}, 11).requires_grad_();
  Context context;
  const auto y = (*made())(x, context).square().sum();
  EXPECT_EQ(error_of([&] { (void)torch::autograd::grad({y}, {x}, {}, true, true); }),
            "attention in tiles computes its weights again and has no second derivative; form: "
            "naive of softmax and rela has");
}

TEST(MemoryEfficient, RefusesOptionsThatItDoesNotHave) {
  EXPECT_EQ(error_of([] { (void)made("{query_chunk: 0}"); }),
            "memory_efficient options:1: memory_efficient.query_chunk is 0, out of range; it may "
            "be 1..65536");
  EXPECT_EQ(error_of([] { (void)made("{key_chunk: 65537}"); }),
            "memory_efficient options:1: memory_efficient.key_chunk is 65537, out of range; it may "
            "be 1..65536");
  EXPECT_EQ(error_of([] { (void)made("{dropout: 1}"); }),
            "memory_efficient options:1: memory_efficient.dropout is 1, out of range; it may be "
            "0..0.99");
  EXPECT_EQ(error_of([] { (void)made("{key_chunks: 8}"); }),
            "memory_efficient options:1: unknown key 'key_chunks'; did you mean 'key_chunk'?");
}

}  // namespace
}  // namespace longbow
