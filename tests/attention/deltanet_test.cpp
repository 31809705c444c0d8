#include <ATen/ATen.h>

#include <cmath>

#include "longbow/attention/mechanism.h"
#include "tests/attention/recurrent.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 12, kHeads = 2;
const Site kSite = {.shape = {.width = kWidth, .heads = kHeads, .max_length = 64},
                    .init = "xavier"};

// What each head has of the tokens: q, k, v [1, H, n, ·], beta and ln of the decay [1, H, n, 1].
struct Parts {
  Tensor q, k, v, beta, log_decay;
};
Parts parts_of(const torch::nn::Module& mixer, const std::string& prefix, const Node& options,
               int64_t heads, const Tensor& x) {
  const auto own = oracle::recurrent_heads(mixer, prefix, heads, x);
  const auto unit = [](const Tensor& t) { return t / (t.square().sum(-1, true) + 1e-6).sqrt(); };
  const auto beta = as_number(*options.find("most_beta"), "most_beta") *
                    at::sigmoid(oracle::projected(mixer, prefix + "beta", x));
  auto log_decay = at::zeros_like(beta);
  if (as_boolean(*options.find("gated"), "gated"))
    log_decay = -oracle::tensor_of(mixer, prefix + "steps.log_rate").exp() *
                (1 + (oracle::projected(mixer, prefix + "decay", x) +
                      oracle::tensor_of(mixer, prefix + "steps.bias"))
                         .exp())
                    .log();
  return {unit(own.q) / std::sqrt(static_cast<double>(own.q.size(3))), unit(own.k), own.v,
          split_heads(beta, heads), split_heads(log_decay, heads)};
}

// Every pair: u = (I + M)^-1 beta v with M_ij = beta_i d_ij k_i . k_j for j < i, and o_i = sum_{j
// <= i} d_ij (q_i . k_j) u_j, where d_ij is the decay after j up to i.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const auto run = [&](const std::string& prefix, const Tensor& tokens, const Tensor&) {
    const auto [q, k, v, beta, log_decay] =
        parts_of(mixer, prefix, options, site.shape.heads, tokens);
    const auto sums = log_decay.cumsum(2);
    const auto between = sums - sums.transpose(2, 3);
    const auto kept = at::where(between > 0, 0, between).exp();
    const auto m = (beta * kept * k.matmul(k.transpose(2, 3))).tril(-1);
    const auto identity = at::eye(m.size(3), at::kDouble);
    const auto u = at::linalg_inv(identity + m).matmul(beta * v);
    const auto o = (kept * q.matmul(k.transpose(2, 3))).tril().matmul(u);
    return oracle::recurrent_output(mixer, prefix, o, tokens,
                                    as_number(*options.find("norm_epsilon"), "norm_epsilon"));
  };
  return oracle::both_ways(options, x, context, run);
}
const bool registered = oracle::add("deltanet", dense);

Mixer made(const std::string& options = "", const Site& site = kSite) {
  const auto mixer = make_mixer("deltanet", site, options);
  mixer->to(at::kDouble);
  return mixer;
}

void set(const Mixer& mixer, const std::string& name, const Tensor& value) {
  const at::NoGradGuard no_grad;
  mixer->named_parameters()[name].copy_(value);
}

Tensor causal(const Mixer& mixer, const Tensor& x) {
  Context context = {.mask = {.causal = true}};
  return (*mixer)(x, context);
}

// S_t = A_t + beta_t k_t (v_t - A_t^T k_t)^T with A_t = exp(g_t) S_{t-1}, token by token.
TEST(DeltaNet, IsTheRecurrence) {
  for (const std::string options : {"{}", "{gated: true}", "{most_beta: 2, convolution: 0}"}) {
    const auto mixer = made(options);
    const auto resolved = find_mechanism("deltanet").resolve(parse_yaml(options, "options"));
    const auto x = random_normal({1, 100, kWidth}, 1);
    const auto parts = parts_of(*mixer, "forward.", resolved, kHeads, x);
    auto sums = at::zeros({1, kHeads, 6, 6}, at::kDouble);
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < 100; ++t) {
      const auto row = [&](const Tensor& all) { return all.narrow(2, t, 1); };
      sums = sums * row(parts.log_decay).exp();
      const auto held = row(parts.k).matmul(sums);
      sums = sums + row(parts.k).transpose(2, 3).matmul(row(parts.beta) * (row(parts.v) - held));
      rows.push_back(row(parts.q).matmul(sums));
    }
    EXPECT_NEAR_TENSOR(causal(mixer, x),
                       oracle::recurrent_output(*mixer, "forward.", at::cat(rows, 2), x),
                       tolerance(at::kDouble))
        << options;
  }
}

// Tokens are one-hot and so are their keys and queries; beta is 1. What a token reads is the value
// that it wrote just now, whatever was written for its key before.
TEST(DeltaNet, WithOrthonormalKeysItIsAStoreThatOverwrites) {
  const Site site = {.shape = {.width = 8, .heads = 1}, .bias = false};
  const auto mixer = made("{convolution: 0, norm_epsilon: 1e-12}", site);
  const auto first = at::eye(4, at::kDouble), none = at::zeros({4, 4}, at::kDouble);
  for (const std::string name : {"query", "key"})
    set(mixer, "forward." + name + ".weight",
        at::cat({at::cat({first, none}, 1), at::cat({none, none}, 1)}));
  set(mixer, "forward.value.weight", at::eye(8));
  set(mixer, "forward.output.weight", at::eye(8));
  set(mixer, "forward.beta.weight", at::full({1, 8}, 100));
  const auto places = at::eye(4, at::kDouble).repeat({3, 1}).unsqueeze(0);  // each key thrice
  const auto x = at::cat({places, random_normal({1, 12, 4}, 2).abs() + 1}, 2);
  const auto want = x / x.square().mean(-1, true).sqrt();
  EXPECT_NEAR_TENSOR(causal(mixer, x), want, (Tolerance{.absolute = 1e-5}));
}

TEST(DeltaNet, WithoutWritingItReadsNothing) {
  const auto mixer = made();
  set(mixer, "forward.beta.weight", at::zeros({kHeads, kWidth}));
  set(mixer, "forward.beta.bias", at::full({kHeads}, -1e4));
  const auto x = random_normal({1, 20, kWidth}, 3);
  EXPECT_NEAR_TENSOR(causal(mixer, x),
                     oracle::tensor_of(*mixer, "forward.output.bias").expand({1, 20, kWidth}),
                     tolerance(at::kDouble));
}

TEST(DeltaNet, AGateThatStaysOpenChangesNothing) {
  const auto plain = made(), gated = made("{gated: true}");
  for (const auto& entry : plain->named_parameters())
    set(gated, entry.key(), plain->named_parameters()[entry.key()]);
  set(gated, "forward.steps.log_rate", at::full({kHeads}, -INFINITY));
  const auto x = random_normal({2, 90, kWidth}, 4);
  EXPECT_NEAR_TENSOR(causal(gated, x), causal(plain, x), tolerance(at::kDouble));
}

// Each step is a contraction or a reflection, so that nothing grows, in float32 too.
TEST(DeltaNet, LargeTokensAndManyStepsStayFinite) {
  const auto mixer = make_mixer("deltanet", kSite, "{most_beta: 2, gated: true}");
  set(mixer, "forward.decay.weight", 1e3 * random_normal({kHeads, kWidth}, 5));
  const auto x = (100 * random_normal({1, 2000, kWidth}, 6)).to(at::kFloat).requires_grad_();
  Context context;
  const auto y = (*mixer)(x, context);
  y.square().sum().backward();
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

TEST(DeltaNet, TheStateIsOneMatrixForEachHeadWhateverTheLength) {
  const auto mixer = make_mixer("deltanet", kSite, "{value_width: 4}");
  mixer->to(at::kBFloat16);
  State state;
  Context context;
  mixer->start(state, 2, 1000000, context);
  ASSERT_EQ(state.lane.size(), 2u);
  EXPECT_EQ(state.lane.at("sums").sizes(), at::IntArrayRef({2, kHeads, 6, 4}));
  EXPECT_EQ(state.lane.at("sums").scalar_type(), at::kFloat);
  EXPECT_EQ(state.lane.at("short_convolution").sizes(), at::IntArrayRef({2, 3, 32}));
}

TEST(DeltaNet, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("{most_beta: 2.5}"); }),
            "deltanet options:1: deltanet.most_beta is 2.5, out of range; it may be > 0, <= 2");
  EXPECT_EQ(error_of([] { (void)made("{convolution: -1}"); }),
            "deltanet options:1: deltanet.convolution is -1, out of range; it may be 0..1024");
  EXPECT_EQ(error_of([] {
              (void)causal(made("{backward: own}"), random_normal({1, 3, kWidth}, 8));
            }).find("deltanet: is not causal; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
