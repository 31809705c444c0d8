#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/tensors/meter.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor projected(const torch::nn::Module& mixer, const Tensor& x, const std::string& name) {
  const auto y = x.matmul(oracle::tensor_of(mixer, name + ".weight").t());
  return mixer.named_parameters().contains(name + ".bias")
             ? y + oracle::tensor_of(mixer, name + ".bias")
             : y;
}

// W of one group, entry by entry.
Tensor matrix(const torch::nn::Module& mixer, const std::string& kind, int64_t group, int64_t n,
              bool causal) {
  const auto w = oracle::tensor_of(mixer, "spatial")[group];
  const int64_t longest = oracle::tensor_of(mixer, "spatial_bias").size(1);
  auto result = at::zeros({n, n}, at::kDouble);
  for (int64_t t = 0; t < n; ++t)
    for (int64_t j = 0; j < (causal || kind == "lower_toeplitz" ? t + 1 : n); ++j)
      if (kind == "full")
        result[t][j] = w[t][j];
      else if (kind == "toeplitz")
        result[t][j] = w[t - j + longest - 1];
      else
        result[t][j] = oracle::tensor_of(mixer, "row_scale")[group][t] *
                       oracle::tensor_of(mixer, "column_scale")[group][j] * w[longest - 1 - t + j];
  return result;
}

Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site&, const Tensor& x,
             const Context& context) {
  const auto kind = as_string(*options.find("spatial"), "spatial");
  const int64_t groups = as_integer(*options.find("groups"), "groups"), n = x.size(1);
  const auto z = at::gelu(projected(mixer, x, "up")).chunk(2, -1);
  const int64_t half = z[0].size(2), each = half / groups;
  auto gating = at::layer_norm(z[1], {half}, oracle::tensor_of(mixer, "gate_norm.weight"),
                               oracle::tensor_of(mixer, "gate_norm.bias"));
  gating = oracle::without_padding(gating, context);
  std::vector<Tensor> gates;
  for (int64_t g = 0; g < groups; ++g)
    gates.push_back(
        matrix(mixer, kind, g, n, context.mask.causal).matmul(gating.narrow(2, g * each, each)) +
        oracle::tensor_of(mixer, "spatial_bias")[g].narrow(0, 0, n).unsqueeze(-1));
  auto gate = at::cat(gates, 2);
  if (as_integer(*options.find("attention"), "attention") > 0) {
    const auto one = [&](const std::string& name) {
      return projected(mixer, x, name).unsqueeze(1);
    };
    const auto read = oracle::softmax(one("query"), one("key"), one("value"),
                                      oracle::visible(context, x.size(0), n, n));
    gate = gate + projected(mixer, read.squeeze(1), "attention_output");
  }
  return oracle::without_padding(projected(mixer, z[0] * gate, "down"), context);
}

const bool registered = oracle::add("gmlp", dense);

Site site(int64_t longest = 12) {
  return {.shape = {.width = 6, .max_length = longest}, .init = "xavier"};
}

Mixer made(const std::string& options, int64_t longest = 12) {
  auto mixer = make_mixer("gmlp", site(longest), options);
  mixer->to(at::kDouble);
  return mixer;
}

Tensor run(const Mixer& mixer, const Tensor& x, bool causal = false) {
  Context context = {.mask = {.causal = causal}};
  return (*mixer)(x, context);
}

TEST(Gmlp, StartsNearAPlainFeedForwardLayerAndIsOneWithoutItsMatrix) {
  const auto mixer = made("{width: 16}");
  const auto x = random_normal({2, 9, 6}, 1);
  const auto want = projected(*mixer, at::gelu(projected(*mixer, x, "up")).chunk(2, -1)[0], "down");
  const auto apart = (run(mixer, x) - want).abs().max().item<double>();
  EXPECT_GT(apart, 0);
  EXPECT_LT(apart, 2e-3);
  const at::NoGradGuard no_grad;
  mixer->named_parameters()["spatial"].zero_();
  EXPECT_NEAR_TENSOR(run(mixer, x), want, tolerance(at::kDouble));
}

TEST(Gmlp, ToeplitzIsFullWithThatMatrix) {
  const auto full = made("{width: 16}"), toeplitz = made("{width: 16, spatial: toeplitz}");
  const at::NoGradGuard no_grad;
  const auto taps = random_normal({1, 23}, 4);
  toeplitz->named_parameters()["spatial"].copy_(taps);
  auto w = full->named_parameters()["spatial"];
  for (int64_t t = 0; t < 12; ++t)
    for (int64_t j = 0; j < 12; ++j) w[0][t][j] = taps[0][t - j + 11];
  const auto x = random_normal({2, 9, 6}, 1);
  for (const bool causal : {false, true})
    EXPECT_NEAR_TENSOR(run(toeplitz, x, causal), run(full, x, causal), tolerance(at::kDouble));
}

TEST(Gmlp, LongSequencesByFftEqualTheDenseProduct) {
  constexpr int64_t kLong = 300;
  const auto dense = made("{width: 16, spatial: toeplitz, groups: 2}", kLong),
             fft = made("{width: 16, spatial: toeplitz, groups: 2, dense_below: 10}", kLong);
  const at::NoGradGuard no_grad;
  const auto taps = random_normal({2, 2 * kLong - 1}, 4);
  for (const auto& mixer : {dense, fft}) mixer->named_parameters()["spatial"].copy_(taps);
  for (const int64_t n : {kLong, kLong - 57})
    for (const bool causal : {false, true}) {
      const auto x = random_normal({2, n, 6}, 1);
      EXPECT_NEAR_TENSOR(run(fft, x, causal), run(dense, x, causal), (Tolerance{1e-11, 1e-11}));
    }
}

// The matrix of a Toeplitz form once, as an operand of the product; the free one is a parameter.
TEST(Gmlp, TheMatrixTakesNoIndexOfItsSize) {
  constexpr int64_t kTokens = 700, kPairs = kTokens * kTokens * 8;
  const at::NoGradGuard no_grad;
  for (const std::string spatial : {"full", "toeplitz", "lower_toeplitz"})
    for (const bool causal : {false, true}) {
      const auto mixer = made("{width: 4, spatial: " + spatial + "}", kTokens);
      const auto x = random_normal({1, kTokens, 6}, 5);
      const auto bytes = measure([&] { run(mixer, x, causal); }).allocated_bytes;
      const bool given = spatial == "full" && !causal;
      EXPECT_LT(bytes, (given ? 0 : kPairs) + kPairs / 2) << spatial << causal;
    }
}

TEST(Gmlp, PaddingAfterAFullStateIsHarmless) {
  const at::NoGradGuard no_grad;
  for (const std::string spatial : {"full", "toeplitz", "lower_toeplitz"}) {
    const auto mixer = made("{spatial: " + spatial + "}");
    State state;
    Context context;
    mixer->start(state, 1, 12, context);
    (void)mixer->extend(random_normal({1, 12, 6}, 6), state, context);
    Context padded = {.mask = {.keep = at::zeros({1, 2}, at::kBool)}};
    EXPECT_NEAR_TENSOR(mixer->extend(random_normal({1, 2, 6}, 7), state, padded),
                       at::zeros({1, 2, 6}, at::kDouble), kExact);
  }
}

TEST(Gmlp, ItsBlockHasNoFeedForwardLayerBesides) {
  const auto block = make_block(parse_yaml("{name: gmlp}", "test"), site(), {});
  for (const auto& parameter : block->named_parameters())
    EXPECT_NE(parameter.key().rfind("mixer", 0), std::string::npos) << parameter.key();
  EXPECT_EQ(block->named_parameters()["mixer.up.weight"].size(0), 36);
}

TEST(Gmlp, WeightDecayLeavesTheGateAlone) {
  const auto hints = made("{spatial: lower_toeplitz}")->hints();
  for (const std::string name : {"spatial", "spatial_bias", "row_scale", "column_scale"})
    EXPECT_FALSE(hints.at(name).decay) << name;
}

TEST(Gmlp, RefusesWhatItCannotBuildOrHold) {
  EXPECT_EQ(error_of([] { made("", 0); }), "gmlp: W needs the longest sequence; set max_length");
  EXPECT_EQ(error_of([] {
              run(made(""), at::zeros({1, 13, 6}, at::kDouble));
            }),
            "gmlp: 13 tokens, but max_length is 12");
}

}  // namespace
}  // namespace longbow
