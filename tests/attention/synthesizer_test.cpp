#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

bool flag(const Node& options, const std::string& name) {
  return as_boolean(*options.find(name), name);
}

Tensor projected(const torch::nn::Module& mixer, const Tensor& x, const std::string& name) {
  return x.matmul(oracle::tensor_of(mixer, name + ".weight").t()) +
         oracle::tensor_of(mixer, name + ".bias");
}

// The logits of one head from each token, [B, N, L].
Tensor from_tokens(const torch::nn::Module& mixer, const Tensor& hidden, const std::string& name,
                   int64_t head) {
  const auto w = oracle::tensor_of(mixer, name)[head];  // [L, e + 1]
  const int64_t e = w.size(1) - 1;
  return hidden.matmul(w.narrow(1, 0, e).t()) + w.select(1, e);
}

// All parts of the logits, [H, B, N, N] each, as far as they are on.
std::vector<Tensor> parts(const torch::nn::Module& mixer, const Node& options, const Tensor& x,
                          int64_t heads) {
  const int64_t b = x.size(0), n = x.size(1);
  const auto per_head = [&](const std::string& name, int64_t h) {
    const auto y = projected(mixer, x, name);
    const int64_t width = y.size(2) / heads;
    return y.narrow(2, h * width, width);
  };
  const auto of = [&](const std::function<Tensor(int64_t)>& logits) {
    std::vector<Tensor> all;
    for (int64_t h = 0; h < heads; ++h) all.push_back(logits(h).expand({b, n, n}));
    return at::stack(all);
  };
  const auto square = [&](const Tensor& s) { return s.narrow(0, 0, n).narrow(1, 0, n); };
  std::vector<Tensor> all;
  if (flag(options, "dense")) {
    auto s = of([&](int64_t h) {
      return from_tokens(mixer, per_head("dense", h).clamp_min(0), "dense_logits", h)
          .narrow(2, 0, n);
    });
    if (flag(options, "official"))
      s = s.permute({1, 2, 0, 3}).reshape({b, heads, n, n}).transpose(0, 1);
    all.push_back(s);
  }
  if (flag(options, "random"))
    all.push_back(of([&](int64_t h) { return square(oracle::tensor_of(mixer, "random")[h]); }));
  if (flag(options, "factorised_dense"))
    all.push_back(of([&](int64_t h) {
      const auto hidden = per_head("factors", h).clamp_min(0);
      const auto a = from_tokens(mixer, hidden, "factor_rows", h),
                 c = from_tokens(mixer, hidden, "factor_columns", h);
      auto s = at::zeros({b, n, n}, at::kDouble);
      for (int64_t j = 0; j < n; ++j)
        s.select(2, j) = a.select(2, j / c.size(2)) * c.select(2, j % c.size(2));
      return s;
    }));
  if (flag(options, "factorised_random"))
    all.push_back(of([&](int64_t h) {
      return square(oracle::tensor_of(mixer, "random_left")[h].matmul(
          oracle::tensor_of(mixer, "random_right")[h].t()));
    }));
  if (flag(options, "dot_product"))
    all.push_back(of([&](int64_t h) {
      const auto q = per_head("query", h), k = per_head("key", h);
      return q.matmul(k.transpose(1, 2)) / std::sqrt(static_cast<double>(q.size(2)));
    }));
  return all;
}

Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const int64_t heads = site.shape.heads, b = x.size(0), n = x.size(1);
  const bool official = flag(options, "official");
  const auto all = parts(mixer, options, x, heads);
  auto logits = at::zeros({heads, b, n, n}, at::kDouble);
  const auto alpha = all.size() > 1 && !official ? oracle::tensor_of(mixer, "mixture").softmax(0)
                                                 : at::ones({5}, at::kDouble);
  for (size_t m = 0; m < all.size(); ++m) logits = logits + alpha[static_cast<int64_t>(m)] * all[m];
  Context seen = context;
  if (official && !flag(options, "dot_product")) seen.mask.keep = Tensor();
  const auto read = oracle::weighted_mean(logits.transpose(0, 1).exp(),
                                          split_heads(projected(mixer, x, "value"), heads),
                                          oracle::visible(seen, b, n, n));
  return oracle::without_padding(projected(mixer, merge_heads(read), "output"), context);
}

const bool registered = oracle::add("synthesizer", dense);

const Site kSite = {.shape = {.width = 6, .heads = 2, .head_width = 3, .max_length = 12},
                    .init = "xavier"};

Mixer made(const std::string& options, const Site& site = kSite) {
  auto mixer = make_mixer("synthesizer", site, options);
  mixer->to(at::kDouble);
  return mixer;
}

Tensor run(const Mixer& mixer, const Tensor& x, bool causal = false) {
  Context context = {.mask = {.causal = causal}};
  return (*mixer)(x, context);
}

void set(const Mixer& mixer, const std::string& name, const Tensor& value) {
  const at::NoGradGuard no_grad;
  mixer->named_parameters()[name].copy_(value);
}

Tensor outputs(const Mixer& mixer, const Tensor& values) {
  return projected(*mixer, values, "output");
}

TEST(Synthesizer, RandomLogitsOfZeroReadTheMeanOfTheValues) {
  const auto mixer = made("{dot_product: false}");
  set(mixer, "random", at::zeros({2, 12, 12}));
  const auto x = random_normal({2, 9, 6}, 1);
  const auto v = projected(*mixer, x, "value");
  EXPECT_NEAR_TENSOR(run(mixer, x), outputs(mixer, v.mean(1, true).expand_as(v)),
                     tolerance(at::kDouble));
  const auto counts = at::arange(1, 10, at::kDouble).view({1, 9, 1});
  EXPECT_NEAR_TENSOR(run(mixer, x, true), outputs(mixer, v.cumsum(1) / counts),
                     tolerance(at::kDouble));
}

TEST(Synthesizer, ARankOfAllPositionsIsAnyRandomMatrix) {
  const auto whole = made("{dot_product: false}"),
             factors =
                 made("{dot_product: false, random: false, factorised_random: true, rank: 12}");
  set(factors, "random_left", oracle::tensor_of(*whole, "random"));
  set(factors, "random_right", at::eye(12).expand({2, 12, 12}));
  const auto x = random_normal({2, 12, 6}, 2);
  for (const bool causal : {false, true})
    EXPECT_NEAR_TENSOR(run(factors, x, causal), run(whole, x, causal), tolerance(at::kDouble));
}

TEST(Synthesizer, OneFactorRowIsARowOfLogitsTimesANumber) {
  const std::string rest = ", random: false, dot_product: false, hidden: 4}";
  const auto outer = made("{factorised_dense: true, rows: 1" + rest),
             plain = made("{dense: true" + rest);
  set(outer, "factor_rows", at::tensor({0., 0., 0., 0., 1.}).expand({2, 1, 5}));
  set(plain, "dense.weight", oracle::tensor_of(*outer, "factors.weight"));
  set(plain, "dense.bias", oracle::tensor_of(*outer, "factors.bias"));
  set(plain, "dense_logits", oracle::tensor_of(*outer, "factor_columns"));
  const auto x = random_normal({2, 11, 6}, 3);
  EXPECT_NEAR_TENSOR(run(outer, x), run(plain, x), tolerance(at::kDouble));
}

TEST(Synthesizer, DenseLogitsWithoutWeightsAreTheSameForEveryToken) {
  const auto mixer = made("{dense: true, random: false, dot_product: false}");
  auto logits = at::zeros({2, 12, 4}, at::kDouble);
  logits.select(2, 3) = random_normal({2, 12}, 4);
  set(mixer, "dense_logits", logits);
  const auto y = run(mixer, random_normal({1, 12, 6}, 5));
  EXPECT_NEAR_TENSOR(y, y.narrow(1, 0, 1).expand_as(y), tolerance(at::kDouble));
}

TEST(Synthesizer, AMixtureOfTheDotProductAloneIsSoftmaxAttention) {
  const auto mixer = made("{dense: true, factorised_dense: true, factorised_random: true}"),
             alone = made("{random: false}"), softmax = make_mixer("softmax", kSite, "");
  softmax->to(at::kDouble);
  set(mixer, "mixture", at::tensor({-2000., -2000., -2000., -2000., 0.}));
  const auto x = random_normal({2, 12, 6}, 6);
  for (const auto& other : {alone, softmax}) {
    for (const std::string name : {"query", "key", "value", "output"})
      for (const std::string kind : {".weight", ".bias"})
        set(other, name + kind, oracle::tensor_of(*mixer, name + kind));
    for (const bool causal : {false, true})
      EXPECT_NEAR_TENSOR(run(other, x, causal), run(mixer, x, causal), tolerance(at::kDouble));
  }
}

TEST(Synthesizer, WhoLooksSeesTheWeights) {
  for (const std::string options : {"{dot_product: false}", "{dense: true, random: false}"}) {
    const auto mixer = made(options);
    const auto x = random_normal({2, 7, 6}, 7);
    Tensors maps;
    Context context = {.maps = &maps};
    const auto y = (*mixer)(x, context);
    EXPECT_NEAR_TENSOR(y, run(mixer, x), tolerance(at::kDouble));
    ASSERT_EQ(maps.at("").sizes(), (std::vector<int64_t>{2, 2, 7, 7}));
    EXPECT_NEAR_TENSOR(maps.at("").sum(-1), at::ones({2, 2, 7}), tolerance(at::kDouble));
  }
}

TEST(Synthesizer, OnlyValuesAreKeptWhileDecodingUnlessThereIsADotProduct) {
  Context context;
  State state;
  made("{dot_product: false}")->start(state, 1, 12, context);
  EXPECT_FALSE(state.lane.count("keys"));
  made("")->start(state, 1, 12, context);
  EXPECT_TRUE(state.lane.count("keys"));
}

TEST(Synthesizer, FixedMatricesAreSavedButNotTrained) {
  const auto mixer = made("{dot_product: false, fixed: true, factorised_random: true}");
  for (const std::string name : {"random", "random_left", "random_right"}) {
    EXPECT_TRUE(mixer->named_buffers().contains(name)) << name;
    EXPECT_FALSE(mixer->named_parameters().contains(name)) << name;
  }
}

TEST(Synthesizer, RefusesWhatItCannotBuildOrHold) {
  EXPECT_EQ(error_of([] { made("{random: false, dot_product: false}"); }),
            "synthesizer options:1: synthesizer.random is off as all other parts of the logits; "
            "switch on dense, random, "
            "factorised_dense, factorised_random or dot_product");
  Site unknown = kSite;
  unknown.shape.max_length = 0;
  EXPECT_EQ(error_of([&] { made("", unknown); }),
            "synthesizer: synthetic logits need the longest sequence; set max_length");
  EXPECT_EQ(error_of([] {
              run(made(""), at::zeros({1, 13, 6}, at::kDouble));
            }),
            "synthesizer: 13 tokens, but max_length is 12");
  EXPECT_EQ(error_of([] {
              State state;
              Context context;
              made("")->start(state, 1, 13, context);
            }),
            "synthesizer: 13 tokens of a state, but max_length is 12");
}

}  // namespace
}  // namespace longbow
