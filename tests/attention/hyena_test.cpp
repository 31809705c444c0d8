#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor of(const torch::nn::Module& mixer, const std::string& name) {
  return oracle::tensor_of(mixer, name);
}

Tensor projected(const torch::nn::Module& mixer, const Tensor& x, const std::string& name) {
  return x.matmul(of(mixer, name + ".weight").t()) + of(mixer, name + ".bias");
}

// The taps of all lags, [N, groups (O - 1) C].
Tensor filters(const torch::nn::Module& mixer, const Node& options, int64_t channels, int64_t n) {
  if (as_string(*options.find("filter"), "filter") == "free") {
    const auto k = of(mixer, "filter.kernel").narrow(0, 0, n);
    return k.sign() * (k.abs() - as_number(*options.find("squash"), "squash")).clamp_min(0);
  }
  const auto features = of(mixer, "filter.features");
  auto z = features.narrow(0, 0, n);
  for (const std::string layer : {"0", "1", "2"})
    z = (of(mixer, "filter.frequency") *
         (z.matmul(of(mixer, "filter.weight" + layer).t()) + of(mixer, "filter.bias" + layer)))
            .sin();
  const auto h = z.matmul(of(mixer, "filter.last").t());
  // Places and rates are float32 numbers.
  const auto t = at::linspace(0, 1, features.size(0)).narrow(0, 0, n).to(at::kDouble);
  const auto rate =
      at::linspace(std::log(1e-2) / 1.5, std::log(1e-2) / 0.3, channels).to(at::kDouble);
  const auto window = at::outer(t, rate).exp() + as_number(*options.find("shift"), "shift");
  return h * window.repeat({1, h.size(1) / channels});
}

// sum_j k_(t-j) z_j for the taps of the lags 1 - N .. N - 1: k [2 N - 1, C], z [B, N, C].
Tensor toeplitz(const Tensor& k, const Tensor& z) {
  const int64_t n = z.size(1);
  const auto t = at::arange(n, at::kLong);
  const auto matrix = k.index({t.unsqueeze(1) - t + (n - 1)});  // [N, N, C]
  return at::einsum("tjc,bjc->btc", {matrix, z});
}

Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site&, const Tensor& x,
             const Context& context) {
  const int64_t n = x.size(1), width = x.size(2),
                order = as_integer(*options.find("order"), "order"), filtered = (order - 1) * width,
                taps = as_integer(*options.find("taps"), "taps");
  const bool causal =
      context.mask.causal || !as_boolean(*options.find("bidirectional"), "bidirectional");
  const auto wide = oracle::without_padding(projected(mixer, x, "input"), context);
  auto near = at::zeros({2 * n - 1, wide.size(2)}, at::kDouble);
  const int64_t left = causal ? taps - 1 : (taps - 1) / 2;
  for (int64_t tap = 0; tap < taps; ++tap)  // of lag left - tap
    if (std::abs(left - tap) < n)
      near[n - 1 + left - tap].copy_(of(mixer, "short.weight").select(1, tap));
  const auto parts = toeplitz(near, wide) + of(mixer, "short.bias");
  const auto h = filters(mixer, options, filtered, n);
  auto v = parts.narrow(2, order * width, width);
  for (int64_t place = 0; place < order - 1; ++place) {
    const auto z =
        oracle::without_padding(parts.narrow(2, (order - 1 - place) * width, width) * v, context);
    auto far = at::zeros({2 * n - 1, width}, at::kDouble);
    far.narrow(0, n - 1, n).copy_(h.narrow(1, place * width, width));
    if (!causal)
      far.narrow(0, 0, n - 1)
          .copy_(h.narrow(0, 0, n - 1).narrow(1, filtered + place * width, width).flip(0));
    v = toeplitz(far, z) + of(mixer, "skip").narrow(0, place * width, width) * z;
  }
  return oracle::without_padding(projected(mixer, parts.narrow(2, 0, width) * v, "output"),
                                 context);
}

const bool registered = oracle::add("hyena", dense);

Mixer made(const std::string& options, int64_t longest = 12) {
  auto mixer = make_mixer("hyena", {.shape = {.width = 6, .max_length = longest}, .init = "xavier"},
                          options);
  mixer->to(at::kDouble);
  mixer->eval();
  return mixer;
}

Tensor run(const Mixer& mixer, const Tensor& x, bool causal = true) {
  Context context = {.mask = {.causal = causal}};
  return (*mixer)(x, context);
}

// With gates of 1 and no projections: what a long convolution is.
Mixer long_convolution(const Tensor& kernel, const Tensor& skip) {
  const auto mixer = made("{filter: free, taps: 1, bidirectional: false}");
  const at::NoGradGuard no_grad;
  auto parameters = mixer->named_parameters();
  for (auto& parameter : parameters) parameter.value().zero_();
  parameters["input.weight"].narrow(0, 12, 6).copy_(at::eye(6));
  parameters["input.bias"].narrow(0, 0, 12).fill_(1);
  parameters["short.weight"].fill_(1);
  parameters["output.weight"].copy_(at::eye(6));
  parameters["filter.kernel"].copy_(kernel);
  parameters["skip"].copy_(skip);
  return mixer;
}

TEST(Hyena, WithOpenGatesIsOneLongConvolution) {
  const auto kernel = random_normal({12, 6}, 1), skip = random_normal({6}, 2),
             x = random_normal({2, 12, 6}, 3);
  auto want = skip * x;
  for (int64_t t = 0; t < 12; ++t)
    for (int64_t j = 0; j <= t; ++j) want.select(1, t) += kernel[t - j] * x.select(1, j);
  EXPECT_NEAR_TENSOR(run(long_convolution(kernel, skip), x), want, tolerance(at::kDouble));
}

TEST(Hyena, AnImpulseAsAKernelReturnsTheTokens) {
  auto kernel = at::zeros({12, 6}, at::kDouble);
  kernel[0].fill_(1);
  const auto skip = random_normal({6}, 2), x = random_normal({2, 12, 6}, 3);
  EXPECT_NEAR_TENSOR(run(long_convolution(kernel, skip), x), x + skip * x, tolerance(at::kDouble));
}

TEST(Hyena, AShorterSequenceUsesTheFirstTapsOfTheSameFilter) {
  const auto mixer = made("{filter_width: 8}", 12);
  const auto x = random_normal({2, 12, 6}, 3);
  EXPECT_NEAR_TENSOR(run(mixer, x.narrow(1, 0, 7)), run(mixer, x).narrow(1, 0, 7),
                     tolerance(at::kDouble));
}

TEST(Hyena, ForwardIgnoresWhetherTheMaskIsCausal) {
  const auto mixer = made("{bidirectional: false}");
  const auto x = random_normal({2, 9, 6}, 1);
  EXPECT_TRUE(run(mixer, x, false).equal(run(mixer, x, true)));
}

TEST(Hyena, ItsFiltersLearnSlowlyAndDoNotDecay) {
  for (const std::string options : {"{}", "{filter: free}"}) {
    const auto filter = std::dynamic_pointer_cast<Part>(made(options)->named_children()["filter"]);
    EXPECT_FALSE(filter->hints().empty());
    for (const auto& [name, hint] : filter->hints()) {
      EXPECT_FALSE(hint.decay) << name;
      EXPECT_LE(hint.max_learning_rate, 1e-3) << name;
      EXPECT_GT(hint.max_learning_rate, 0) << name;
    }
  }
}

TEST(Hyena, RefusesWhatDoesNotFit) {
  EXPECT_EQ(
      error_of([] { made("{features: 4}"); }),
      "hyena options:1: hyena.features is 4, but waves come in pairs beside the place; take an "
      "odd number");
  EXPECT_EQ(error_of([] { made("{squash: 0.1}"); }),
            "hyena options:1: hyena.squash is for filter: free; leave it out");
  EXPECT_EQ(error_of([] { made("", 0); }),
            "hyena: its filters need the longest sequence; set max_length");
  EXPECT_EQ(error_of([] {
              run(made(""), at::zeros({1, 13, 6}, at::kDouble));
            }),
            "hyena: 13 tokens, but max_length is 12");
}

}  // namespace
}  // namespace longbow
