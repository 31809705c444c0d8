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

// ln of the decays, [1, H, n, Dk or 1].
Tensor log_decay(const torch::nn::Module& mixer, const std::string& prefix, const Node& options,
                 int64_t heads, const Tensor& x) {
  const auto kind = as_string(*options.find("decay"), "decay");
  if (kind == "fixed") {
    std::vector<Tensor> each;
    for (int64_t h = 0; h < heads; ++h)
      each.push_back(at::full({x.size(1), 1}, std::log(1 - std::pow(2, -5 - h)), at::kDouble));
    return at::stack(each).unsqueeze(0);
  }
  auto logit = kind == "channel" ? oracle::projected(mixer, prefix + "decay_in", x) : x;
  logit = oracle::projected(mixer, prefix + "decay", logit);
  const double tau = as_number(*options.find("gate_divisor"), "gate_divisor");
  return split_heads(at::sigmoid(logit).log() / tau, heads);
}

// Every pair: w_ij = sum_c q_ic k_jc exp(g_{j+1} + … + g_i)_c for j <= i.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const int64_t heads = site.shape.heads;
  const bool rotary = as_boolean(*options.find("rotary"), "rotary");
  const auto run = [&](const std::string& prefix, const Tensor& tokens, const Tensor& positions) {
    auto [q, k, v, own, source] = oracle::recurrent_heads(mixer, prefix, heads, tokens);
    if (rotary) {
      q = Rotary()(q, positions);
      k = Rotary()(k, positions);
    }
    const auto sums = log_decay(mixer, prefix, options, heads, tokens).cumsum(2);
    const auto between = sums.unsqueeze(3) - sums.unsqueeze(2);  // [1, H, n, n, Dk or 1]
    const auto faded = at::where(between > 0, 0, between).exp();
    const auto weights = (q.unsqueeze(3) * k.unsqueeze(2) * faded).sum(-1).tril();
    const auto o = weights.matmul(v) / std::sqrt(static_cast<double>(q.size(3)));
    return oracle::recurrent_output(mixer, prefix, o, tokens,
                                    as_number(*options.find("norm_epsilon"), "norm_epsilon"));
  };
  return oracle::both_ways(options, x, context, run);
}
const bool registered = oracle::add("gla", dense);

Mixer made(const std::string& options = "", const Site& site = kSite) {
  const auto mixer = make_mixer("gla", site, options);
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

// S_t = diag(exp(g_t)) S_{t-1} + k_t v_t^T, token by token.
TEST(Gla, IsTheRecurrence) {
  for (const std::string options : {"{}", "{decay: head, gate_divisor: 2}", "{decay: fixed}"}) {
    const auto mixer = made(options);
    const auto resolved = find_mechanism("gla").resolve(parse_yaml(options, "options"));
    const auto x = random_normal({1, 100, kWidth}, 1);
    const auto heads = oracle::recurrent_heads(*mixer, "forward.", kHeads, x);
    const auto g = log_decay(*mixer, "forward.", resolved, kHeads, x);
    auto sums = at::zeros({1, kHeads, 3, 6}, at::kDouble);
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < 100; ++t) {
      const auto row = [&](const Tensor& all) { return all.narrow(2, t, 1); };
      sums =
          sums * row(g).exp().transpose(2, 3) + row(heads.k).transpose(2, 3).matmul(row(heads.v));
      rows.push_back(row(heads.q).matmul(sums) / std::sqrt(3.0));
    }
    EXPECT_NEAR_TENSOR(causal(mixer, x),
                       oracle::recurrent_output(*mixer, "forward.", at::cat(rows, 2), x),
                       tolerance(at::kDouble))
        << options;
  }
}

// g = 0 at every token: tril(Q K^T) V.
TEST(Gla, WithoutDecayItIsCausalLinearAttention) {
  const auto mixer = made("{decay: head}");
  set(mixer, "forward.decay.weight", at::zeros({kHeads, kWidth}));
  set(mixer, "forward.decay.bias", at::full({kHeads}, 100));
  const auto x = random_normal({2, 70, kWidth}, 2);
  const auto [q, k, v, own, source] = oracle::recurrent_heads(*mixer, "forward.", kHeads, x);
  const auto o = q.matmul(k.transpose(2, 3)).tril().matmul(v) / std::sqrt(3.0);
  EXPECT_NEAR_TENSOR(causal(mixer, x), oracle::recurrent_output(*mixer, "forward.", o, x),
                     tolerance(at::kDouble));
}

TEST(Gla, TheSameDecayInAllChannelsIsOneForTheHead) {
  const auto channels = made("{gate_rank: 2}"), heads = made("{decay: head}");
  for (const auto& entry : heads->named_parameters())
    if (entry.key().find("decay") == std::string::npos)
      set(heads, entry.key(), channels->named_parameters()[entry.key()]);
  const auto low = random_normal({kHeads, kWidth}, 3);
  set(heads, "forward.decay.weight", low);
  set(heads, "forward.decay.bias", at::full({kHeads}, 0.5));
  set(channels, "forward.decay_in.weight", low);
  set(channels, "forward.decay.weight", at::eye(kHeads).repeat_interleave(3, 0));
  set(channels, "forward.decay.bias", at::full({3 * kHeads}, 0.5));
  const auto x = random_normal({2, 90, kWidth}, 4);
  EXPECT_NEAR_TENSOR(causal(channels, x), causal(heads, x), tolerance(at::kDouble));
}

// In float32, with gates that forget everything and gates that forget nothing.
TEST(Gla, SteepGatesStayFinite) {
  const auto mixer = make_mixer("gla", kSite, "{gate_divisor: 1e-2}");
  set(mixer, "forward.decay.weight", 1e3 * random_normal({6, 16}, 5));
  const auto x = random_normal({1, 200, kWidth}, 6).to(at::kFloat).requires_grad_();
  Context context;
  const auto y = (*mixer)(x, context);
  y.square().sum().backward();
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

TEST(Gla, WithoutACausalMaskBothDirectionsAreAdded) {
  const auto shared = made();
  const auto x = random_normal({2, 70, kWidth}, 7);
  Context context;
  EXPECT_NEAR_TENSOR((*shared)(x, context), causal(shared, x) + causal(shared, x.flip(1)).flip(1),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR((*shared)(x.flip(1), context), (*shared)(x, context).flip(1),
                     tolerance(at::kDouble))
      << "with one set of parameters the directions cannot be told apart";
  const auto own = made("{backward: own}");
  EXPECT_FALSE((*own)(x.flip(1), context).allclose((*own)(x, context).flip(1)));
}

TEST(Gla, TheStateIsOneMatrixForEachHeadWhateverTheLength) {
  const auto mixer = make_mixer("gla", kSite, "{convolution: 4}");
  mixer->to(at::kBFloat16);
  State state;
  Context context;
  mixer->start(state, 2, 1000000, context);
  ASSERT_EQ(state.lane.size(), 2u);
  EXPECT_EQ(state.lane.at("sums").sizes(), at::IntArrayRef({2, kHeads, 3, 6}));
  EXPECT_EQ(state.lane.at("sums").scalar_type(), at::kFloat);
  EXPECT_EQ(state.lane.at("short_convolution").sizes(), at::IntArrayRef({2, 3, 24}));
}

TEST(Gla, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("{rotary: true}"); }),
            "gla options:1: gla.rotary turns pairs of channels, but key_width is 3; take an even "
            "key_width");
  EXPECT_EQ(error_of([] { (void)made("{gate_rank: 0}"); }),
            "gla options:1: gla.gate_rank is 0, out of range; it may be >= 1");
  EXPECT_EQ(error_of([] { (void)made("{gate_divisor: 0}"); }),
            "gla options:1: gla.gate_divisor is 0, out of range; it may be > 0");
  EXPECT_EQ(error_of([] { (void)made("{decay: token}"); }),
            "gla options:1: gla.decay is 'token'; one of: channel, head, fixed");
  EXPECT_EQ(error_of([] {
              (void)causal(made("{backward: own}"), random_normal({1, 3, kWidth}, 8));
            }).find("gla: is not causal; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
