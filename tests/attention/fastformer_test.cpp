#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// The softmax average of one head's rows [N, D] over those that `real` [N] marks; zero over none.
Tensor average(const Tensor& scores, const Tensor& rows, const Tensor& real) {
  const auto weights = (scores - scores.max()).exp() * real;  // [N]
  const auto sum = weights.sum();
  return sum.item<double>() > 0 ? weights.matmul(rows) / sum : at::zeros_like(rows[0]);
}

// The equations, one sequence and one token after another; causally each average ends at its token.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const auto tensor = [&](const std::string& name) { return oracle::tensor_of(mixer, name); };
  const auto projected = [&](const Tensor& rows, const std::string& name) {
    return rows.matmul(tensor(name + ".weight").t()) + tensor(name + ".bias");
  };
  const bool full = as_string(*options.find("score_scope"), "score_scope") == "full";
  const auto flag = [&](const std::string& name) {
    const auto* option = options.find(name);
    return option && as_boolean(*option, name);
  };
  const bool shared = flag("share_qv"), by_head = flag("head_transform");
  const auto* global = options.find("global_key");
  const bool raw = global && as_string(*global, "global_key") == "keys";
  const int64_t heads = site.shape.heads, d = site.shape.head(), n = x.size(1);
  const auto scores = [&](const Tensor& rows, const std::string& name) {  // [N, H D] -> [N, H]
    const auto s = full ? projected(rows, name) : (rows.view({n, heads, d}) * tensor(name)).sum(-1);
    return s / std::sqrt(static_cast<double>(d));
  };
  // [N, H D]: the average that each token reads.
  const auto averages = [&](const Tensor& scored, const Tensor& rows, const std::string& name,
                            const Tensor& real) {
    const auto s = scores(scored, name);
    std::vector<Tensor> tokens;
    for (int64_t i = 0; i < n; ++i) {
      const auto seen = context.mask.causal ? real * (at::arange(n) <= i) : real;
      std::vector<Tensor> by_head;
      for (int64_t h = 0; h < heads; ++h)
        by_head.push_back(average(s.select(1, h), rows.narrow(1, h * d, d), seen));
      tokens.push_back(at::cat(by_head));
    }
    return at::stack(tokens);
  };
  std::vector<Tensor> sequences;
  for (int64_t b = 0; b < x.size(0); ++b) {
    const auto real = context.mask.keep.defined() ? context.mask.keep[b].to(at::kDouble)
                                                  : at::ones({n}, at::kDouble);
    const auto q = projected(x[b], "query"), k = projected(x[b], "key");
    const auto v = shared ? q : projected(x[b], "value");
    const auto p = averages(q, q, "query_score", real) * k;
    const auto c = averages(p, raw ? k : p, "key_score", real);
    const auto u = by_head ? (c * v).view({n, heads, d}) : c * v;
    const auto y = projected(u, "transform").view_as(q) + q;
    const bool direct = heads * d == site.shape.width && !by_head;
    sequences.push_back(direct ? y : projected(y, "output"));
  }
  return oracle::without_padding(at::stack(sequences), context);
}

const bool registered = oracle::add("fastformer", dense);

const Site kSite = {.shape = {.width = 6, .heads = 2, .max_length = 32}, .init = "xavier"};

Mixer made(const std::string& options = "", const Site& site = kSite) {
  const auto mixer = make_mixer("fastformer", site, options);
  mixer->to(at::kDouble);
  const at::NoGradGuard no_grad;
  uint64_t seed = 0;
  for (auto& parameter : mixer->parameters())
    parameter.add_(random_normal(parameter.sizes(), ++seed), 0.5);
  return mixer;
}

Tensor projected(const Mixer& mixer, const Tensor& x, const std::string& name) {
  return x.matmul(oracle::tensor_of(*mixer, name + ".weight").t()) +
         oracle::tensor_of(*mixer, name + ".bias");
}

TEST(Fastformer, OneTokenHasAClosedForm) {
  const auto x = random_normal({3, 1, 6}, 1);
  for (const bool causal : {false, true}) {
    const auto mixer = made("{running: true}");
    Context context = {.mask = {.causal = causal}};
    const auto q = projected(mixer, x, "query");
    const auto product = q * projected(mixer, x, "key") * projected(mixer, x, "value");
    EXPECT_NEAR_TENSOR((*mixer)(x, context), projected(mixer, product, "transform") + q,
                       tolerance(at::kDouble));
  }
}

TEST(Fastformer, IsTheEquationInLoopsWhereHeadsFillTheWidth) {
  const auto x = random_normal({2, 7, 6}, 2);
  for (const std::string scope : {"head", "full"})
    for (const std::string more :
         {"share_qv: false", "share_qv: true", "share_qv: false, global_key: keys",
          "share_qv: false, head_transform: true"})
      for (const bool causal : {false, true}) {
        const auto text = "{running: true, score_scope: " + scope + ", " + more + "}";
        const auto mixer = made(text);
        Context context = {.mask = {.causal = causal, .keep = at::arange(7).expand({2, 7}) < 5}};
        const auto want = dense(*mixer, parse_yaml(text, "test"), kSite, x, context);
        EXPECT_NEAR_TENSOR((*mixer)(x, context), want, tolerance(at::kDouble));
      }
}

TEST(Fastformer, ASequenceWithoutRealTokensHasNoGlobalVectors) {
  const auto x = random_normal({1, 4, 6}, 3);
  const auto mixer = made();
  Context context = {
      .mask = {.keep = at::zeros({1, 4}, at::kBool), .query_keep = at::ones({1, 4}, at::kBool)}};
  const auto want = projected(mixer, x, "query") + oracle::tensor_of(*mixer, "transform.bias");
  EXPECT_NEAR_TENSOR((*mixer)(x, context), want, tolerance(at::kDouble));
}

// exp(600) has no place in float64 beside exp(-600): a sum with one common maximum would lose the
// first tokens.
TEST(Fastformer, RunningAveragesSurviveScoresOfAnySize) {
  const auto mixer = made("{running: true}");
  {
    const at::NoGradGuard no_grad;
    mixer->named_parameters()["query_score"].mul_(2000);
  }
  const auto x = random_normal({1, 150, 6}, 4);
  Context context = {.mask = {.causal = true}};
  const auto y = (*mixer)(x, context);
  for (const int64_t count : {1, 10, 64, 65, 130})
    EXPECT_NEAR_TENSOR(y.narrow(1, 0, count), (*mixer)(x.narrow(1, 0, count), context),
                       tolerance(at::kDouble));
  EXPECT_TRUE(y.isfinite().all().item<bool>());
}

TEST(Fastformer, WhereAllTokensAgreeRunningAveragesAreTheGlobalOnes) {
  const auto mixer = made("{running: true}");
  {
    const at::NoGradGuard no_grad;  // queries and keys are their biases; values still differ
    mixer->named_parameters()["key.weight"].zero_();
    mixer->named_parameters()["query.weight"].zero_();
  }
  const auto x = random_normal({1, 100, 6}, 5);
  Context causal = {.mask = {.causal = true}}, both;
  EXPECT_NEAR_TENSOR((*mixer)(x, causal), (*mixer)(x, both), tolerance(at::kDouble));
}

TEST(Fastformer, TheStateIsTwoAveragesInFloat32) {
  const auto mixer = make_mixer("fastformer", kSite, "{running: true}");
  mixer->to(at::kBFloat16);
  State state;
  Context context;
  mixer->start(state, 2, 1000000, context);
  ASSERT_EQ(state.lane.size(), 6u);
  EXPECT_EQ(state.lane.at("query_values").sizes(), at::IntArrayRef({2, 2, 1, 3}));
  EXPECT_EQ(state.lane.at("key_weights").sizes(), at::IntArrayRef({2, 2, 1, 1}));
  EXPECT_EQ(state.lane.at("key_values").scalar_type(), at::kFloat);
}

TEST(Fastformer, HasTheParametersThatItsOptionsNeed) {
  const auto has = [](const std::string& options, const std::string& name) {
    return made(options)->named_parameters().contains(name);
  };
  EXPECT_TRUE(has("", "value.weight"));
  EXPECT_FALSE(has("{share_qv: true}", "value.weight"));
  EXPECT_TRUE(has("{score_scope: full}", "key_score.bias"));
  EXPECT_TRUE(has("", "key_score"));
  EXPECT_FALSE(has("", "output.weight")) << "heads fill the width";
  EXPECT_TRUE(has("{head_transform: true}", "output.weight"));
  EXPECT_EQ(made("{head_transform: true}")->named_parameters()["transform.weight"].sizes(),
            at::IntArrayRef({3, 3}));
}

TEST(Fastformer, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("{score_scope: both}"); }),
            "fastformer options:1: fastformer.score_scope is 'both'; one of: head, full");
  EXPECT_EQ(error_of([] { (void)made("{global_key: values}"); }),
            "fastformer options:1: fastformer.global_key is 'values'; one of: products, keys");
  Context causal = {.mask = {.causal = true}};
  const auto x = random_normal({1, 3, 6}, 6);
  EXPECT_EQ(error_of([&] {
              (*made())(x, causal);
            }).find("fastformer: is not causal; mechanisms that do: "),
            0u);
  State state;
  EXPECT_EQ(error_of([&] {
              made()->start(state, 1, 8, causal);
            }).find("fastformer: has no decoding state; mechanisms that do: "),
            0u);
  Context crossing = {.memory = x};
  EXPECT_EQ(error_of([&] {
              (*made())(x, crossing);
            }).find("fastformer: cannot attend to a memory; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
