#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/tensors/meter.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

struct Options {
  std::string form;
  int64_t kernel, attention_width, conv_heads;
  std::vector<int64_t> kernels;
  bool glu, weight_softmax, renorm;
};

Options read_options(const Node& node, const Shape& shape) {
  const auto integer = [&](const std::string& key) { return as_integer(*node.find(key), key); };
  const auto boolean = [&](const std::string& key) { return as_boolean(*node.find(key), key); };
  Options o = {.form = as_string(*node.find("form"), "form"),
               .kernel = integer("kernel"),
               .attention_width = integer("attention_width"),
               .conv_heads = integer("conv_heads"),
               .kernels = {},
               .glu = boolean("glu"),
               .weight_softmax = boolean("weight_softmax"),
               .renorm = boolean("renorm")};
  for (const auto& k : node.find("kernels")->items) o.kernels.push_back(as_integer(k, "kernels"));
  if (o.attention_width == 0) o.attention_width = shape.width / 2;
  if (o.conv_heads == 0) o.conv_heads = shape.heads;
  if (o.form == "plain") o.conv_heads = shape.width - o.attention_width;
  return o;
}

Tensor projected(const torch::nn::Module& mixer, const Tensor& x, const std::string& name) {
  return x.matmul(oracle::tensor_of(mixer, name + ".weight").t()) +
         oracle::tensor_of(mixer, name + ".bias");
}

// Row t of the band [N, N] of one head, tap by tap; only the first `length` tokens are real.
Tensor band_row(const Options& o, const Tensor& scores, int64_t t, int64_t length, int64_t tokens,
                bool causal) {
  const int64_t left = causal ? o.kernel - 1 : (o.kernel - 1) / 2;
  const auto is_inside = [&](int64_t j) { return t + j - left >= 0 && t + j - left < length; };
  const bool softmax = o.form != "plain" && o.weight_softmax;
  double sum = 0;
  for (int64_t j = 0; j < o.kernel; ++j)
    if (!o.renorm || is_inside(j)) sum += std::exp(scores[j].item<double>());
  auto row = at::zeros({tokens}, at::kDouble);
  for (int64_t j = 0; j < o.kernel; ++j) {
    const double score = scores[j].item<double>();
    if (is_inside(j)) row[t + j - left] = softmax ? std::exp(score) / sum : score;
  }
  return row;
}

// As many kernels as there are, each a band for each channel of the gated half, then relu.
Tensor side_by_side(const torch::nn::Module& mixer, Options o, const Tensor& x, int64_t length,
                    bool causal) {
  const int64_t n = x.size(0), width = x.size(1) / 2;
  auto z = x.narrow(1, 0, width) * x.narrow(1, width, width).sigmoid();
  z = z * (at::arange(n) < length).unsqueeze(1);
  std::vector<Tensor> columns;
  for (size_t i = 0; i < o.kernels.size(); ++i) {
    const auto number = "_" + std::to_string(i);
    const auto taps = oracle::tensor_of(mixer, "taps" + number),
               bias = oracle::tensor_of(mixer, "bias" + number);
    o.form = "plain", o.kernel = o.kernels[i];
    for (int64_t c = 0; c < width; ++c) {
      std::vector<Tensor> band;
      for (int64_t t = 0; t < n; ++t) band.push_back(band_row(o, taps[c], t, length, n, causal));
      columns.push_back((at::stack(band).matmul(z.select(1, c)) + bias[c]).clamp_min(0));
    }
  }
  return projected(mixer, at::stack(columns, 1), "output");
}

// One sequence [N, L] of which `length` tokens are real: a banded matrix times z, head by head.
Tensor convolved(const torch::nn::Module& mixer, const Options& o, const Tensor& x, int64_t length,
                 bool causal) {
  if (o.form == "multi_kernel") return side_by_side(mixer, o, x, length, causal);
  const int64_t n = x.size(0), width = x.size(1), group = width / o.conv_heads;
  const auto u = projected(mixer, x, "input");
  auto z = o.glu ? u.narrow(1, 0, width) * u.narrow(1, width, width).sigmoid() : u;
  z = z * (at::arange(n) < length).unsqueeze(1);
  std::vector<Tensor> by_head;
  for (int64_t h = 0; h < o.conv_heads; ++h) {
    std::vector<Tensor> band;
    for (int64_t t = 0; t < n; ++t) {
      const auto scores =
          o.form == "dynamic"
              ? z[t].matmul(
                    oracle::tensor_of(mixer, "taps.weight").narrow(0, h * o.kernel, o.kernel).t())
              : oracle::tensor_of(mixer, "taps")[h];
      band.push_back(band_row(o, scores, t, length, n, causal));
    }
    by_head.push_back(at::stack(band).matmul(z.narrow(1, h * group, group)));
  }
  return projected(mixer, at::cat(by_head, 1), "output");
}

Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const auto o = read_options(options, site.shape);
  Site half = site;
  half.shape.width = o.attention_width;
  const auto children = mixer.named_children();
  const auto far = oracle::multi_head(*children["attention"], half,
                                      x.narrow(2, 0, o.attention_width), context, oracle::softmax);
  std::vector<Tensor> near;
  for (int64_t b = 0; b < x.size(0); ++b) {
    const auto& keep = context.mask.keep;
    const int64_t length = keep.defined() ? keep[b].sum().item<int64_t>() : x.size(1);
    near.push_back(convolved(mixer, o,
                             x[b].narrow(1, o.attention_width, x.size(2) - o.attention_width),
                             length, context.mask.causal));
  }
  return oracle::without_padding(at::cat({far, at::stack(near)}, 2), context);
}

const bool registered = oracle::add("lite", dense);

constexpr int64_t kWidth = 8, kHalf = 4;
const Site kSite = {.shape = {.width = kWidth, .heads = 2, .max_length = 64}, .init = "xavier"};

Mixer made(const std::string& options = "", const Site& site = kSite) {
  auto mixer = make_mixer("lite", site, options);
  mixer->to(at::kDouble);
  return mixer;
}

void set(const Mixer& mixer, const std::string& name, const Tensor& value) {
  const at::NoGradGuard no_grad;
  mixer->named_parameters()[name].copy_(value);
}

// The convolution alone: no gate, and its two projections are the identity.
Mixer bare(const std::string& options, const Site& site = kSite) {
  const auto mixer = made("{glu: false, " + options + "}", site);
  set(mixer, "input.weight", at::eye(kHalf));
  set(mixer, "output.weight", at::eye(kHalf));
  return mixer;
}

Tensor near_half(const Mixer& mixer, const Tensor& x, const Mask& mask = {}) {
  Context context = {.mask = mask};
  return (*mixer)(x, context).narrow(2, kHalf, kHalf);
}

TEST(Lite, TheFirstHalfIsSoftmax) {
  const auto mixer = made();
  Site half = kSite;
  half.shape.width = kHalf;
  const auto softmax = make_mixer("softmax", half);
  softmax->to(at::kDouble);
  for (const auto& entry : softmax->named_parameters())
    set(softmax, entry.key(), mixer->named_parameters()["attention." + entry.key()]);
  const auto x = random_normal({2, 11, kWidth}, 1);
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}};
    EXPECT_NEAR_TENSOR((*mixer)(x, context).narrow(2, 0, kHalf),
                       (*softmax)(x.narrow(2, 0, kHalf), context), tolerance(at::kDouble));
  }
}

TEST(Lite, AKernelOfOneMixesNothing) {
  const auto x = random_normal({2, 9, kWidth}, 2);
  for (const std::string form : {"light", "dynamic"})
    EXPECT_NEAR_TENSOR(near_half(bare("kernel: 1, form: " + form), x), x.narrow(2, kHalf, kHalf),
                       tolerance(at::kDouble));
}

TEST(Lite, DynamicTapsOfZeroAreAMovingAverage) {
  const auto dynamic = bare("kernel: 5"), light = bare("kernel: 5, form: light");
  set(dynamic, "taps.weight", at::zeros({2 * 5, kHalf}));
  set(light, "taps", at::full({2, 5}, 3.0));
  const auto x = random_normal({1, 40, kWidth}, 3);
  const auto z = at::constant_pad_nd(x.narrow(2, kHalf, kHalf), {0, 0, 2, 2});
  const auto mean = z.unfold(1, 5, 1).sum(-1) / 5;
  EXPECT_NEAR_TENSOR(near_half(dynamic, x), mean, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(near_half(light, x), mean, tolerance(at::kDouble));
}

TEST(Lite, RenormAveragesOverRealTokensOnly) {
  const auto mixer = bare("kernel: 5, form: light, renorm: true");
  set(mixer, "taps", at::zeros({2, 5}));
  const auto x = at::ones({2, 7, kWidth}, at::kDouble);  // an average of ones is one everywhere
  auto mask = Mask::from_lengths(at::tensor({7, 3}), 7);
  for (const bool causal : {false, true}) {
    mask.causal = causal;
    const auto y = near_half(mixer, x, mask);
    EXPECT_NEAR_TENSOR(y[0], at::ones({7, kHalf}, at::kDouble), tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(y[1].narrow(0, 0, 3), at::ones({3, kHalf}, at::kDouble),
                       tolerance(at::kDouble));
  }
}

// Which tokens move the convolved half of output i.
std::vector<int64_t> read_by(const Mixer& mixer, int64_t i, bool causal) {
  const auto x = random_normal({1, 24, kWidth}, 4).requires_grad_();
  near_half(mixer, x, {.causal = causal})[0][i].sum().backward();
  std::vector<int64_t> tokens;
  for (int64_t j = 0; j < 24; ++j)
    if (x.grad()[0][j].abs().max().item<double>() > 0) tokens.push_back(j);
  return tokens;
}

TEST(Lite, TheKernelStandsAroundItsTokenOrBeforeIt) {
  using Tokens = std::vector<int64_t>;
  for (const std::string form : {"plain", "light", "dynamic"}) {
    EXPECT_EQ(read_by(made("{kernel: 5, form: " + form + "}"), 7, false), Tokens({5, 6, 7, 8, 9}));
    EXPECT_EQ(read_by(made("{kernel: 4, form: " + form + "}"), 7, false), Tokens({6, 7, 8, 9}));
    EXPECT_EQ(read_by(made("{kernel: 4, form: " + form + "}"), 7, true), Tokens({4, 5, 6, 7}));
    EXPECT_EQ(read_by(made("{kernel: 4, form: " + form + "}"), 1, true), Tokens({0, 1}));
  }
}

TEST(Lite, NeighbouringChannelsShareTheirTaps) {
  const auto light = bare("kernel: 3, form: light, weight_softmax: false");
  const auto plain = bare("kernel: 3, form: plain");
  const auto taps = random_normal({2, 3}, 5);
  set(light, "taps", taps);
  set(plain, "taps", taps.index_select(0, at::tensor({0, 0, 1, 1})));
  const auto x = random_normal({2, 10, kWidth}, 6);
  EXPECT_NEAR_TENSOR(near_half(light, x), near_half(plain, x), tolerance(at::kDouble));
}

TEST(Lite, OptionsSayHowManyNumbersThereAre) {
  const auto size = [](const std::string& options, const std::string& name) {
    return made(options)->named_parameters()[name].sizes().vec();
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(size("{form: plain, kernel: 7}", "taps"), Sizes({4, 7}));
  EXPECT_EQ(size("{form: light, kernel: 7}", "taps"), Sizes({2, 7}));
  EXPECT_EQ(size("{kernel: 7, conv_heads: 4}", "taps.weight"), Sizes({4 * 7, 4}));
  EXPECT_EQ(size("", "input.weight"), Sizes({8, 4}));
  EXPECT_EQ(size("{glu: false}", "input.weight"), Sizes({4, 4}));
  EXPECT_EQ(size("{attention_width: 6}", "output.weight"), Sizes({2, 2}));
  EXPECT_EQ(size("{attention_width: 6}", "attention.query.weight"), Sizes({6, 6}));
}

TEST(Lite, TheConvolutionRemembersItsKernelWhateverTheCapacity) {
  State state;
  Context context;
  made("{kernel: 9}")->start(state, 3, 1000, context);
  EXPECT_EQ(state.lane.at("rows").sizes(), at::IntArrayRef({3, 8, kHalf}));
}

TEST(Lite, KernelDropoutDropsTapsInTrainingOnly) {
  const auto mixer = bare("kernel: 1, form: light, kernel_dropout: 0.5");
  const auto x = at::ones({1, 5, kWidth}, at::kDouble);
  mixer->eval();
  EXPECT_NEAR_TENSOR(near_half(mixer, x), at::ones({1, 5, kHalf}, at::kDouble), kExact);
  mixer->train();
  int64_t dropped = 0;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    Context context = {.random = Random::from_seed(seed)};
    const auto y = (*mixer)(x, context)[0].narrow(1, kHalf, kHalf);
    const auto head = y[0][0].item<double>();
    EXPECT_TRUE(head == 0 || head == 2);
    EXPECT_NEAR_TENSOR(y.narrow(1, 0, 2), at::full({5, 2}, head, at::kDouble), kExact);
    dropped += head == 0;
  }
  EXPECT_GT(dropped, 16);
  EXPECT_LT(dropped, 48);
}

// The gate, "same" padding, a bias, relu, and the concatenation in front of one projection.
TEST(Lite, SeveralKernelsStandSideBySide) {
  const auto mixer = made("{form: multi_kernel, kernels: [3, 2]}");
  const auto parameters = mixer->named_parameters();
  EXPECT_EQ(parameters["taps_1"].sizes(), at::IntArrayRef({kHalf / 2, 2}));
  EXPECT_EQ(parameters["output.weight"].sizes(), at::IntArrayRef({kHalf, 2 * kHalf / 2}));
  EXPECT_FALSE(parameters.contains("input.weight"));
  set(mixer, "output.weight", at::eye(kHalf));
  set(mixer, "output.bias", at::zeros({kHalf}));
  const auto x = random_normal({2, 10, kWidth}, 9);
  const auto z = at::glu(x.narrow(2, kHalf, kHalf), -1).transpose(1, 2);  // [B, L, N]
  const auto convolved = [&](const std::string& number, int64_t before, int64_t after) {
    const auto taps = oracle::tensor_of(*mixer, "taps_" + number);
    return at::conv1d(at::constant_pad_nd(z, {before, after}), taps.unsqueeze(1),
                      oracle::tensor_of(*mixer, "bias_" + number), 1, at::IntArrayRef(0), 1,
                      kHalf / 2)
        .relu();
  };
  EXPECT_NEAR_TENSOR(near_half(mixer, x),
                     at::cat({convolved("0", 1, 1), convolved("1", 0, 1)}, 1).transpose(1, 2),
                     tolerance(at::kDouble));
}

TEST(Lite, SeveralKernelsAreDroppedInTrainingOnly) {
  const auto mixer = made("{form: multi_kernel, kernels: [1, 1], kernel_dropout: 0.5}");
  const auto x = random_normal({1, 40, kWidth}, 10);
  Context context = {.random = Random::from_seed(1)};
  mixer->eval();
  const auto whole = (*mixer)(x, context);
  EXPECT_NEAR_TENSOR((*mixer)(x, context), whole, kExact);
  mixer->train();
  EXPECT_FALSE((*mixer)(x, context).allclose(whole));
}

TEST(Lite, AKernelLongerThanTheSequenceIsTaken) {
  const auto x = random_normal({1, 3, kWidth}, 11);
  for (const std::string form : {"plain", "light", "dynamic"}) {
    const auto mixer = made("{kernel: 1000, form: " + form + "}");
    for (const bool causal : {false, true}) {
      Context context = {.mask = {.causal = causal}};
      EXPECT_TRUE((*mixer)(x, context).isfinite().all().item<bool>());
    }
  }
}

// The promise holds in training too: dropped weights are drawn tile by tile and not stored.
TEST(Lite, DropoutStoresNoWeights) {
  EXPECT_EQ(find_mechanism("lite").promises(parse_yaml("{dropout: 0.1}", "options")).memory, 1);
  const auto bytes = [](int64_t tokens) {
    const auto mixer = made("{dropout: 0.1}");
    const auto x = random_normal({1, tokens, kWidth}, 20).requires_grad_();
    Context context = {.random = Random::from_seed(1)};
    return static_cast<double>(measure([&] { (*mixer)(x, context).sum().backward(); }).peak_bytes);
  };
  EXPECT_LT(bytes(4096), 2.3 * bytes(2048));
}

TEST(Lite, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("{kernel: 0}"); }),
            "lite options:1: lite.kernel is 0, out of range; it may be 1..65536");
  EXPECT_EQ(error_of([] { (void)made("{form: deep}"); }),
            "lite options:1: lite.form is 'deep'; one of: plain, light, dynamic, multi_kernel");
  Context crossing = {.memory = random_normal({1, 4, kWidth}, 7)};
  EXPECT_EQ(error_of([&] {
              (*made())(random_normal({1, 3, kWidth}, 8), crossing);
            }).find("lite: cannot attend to a memory; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
