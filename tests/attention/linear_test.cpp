#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor features(const Tensor& x, const std::string& map) {
  if (map == "relu") return x.clamp_min(0);
  if (map == "square") return x * x;
  if (map == "exp") return x.exp();
  if (map == "softmax") return x.exp() / x.exp().sum(-1, true);
  return map == "identity" ? x : at::where(x > 0, x + 1, x.exp());
}

// phi(q_i) . phi(k_j) instead of exp(q_i . k_j). `real` [B, 1, M, 1] says which keys a softmax over
// positions counts.
Tensor linear(const Node& options, const Tensor& q, const Tensor& k, const Tensor& v,
              const Tensor& visible, const Tensor& real) {
  const auto text = [&](const std::string& name) { return as_string(*options.find(name), name); };
  const auto map = text("map"), key_map = text("key_map"), normaliser = text("normaliser");
  const double epsilon = as_number(*options.find("epsilon"), "epsilon");
  const auto keys = [&](const Tensor& x) {
    if (key_map != "positions") return features(x, key_map == "same" ? map : key_map);
    const auto weights = x.exp() * real;
    return weights / weights.sum(-2, true).clamp_min(1e-300);
  };
  auto weights = features(q, map).matmul(keys(k).transpose(-2, -1));
  if (as_boolean(*options.find("widen"), "widen"))
    weights = weights + features(-q, map).matmul(keys(-k).transpose(-2, -1));
  weights = weights * visible;
  const auto o = weights.matmul(v), sum = weights.sum(-1, true);
  if (normaliser == "none") return o;
  if (normaliser == "rms") return o / ((o * o).mean(-1, true) + epsilon).sqrt();
  return o / (normaliser == "sum" ? sum + epsilon : sum.clamp_min(epsilon));
}

const bool registered = oracle::add("linear", [](const torch::nn::Module& mixer,
                                                 const Node& options, const Site& site,
                                                 const Tensor& x, const Context& context) {
  const auto& keep = context.mask.keep;
  const auto real = keep.defined() ? keep.unsqueeze(1).unsqueeze(-1).to(at::kDouble)
                                   : at::ones({1, 1, 1, 1}, at::kDouble);
  const bool learned = as_string(*options.find("map"), "map") == "learned";
  const auto rows = [&](const Tensor& heads) {  // W x, head by head
    if (!learned) return heads;
    return at::einsum("bhnd,hrd->bhnr", {heads, oracle::tensor_of(mixer, "attention.map")});
  };
  return oracle::multi_head(
      mixer, site, x, context,
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
        const bool all = as_boolean(*options.find("official"), "official");
        return linear(options, rows(q), rows(k), v, all ? at::ones_like(visible) : visible, real);
      });
});

const Site kSite = {.shape = {.width = 6, .heads = 2, .head_width = 3, .max_length = 64},
                    .init = "xavier"};

Mixer made(const std::string& options = "") {
  const auto mixer = make_mixer("linear", kSite, options);
  mixer->to(at::kDouble);
  return mixer;
}

TEST(Linear, OneKeyGivesItsValue) {
  const auto mixer = made();
  const auto x = random_normal({2, 1, 6}, 1);
  Context context;
  const auto value = x.matmul(oracle::tensor_of(*mixer, "value.weight").t());
  EXPECT_NEAR_TENSOR((*mixer)(x, context),
                     value.matmul(oracle::tensor_of(*mixer, "output.weight").t()),
                     (Tolerance{1e-5, 1e-5}));
}

// The recurrence as the paper writes it: S_t = S_{t-1} + phi(k_t) v_t^T, z_t = z_{t-1} + phi(k_t).
TEST(Linear, CausallyItIsTheRecurrence) {
  const auto mixer = made();
  const auto x = random_normal({1, 40, 6}, 2);
  const auto projected = [&](const std::string& name) {
    return split_heads(x.matmul(oracle::tensor_of(*mixer, name + ".weight").t()),
                       2)[0];  // [H, N, D]
  };
  const auto q = features(projected("query"), "elu"), k = features(projected("key"), "elu"),
             v = projected("value");
  auto sums = at::zeros({2, 3, 3}, at::kDouble), z = at::zeros({2, 3, 1}, at::kDouble);
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < 40; ++t) {
    const auto row = [&](const Tensor& heads) { return heads.narrow(1, t, 1); };  // [H, 1, D]
    sums = sums + row(k).transpose(1, 2).matmul(row(v));
    z = z + row(k).transpose(1, 2);
    rows.push_back(row(q).matmul(sums) / (row(q).matmul(z) + 1e-6));
  }
  const auto merged = merge_heads(at::cat(rows, 1).unsqueeze(0));
  Context context = {.mask = {.causal = true}};
  EXPECT_NEAR_TENSOR((*mixer)(x, context),
                     merged.matmul(oracle::tensor_of(*mixer, "output.weight").t()),
                     tolerance(at::kDouble));
}

TEST(Linear, TheStateIsOneSumPerHeadWhateverTheLength) {
  const auto mixer = made();
  State state;
  Context context;
  mixer->start(state, 2, 1000000, context);
  ASSERT_EQ(state.lane.size(), 1u);
  EXPECT_EQ(state.lane.at("sums").sizes(), at::IntArrayRef({2, 2, 3, 4}));
}

TEST(Linear, ALearnedMapStartsAnywhereAndIsEluWhereItsMatrixIsOne) {
  const auto mixer = made("{map: learned}"), elu = made();
  EXPECT_EQ(oracle::tensor_of(*mixer, "attention.map").sizes(), at::IntArrayRef({2, 3, 3}));
  const auto x = random_normal({2, 9, 6}, 12);
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}};
    EXPECT_FALSE((*mixer)(x, context).allclose((*elu)(x, context)));
  }
  {
    const at::NoGradGuard no_grad;
    mixer->named_parameters()["attention.map"].copy_(at::eye(3));
  }
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}};
    EXPECT_NEAR_TENSOR((*mixer)(x, context), (*elu)(x, context), tolerance(at::kDouble));
  }
}

TEST(Linear, TheStateOfALearnedMapHasItsFeatures) {
  const auto mixer = made("{map: learned, features: 8, widen: true}");
  State state;
  Context context;
  mixer->start(state, 2, 1000000, context);
  EXPECT_EQ(state.lane.at("sums").sizes(), at::IntArrayRef({2, 2, 16, 4}));
}

// Sums of the features of its keys, however long it is.
TEST(Linear, AMemoryIsOneSumPerHead) {
  Site site = kSite;
  site.cross = true;
  const auto mixer = make_mixer("linear", site, "{map: learned, features: 5}");
  State state;
  Context context = {.memory = random_normal({2, 50, 6}, 13).to(at::kFloat)};
  mixer->start(state, 2, 9, context);
  EXPECT_TRUE(state.lane.empty());
  ASSERT_EQ(state.child.at("memory").lane.size(), 1u);
  EXPECT_EQ(state.child.at("memory").lane.at("sums").sizes(), at::IntArrayRef({2, 2, 5, 4}));
}

TEST(Linear, TheStateOfHalfTypesIsFloat32) {
  const auto mixer = make_mixer("linear", kSite);
  mixer->to(at::kBFloat16);
  State state;
  Context context;
  mixer->start(state, 1, 8, context);
  EXPECT_EQ(state.lane.at("sums").scalar_type(), at::kFloat);
}

TEST(Linear, EachMapGivesOtherValues) {
  const auto x = random_normal({1, 9, 6}, 3);
  Context context;
  std::vector<Tensor> outputs;
  for (const std::string options :
       {"map: elu", "map: relu", "map: square", "map: softmax", "widen: true", "key_map: exp",
        "key_map: positions", "normaliser: rms", "normaliser: none",
        "map: identity, normaliser: none"})
    outputs.push_back((*made("{" + options + "}"))(x, context));
  for (size_t i = 0; i < outputs.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(outputs[i].allclose(outputs[j])) << i << " " << j;
}

// A softmax over channels and one over positions weigh each value with a probability.
TEST(Linear, EfficientAttentionNeedsNoDenominator) {
  const auto x = random_normal({1, 9, 6}, 5);
  Context context;
  EXPECT_NEAR_TENSOR((*made("{map: softmax, key_map: positions, normaliser: none}"))(x, context),
                     (*made("{map: softmax, key_map: positions, normaliser: clamp}"))(x, context),
                     tolerance(at::kDouble));
}

TEST(Linear, TheRmsOfWhatIsReadIsOne) {
  const auto mixer = made("{normaliser: rms, epsilon: 1e-12}");
  {
    const at::NoGradGuard no_grad;
    mixer->named_parameters()["output.weight"].copy_(at::eye(6));
  }
  Context context = {.mask = {.causal = true}};
  const auto heads = (*mixer)(random_normal({1, 9, 6}, 6), context).view({1, 9, 2, 3});
  EXPECT_NEAR_TENSOR(heads.square().mean(-1), at::ones({1, 9, 2}, at::kDouble),
                     (Tolerance{1e-6, 0}));
}

TEST(Linear, DropoutIsOnWhatIsRead) {
  const auto x = random_normal({1, 50, 6}, 7);
  const auto mixer = made("{dropout: 0.5}"), plain = made();
  {
    const at::NoGradGuard no_grad;
    for (const auto& made : {mixer, plain})
      made->named_parameters()["output.weight"].copy_(at::eye(6));
  }
  const auto run = [&] {
    Context context = {.random = Random::from_seed(1)};
    return (*mixer)(x, context);
  };
  Context context;
  const auto want = (*plain)(x, context), y = run(), kept = y.ne(0);
  EXPECT_NEAR_TENSOR(y, want * 2 * kept, tolerance(at::kDouble));
  EXPECT_LT(std::abs(kept.to(at::kDouble).mean().item<double>() - 0.5), 0.15);
  mixer->eval();
  EXPECT_NEAR_TENSOR(run(), want, kExact);
}

TEST(Linear, AQueryWithoutFeaturesReadsNothing) {
  const auto mixer = made("{map: relu}");
  {
    const at::NoGradGuard no_grad;
    mixer->named_parameters()["query.bias"].fill_(-1e3);
    mixer->named_parameters()["output.bias"].fill_(0.25);
  }
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(random_normal({1, 5, 6}, 4), context), at::full({1, 5, 6}, 0.25),
                     kExact);
}

// Queries and keys far below zero: elu(x) + 1 would round to 0, and then the epsilon alone decides.
TEST(Linear, KeepsItsPrecisionWhereFeaturesAreSmall) {
  const auto mixer = made("{epsilon: 1e-30}"),
             single = make_mixer("linear", kSite, "{epsilon: 1e-30}");
  const at::NoGradGuard no_grad;
  for (const auto& module : {mixer, single})
    for (const auto* bias : {"query.bias", "key.bias"}) module->named_parameters()[bias].fill_(-17);
  const auto x = random_normal({1, 9, 6}, 9);
  Context context, other;
  EXPECT_NEAR_TENSOR((*single)(x.to(at::kFloat), context).to(at::kDouble), (*mixer)(x, other),
                     (Tolerance{1e-4, 1e-4}));
}

TEST(Linear, LargeKeysDoNotOverflowTheExponential) {
  const auto mixer = make_mixer("linear", kSite, "{map: softmax, key_map: exp}");
  mixer->named_parameters()["key.bias"].detach().fill_(200);
  for (const bool causal : {false, true}) {
    const auto x = random_normal({1, 9, 6}, 10).to(at::kFloat).requires_grad_();
    Context context = {.mask = {.causal = causal}};
    const auto y = (*mixer)(x, context);
    y.sum().backward();
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  }
}

TEST(Linear, TheOfficialFormReadsPadding) {
  const auto official = made("{official: true}"), plain = made();
  const auto x = random_normal({1, 9, 6}, 11);
  Context padded = {.mask = {.keep = (at::arange(9) < 5).unsqueeze(0)}}, all;
  EXPECT_NEAR_TENSOR((*official)(x, padded).slice(1, 0, 5), (*plain)(x, all).slice(1, 0, 5),
                     kExact);
}

TEST(Linear, RefusesOptionsThatItDoesNotHave) {
  EXPECT_EQ(
      error_of([] { (void)made("{map: cosine}"); }),
      "linear options:1: linear.map is 'cosine'; one of: elu, relu, square, softmax, identity, "
      "learned");
  EXPECT_EQ(error_of([] { (void)made("{key_map: relu}"); }),
            "linear options:1: linear.key_map is 'relu'; one of: same, exp, positions");
  EXPECT_EQ(error_of([] { (void)made("{normaliser: mean}"); }),
            "linear options:1: linear.normaliser is 'mean'; one of: sum, clamp, rms, none");
  Context causal = {.mask = {.causal = true}};
  EXPECT_EQ(error_of([&] {
              (*made("{key_map: positions}"))(random_normal({1, 3, 6}, 8), causal);
            }).find("linear: is not causal; mechanisms that do: "),
            0u);
  EXPECT_EQ(error_of([] { (void)made("{epsilon: 0}"); }),
            "linear options:1: linear.epsilon is 0, out of range; it may be > 0");
}

}  // namespace
}  // namespace longbow
