#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/tensors/meter.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

const bool registered =
    oracle::add("softmax", [](const torch::nn::Module& mixer, const Node&, const Site& site,
                              const Tensor& x, const Context& context) {
      return oracle::multi_head(mixer, site, x, context, oracle::softmax);
    });

const Site kSite = {.shape = {.width = 6, .heads = 2, .head_width = 3, .max_length = 32},
                    .init = "xavier"};

Tensor run(const std::string& options, const Tensor& x, Context context = {},
           const Site& site = kSite) {
  const auto mixer = make_mixer("softmax", site, options);
  mixer->to(at::kDouble);
  return (*mixer)(x, context);
}

// One head whose projections are the identity: the attention itself.
Mixer bare(int64_t width) {
  const auto mixer = make_mixer(
      "softmax", {.shape = {.width = width, .heads = 1, .max_length = 32}, .bias = false});
  const at::NoGradGuard no_grad;
  for (auto& parameter : mixer->parameters()) parameter.copy_(at::eye(width));
  mixer->to(at::kDouble);
  return mixer;
}

TEST(Softmax, OneKeyGivesItsValue) {
  const auto x = random_normal({2, 1, 6}, 1);
  Context context;
  EXPECT_NEAR_TENSOR((*bare(6))(x, context), x, tolerance(at::kDouble));
}

TEST(Softmax, EqualKeysGiveTheMeanOfTheirValues) {
  const auto x = random_normal({1, 1, 4}, 2).expand({1, 7, 4});
  Context context;
  EXPECT_NEAR_TENSOR((*bare(4))(x, context), x, tolerance(at::kDouble));
}

TEST(Softmax, LargeScoresDoNotOverflow) {
  const auto x = 1e3 * random_normal({1, 9, 4}, 3);
  Context context;
  const auto y = (*bare(4))(x, context);
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_NEAR_TENSOR(y, oracle::softmax(x, x, x, at::ones({1, 9, 9}, at::kDouble)),
                     tolerance(at::kDouble));
}

TEST(Softmax, FusedAndNaiveAreTheSame) {
  const auto x = random_normal({2, 19, 6}, 4);
  const auto mask = Mask::from_lengths(at::tensor({19, 7}, at::kLong), 19);
  for (const bool causal : {false, true}) {
    const Context context = {.mask = {.causal = causal, .keep = mask.keep}};
    EXPECT_NEAR_TENSOR(run("{form: fused}", x, context), run("{form: naive}", x, context),
                       tolerance(at::kDouble));
  }
}

// A memory as long as the queries is still a memory: its padding is not hidden by causality.
TEST(Softmax, ACausalReadOfAPaddedMemoryHidesThePadding) {
  Site site = kSite;
  site.cross = true;
  const auto x = random_normal({1, 5, 6}, 5), memory = random_normal({1, 5, 6}, 6);
  auto other = memory.clone();
  other.select(1, 4).fill_(9);
  const Mask mask = {.causal = true, .keep = at::arange(5).unsqueeze(0) < 4};
  EXPECT_NEAR_TENSOR(run("", x, {.mask = mask, .memory = other}, site),
                     run("", x, {.mask = mask, .memory = memory}, site), tolerance(at::kDouble));
}

TEST(Softmax, TheWeightsOfALookAreTheSoftmaxOfTheScores) {
  const auto x = random_normal({1, 5, 6}, 7);
  Tensors maps;
  Site site = kSite;
  site.path = "layer.0";
  (void)run("", x, {.mask = {.causal = true}, .maps = &maps}, site);
  const auto weights = maps.at("layer.0");
  EXPECT_EQ(weights.sizes(), at::IntArrayRef({1, 2, 5, 5}));
  EXPECT_NEAR_TENSOR(weights.sum(-1), at::ones({1, 2, 5}), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(weights.triu(1), at::zeros({1, 2, 5, 5}), kExact);
}

TEST(Softmax, DropoutDropsInTrainingOnlyAndKeepsTheMean) {
  const auto mixer = make_mixer("softmax", kSite, "{dropout: 0.5}");
  const auto x = random_normal({1, 8, 6}, 8).to(at::kFloat);
  Context context = {.random = Random::from_seed(1)};
  mixer->eval();
  const auto y = (*mixer)(x, context);
  EXPECT_TRUE((*make_mixer("softmax", kSite))(x, context).allclose(y));
  mixer->train();
  auto sum = at::zeros_like(y);
  for (int64_t step = 0; step < 2000; ++step) {
    context.random = Random::from_seed(1, step);
    sum += (*mixer)(x, context).detach();
  }
  EXPECT_FALSE((*mixer)(x, context).equal(y));
  EXPECT_NEAR_TENSOR(sum / 2000, y, (Tolerance{.absolute = 0.1 * y.abs().max().item<double>()}));
}

TEST(Softmax, DropoutDropsTheSameWeightsInBothForms) {
  const auto x = random_normal({2, 9, 6}, 9);
  const Context context = {.mask = {.causal = true}, .random = Random::from_seed(2)};
  EXPECT_NEAR_TENSOR(run("{dropout: 0.4}", x, context),
                     run("{dropout: 0.4, form: naive}", x, context), tolerance(at::kDouble));
}

// Heads of a token are read off with an output projection that is the identity.
TEST(Softmax, AHeadMaskWeighsTheHeads) {
  const auto x = random_normal({2, 9, 6}, 10);
  const auto heads = [&](const std::string& options, bool training) {
    const auto mixer = make_mixer("softmax", kSite, options);
    mixer->to(at::kDouble);
    mixer->train(training);
    const at::NoGradGuard no_grad;
    mixer->named_parameters()["output.weight"].copy_(at::eye(6));
    Context context = {.random = Random::from_seed(3)};
    return (*mixer)(x, context).unflatten(2, {2, 3});
  };
  for (const std::string rest : {"", ", form: naive", ", dropout: 0.3"})
    for (const bool training : {false, true}) {
      const auto all = heads("{head_mask: [1, 1]" + rest + "}", training),
                 some = heads("{head_mask: [0, 0.5]" + rest + "}", training);
      EXPECT_NEAR_TENSOR(some.select(2, 0), at::zeros({2, 9, 3}), kExact);
      EXPECT_NEAR_TENSOR(some.select(2, 1), 0.5 * all.select(2, 1), tolerance(at::kDouble));
    }
}

TEST(Softmax, AHeadMaskHoldsWhileDecoding) {
  const auto mixer = make_mixer("softmax", kSite, "{head_mask: [0, 1]}");
  const auto x = random_normal({1, 5, 6}, 11).to(at::kFloat);
  const at::NoGradGuard no_grad;
  Context causal = {.mask = {.causal = true}}, context;
  State state;
  mixer->start(state, 1, 5, context);
  EXPECT_NEAR_TENSOR(mixer->extend(x, state, context), (*mixer)(x, causal), tolerance(at::kFloat));
}

TEST(Softmax, DropoutStoresNoPairs) {
  const auto peak = [](int64_t tokens) {
    const auto mixer = make_mixer("softmax", kSite, "{dropout: 0.1}");
    const auto x = random_normal({1, tokens, 6}, 12).to(at::kFloat);
    return measure([&] {
             Context context = {.random = Random::from_seed(1)};
             (*mixer)(x, context).sum().backward();
           })
        .peak_bytes;
  };
  EXPECT_LT(peak(4096), 2.2 * static_cast<double>(peak(2048)));
}

TEST(Softmax, DropoutWithoutARandomKeyIsAnError) {
  const auto mixer = make_mixer("softmax", kSite, "{dropout: 0.5}");
  Context context;
  EXPECT_EQ(error_of([&] {
              (void)(*mixer)(at::zeros({1, 4, 6}), context);
            }),
            ".dropout: random numbers wanted, but the context has no random key");
}

TEST(Softmax, RefusesOptionsThatItDoesNotHave) {
  EXPECT_EQ(error_of([] { (void)make_mixer("softmax", kSite, "{form: fast}"); }),
            "softmax options:1: softmax.form is 'fast'; one of: fused, libtorch, naive");
  EXPECT_EQ(error_of([] { (void)make_mixer("softmax", kSite, "{dropout: 1}"); }),
            "softmax options:1: softmax.dropout is 1, out of range; it may be 0..0.99");
  EXPECT_EQ(error_of([] { (void)make_mixer("softmax", kSite, "{dropuot: 0.1}"); }),
            "softmax options:1: unknown key 'dropuot'; did you mean 'dropout'?");
  EXPECT_EQ(error_of([] { (void)make_mixer("softmax", kSite, "{head_mask: [1, 2]}"); }),
            "softmax options:1: softmax.head_mask[1] is 2, out of range; it may be 0..1");
}

TEST(Softmax, RefusesInputsThatDoNotFit) {
  EXPECT_EQ(error_of([] {
              (void)run("", at::zeros({4, 6}, at::kDouble));
            }),
            "softmax: x is [4, 6], but needs [batch, tokens, width]");
  const Context context = {.mask = {.keep = at::ones({1, 3}, at::kBool)}};
  EXPECT_EQ(error_of([&] {
              (void)run("", at::zeros({1, 4, 6}, at::kDouble), context);
            }),
            "softmax: keep is [1, 3], but there are 1 rows of 4 keys");
}

}  // namespace
}  // namespace longbow
