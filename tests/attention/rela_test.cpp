#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// relu(q k^T / sqrt D) v, then the norm over the merged channels of each token.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Tensor& q, const Tensor& k,
             const Tensor& v, const Tensor& visible) {
  const double epsilon = as_number(*options.find("epsilon"), "epsilon");
  const auto scores = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  const auto h = merge_heads((scores.clamp_min(0) * visible).matmul(v));  // [B, N, H D]
  auto y =
      oracle::tensor_of(mixer, "attention.gain") * h / ((h * h).mean(-1, true) + epsilon).sqrt();
  if (as_string(*options.find("norm"), "norm") == "g")
    y = y / (1 + (-oracle::tensor_of(mixer, "attention.gate") * h).exp());
  return split_heads(y, q.size(1));
}

const bool registered =
    oracle::add("rela", [](const torch::nn::Module& mixer, const Node& options, const Site& site,
                           const Tensor& x, const Context& context) {
      return oracle::multi_head(
          mixer, site, x, context,
          [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
            return dense(mixer, options, q, k, v, visible);
          });
    });

const Site kSite = {.shape = {.width = 6, .heads = 2, .head_width = 3, .max_length = 32},
                    .init = "xavier"};

Mixer made(const std::string& options = "", const Site& site = kSite) {
  const auto mixer = make_mixer("rela", site, options);
  mixer->to(at::kDouble);
  return mixer;
}

void scale(const Mixer& mixer, const std::string& name, double factor) {
  const at::NoGradGuard no_grad;
  mixer->named_parameters()[name].mul_(factor);
}

// One head whose projections are the identity, gain 1: the attention itself.
Mixer bare(int64_t width, const std::string& options) {
  const auto mixer =
      made(options, {.shape = {.width = width, .heads = 1, .max_length = 32}, .bias = false});
  const at::NoGradGuard no_grad;
  for (const auto* name : {"query", "key", "value", "output"})
    mixer->named_parameters()[std::string(name) + ".weight"].copy_(at::eye(width));
  return mixer;
}

TEST(Rela, IsTheEquationInLoops) {
  constexpr int64_t kTokens = 7, kWidth = 3;
  const auto x = random_normal({1, kTokens, kWidth}, 1);
  const auto at = [&](int64_t i, int64_t c) { return x[0][i][c].item<double>(); };
  const auto want = at::zeros({1, kTokens, kWidth}, at::kDouble);
  for (int64_t i = 0; i < kTokens; ++i) {
    std::array<double, kWidth> h = {};
    for (int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (int64_t c = 0; c < kWidth; ++c) score += at(i, c) * at(j, c) / std::sqrt(3.0);
      for (int64_t c = 0; c < kWidth; ++c) h[c] += std::max(score, 0.0) * at(j, c);
    }
    const double square = (h[0] * h[0] + h[1] * h[1] + h[2] * h[2]) / 3;
    for (int64_t c = 0; c < kWidth; ++c) want[0][i][c] = h[c] / std::sqrt(square + 1e-3);
  }
  Context context = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR((*bare(kWidth, "{norm: plain, epsilon: 1e-3}"))(x, context), want,
                     tolerance(at::kDouble));
}

TEST(Rela, ScalingTheQueriesChangesNothing) {
  const auto x = random_normal({2, 9, 6}, 2);
  Context context;
  for (const std::string norm : {"plain", "i"}) {
    const auto mixer = made("{epsilon: 1e-30, norm: " + norm + "}");
    const auto before = (*mixer)(x, context);
    scale(mixer, "query.weight", 7);
    EXPECT_NEAR_TENSOR((*mixer)(x, context), before, tolerance(at::kDouble));
  }
  const auto gated = made("{epsilon: 1e-30, norm: g}");
  const auto before = (*gated)(x, context);
  scale(gated, "query.weight", 7);
  EXPECT_FALSE((*gated)(x, context).allclose(before)) << "the gate sees the size of the sum";
}

TEST(Rela, AKeyThatNoQueryAgreesWithChangesNothing) {
  const auto x = random_normal({1, 8, 4}, 3).abs();
  const auto longer = at::cat({x, -x.narrow(1, 0, 1)}, 1);
  const auto mixer = bare(4, "");
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(longer, context).narrow(1, 0, 8), (*mixer)(x, context),
                     tolerance(at::kDouble));
}

TEST(Rela, AQueryThatAgreesWithNoKeyReadsZeroAndHasAFiniteGradient) {
  const auto x = random_normal({1, 5, 4}, 4).abs().requires_grad_();
  for (const std::string form : {"tiled", "naive"}) {
    const auto null = bare(4, "{form: " + form + "}");
    scale(null, "query.weight", -1);
    Context context;
    const auto y = (*null)(x, context);
    EXPECT_NEAR_TENSOR(y, at::zeros_like(y), kExact);
    const auto slope = torch::autograd::grad({y.sum()}, {x})[0];
    EXPECT_TRUE(slope.isfinite().all().item<bool>());
  }
}

// In float32 the third power of 1 / sqrt(epsilon), which a careless gradient forms, is infinite.
TEST(Rela, ANullRowHasAFiniteGradientForEveryEpsilon) {
  const auto x = random_normal({1, 5, 4}, 4).abs().to(at::kFloat).requires_grad_();
  for (const std::string norm : {"plain", "g"}) {
    const auto null = bare(4, "{epsilon: 1e-30, norm: " + norm + "}");
    null->to(at::kFloat);
    scale(null, "query.weight", -1);
    Context context;
    const auto y = (*null)(x, context);
    EXPECT_NEAR_TENSOR(y, at::zeros_like(y), kExact);
    EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x})[0].isfinite().all().item<bool>()) << norm;
  }
}

// More than one tile of queries, another number of keys, padding: everything a tile meets.
TEST(Rela, TiledAndNaiveAreTheSameInValuesAndGradients) {
  Site site = kSite;
  site.cross = true;
  const auto tiled = made("{form: tiled}", site), naive = made("{form: naive}", site);
  for (const int64_t keys : {300, 523, 700})
    for (const bool causal : {false, true})
      for (const bool padded : {false, true}) {
        const auto x = random_normal({2, 523, 6}, 5).requires_grad_(),
                   memory = random_normal({2, keys, 6}, 6).requires_grad_(),
                   weights = random_normal({2, 523, 6}, 7);
        Mask mask = {.causal = causal};
        if (padded)
          mask.keep = Mask::from_lengths(at::tensor({keys, int64_t{100}}, at::kLong), keys).keep;
        const auto run = [&](const Mixer& mixer) {
          Context context = {.mask = mask, .memory = memory};
          const auto y = (*mixer)(x, context);
          auto all = torch::autograd::grad({(y * weights).sum()}, {x, memory});
          all.push_back(y);
          return all;
        };
        const auto got = run(tiled), want = run(naive);
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{1e-8, 1e-8}));
      }
}

TEST(Rela, TheNormSpansAllHeads) {
  const auto mixer = made("{norm: plain, epsilon: 1e-12}");
  {
    const at::NoGradGuard no_grad;
    mixer->named_parameters()["output.weight"].copy_(at::eye(6));
  }
  Context context;
  const auto square = (*mixer)(random_normal({1, 9, 6}, 8), context).square();
  EXPECT_NEAR_TENSOR(square.mean(-1), at::ones({1, 9}), (Tolerance{1e-4, 1e-4}));
  EXPECT_FALSE(square.narrow(-1, 0, 3).mean(-1).allclose(at::ones({1, 9}, at::kDouble)));
}

TEST(Rela, EachNormStartsItsOwnWay) {
  const auto gain = [](const std::string& options) {
    return oracle::tensor_of(*made(options), "attention.gain");
  };
  EXPECT_NEAR_TENSOR(gain("{norm: plain}"), at::ones({6}), kExact);
  EXPECT_NEAR_TENSOR(gain("{norm: g}"), at::ones({6}), kExact);
  const auto small = gain("{norm: i}");
  EXPECT_LE(small.abs().max().item<double>(), std::sqrt(3.0 / 6));
  EXPECT_FALSE(made("{norm: i}")->named_parameters().contains("attention.gate"));
  EXPECT_TRUE(made("{norm: g}")->named_parameters().contains("attention.gate"));
}

TEST(Rela, SumsOfHalfTypesDoNotOverflow) {
  const auto mixer = bare(4, "{norm: plain}");
  mixer->to(at::kHalf);
  const auto x = at::full({1, 600, 4}, 30.0, at::kHalf);
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), at::ones({1, 600, 4}), tolerance(at::kHalf));
}

TEST(Rela, TheWeightsOfALookAreTheRectifiedScores) {
  Tensors maps;
  Site site = kSite;
  site.path = "layer.0";
  const auto x = random_normal({1, 5, 6}, 9);
  Context context = {.mask = {.causal = true}}, looking = {.mask = {.causal = true}, .maps = &maps};
  const auto mixer = made("", site);
  EXPECT_NEAR_TENSOR((*mixer)(x, looking), (*mixer)(x, context), tolerance(at::kDouble));
  const auto weights = maps.at("layer.0");
  EXPECT_EQ(weights.sizes(), at::IntArrayRef({1, 2, 5, 5}));
  EXPECT_GE(weights.min().item<double>(), 0);
  EXPECT_NEAR_TENSOR(weights.triu(1), at::zeros({1, 2, 5, 5}), kExact);
}

TEST(Rela, ALookCountsTheZerosAndTheRowsWithNothingElse) {
  Tensors maps;
  auto x = at::zeros({1, 4, 2}, at::kDouble);  // keys 1, -1, 1, and a padded one
  x[0][0][0] = 1, x[0][1][0] = -1, x[0][2][0] = 1, x[0][3][0] = 5;
  auto mask = Mask::from_lengths(at::tensor({3}, at::kLong), 4);
  mask.causal = true;
  Context context = {.mask = mask, .maps = &maps};
  const auto mixer = bare(2, "");
  (void)(*mixer)(x, context);
  const auto zeros = at::tensor({0.0, 0.5, 1.0 / 3}, at::kDouble);
  EXPECT_NEAR_TENSOR(maps.at(".zeros").narrow(2, 0, 3), zeros.view({1, 1, 3}),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(maps.at(".null").narrow(2, 0, 3), at::zeros({1, 1, 3}), kExact);
  scale(mixer, "query.weight", -1);
  (void)(*mixer)(x, context);
  EXPECT_NEAR_TENSOR(maps.at(".null").narrow(2, 0, 3),
                     at::tensor({1.0, 0.0, 0.0}, at::kDouble).view({1, 1, 3}), kExact);
}

TEST(Rela, DropoutDropsTheSameWeightsInBothForms) {
  const auto x = random_normal({2, 9, 6}, 12);
  const auto run = [&](const std::string& form) {
    Context context = {.random = Random::from_seed(2)};
    return (*made("{dropout: 0.4, form: " + form + "}"))(x, context);
  };
  EXPECT_NEAR_TENSOR(run("tiled"), run("naive"), tolerance(at::kDouble));
}

TEST(Rela, DropoutDropsInTrainingOnly) {
  const auto mixer = made("{dropout: 0.5}");
  const auto x = random_normal({1, 8, 6}, 10);
  Context context = {.random = Random::from_seed(1)};
  mixer->eval();
  const auto y = (*mixer)(x, context);
  EXPECT_NEAR_TENSOR(y, (*made())(x, context), tolerance(at::kDouble));
  mixer->train();
  EXPECT_FALSE((*mixer)(x, context).allclose(y));
  Context keyless;
  EXPECT_EQ(error_of([&] { (void)(*mixer)(x, keyless); }),
            ".dropout: random numbers wanted, but the context has no random key");
}

TEST(Rela, ASecondDerivativeNeedsTheNaiveForm) {
  const auto x = random_normal({1, 5, 6}, 11).requires_grad_();
  const auto twice = [&](const std::string& options) {
    Context context;
    const auto y = (*made(options))(x, context);
    const auto slope = torch::autograd::grad({y.square().sum()}, {x}, {}, true, true)[0];
    (void)torch::autograd::grad({slope.square().sum()}, {x});
  };
  EXPECT_EQ(error_of([&] { twice("{form: naive}"); }), "");
  EXPECT_EQ(error_of([&] { twice("{form: tiled}"); }),
            "attention in tiles computes its weights again and has no second derivative; form: "
            "naive of softmax and rela has");
}

TEST(Rela, RefusesOptionsThatItDoesNotHave) {
  EXPECT_EQ(error_of([] { (void)made("{norm: layer}"); }),
            "rela options:1: rela.norm is 'layer'; one of: plain, i, g");
  EXPECT_EQ(error_of([] { (void)made("{form: fused}"); }),
            "rela options:1: rela.form is 'fused'; one of: tiled, naive");
  EXPECT_EQ(error_of([] { (void)made("{epsilon: 0}"); }),
            "rela options:1: rela.epsilon is 0, out of range; it may be >= 1e-30");
  EXPECT_EQ(error_of([] { (void)made("{dropout: 1}"); }),
            "rela options:1: rela.dropout is 1, out of range; it may be 0..0.99");
}

}  // namespace
}  // namespace longbow
