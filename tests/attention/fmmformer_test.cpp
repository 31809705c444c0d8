#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kWidth = 6, kHeads = 2, kHead = 3;
const Site kSite = {.shape = {.width = kWidth, .heads = kHeads, .max_length = 64},
                    .init = "xavier"};

Tensor features(const Tensor& x, const std::string& map) {
  if (map == "tanh") return x.tanh() + 1;
  const auto y = map == "elu_flip" ? -x : x;
  return at::where(y > 0, y + 1, y.exp());
}

// [N, N]: |i - j| <= band, pair by pair.
Tensor banded(int64_t band, int64_t length) {
  auto near = at::zeros({length, length}, at::kDouble);
  for (int64_t i = 0; i < length; ++i)
    for (int64_t j = 0; j < length; ++j)
      if (std::abs(i - j) <= band) near[i][j] = 1;
  return near;
}

// phi(q) phi(k)^T v over the visible keys, divided as far_norm says.
Tensor far_field(const Node& options, const std::string& map, const Tensor& q, const Tensor& k,
                 const Tensor& v, const Tensor& visible) {
  const auto weights = features(q, map).matmul(features(k, map).transpose(-2, -1)) * visible;
  if (as_string(*options.find("far_norm"), "far_norm") == "none") {
    const auto length = static_cast<double>(as_integer(*options.find("length"), "length"));
    const auto keys = length > 0 ? at::full({1}, length, at::kDouble) : visible.sum(-1, true);
    return weights.matmul(v) / keys.clamp_min(1).sqrt();
  }
  return weights.matmul(v) /
         (weights.sum(-1, true) + as_number(*options.find("epsilon"), "epsilon"));
}

// The weights of the fields as the table on the page says: near [H, 1, D], far [L, H, 1, D].
struct Weights {
  Tensor near, far;
};
Weights weights_of(const torch::nn::Module& mixer, const std::string& blend, int64_t maps,
                   bool crossing) {
  const auto weight = [&](const std::string& name) {
    return oracle::tensor_of(mixer, "attention." + name).unsqueeze(-2);
  };
  const auto sigmoid = [](const Tensor& x) { return 1 / (1 + (-x).exp()); };
  const auto mean = at::full({maps, 1, 1, 1}, 1 / static_cast<double>(maps), at::kDouble);
  const auto one = at::ones({1, 1, 1}, at::kDouble);
  if (blend == "alpha") return {weight("alpha"), mean * (1 - weight("alpha"))};
  const auto far = weight("far"), near = crossing || blend == "far" ? one : weight("near");
  if (blend == "far") return {near, mean * far};
  if (blend == "product") return {near, far * weight("ratio")};
  if (blend == "sigmoid") return {sigmoid(near), sigmoid(far)};
  return {near, far};
}

const bool registered =
    oracle::add("fmmformer", [](const torch::nn::Module& mixer, const Node& options,
                                const Site& site, const Tensor& x, const Context& context) {
      const auto& maps = options.find("maps")->items;
      const auto w = weights_of(mixer, as_string(*options.find("blend"), "blend"),
                                static_cast<int64_t>(maps.size()), site.cross);
      return oracle::multi_head(
          mixer, site, x, context,
          [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
            auto o = at::zeros_like(q);
            for (size_t l = 0; l < maps.size(); ++l)
              o = o + w.far[static_cast<int64_t>(l)] *
                          far_field(options, maps[l].text, q, k, v, visible);
            if (site.cross) return o;
            const auto band = banded(as_integer(*options.find("band"), "band"), x.size(1));
            return o + w.near * oracle::softmax(q, k, v, visible * band);
          });
    });

Mixer made(const std::string& options = "", const Site& site = kSite,
           const std::string& name = "fmmformer") {
  auto mixer = make_mixer(name, site, options);
  mixer->to(at::kDouble);
  return mixer;
}

Tensor parameter(const Mixer& mixer, const std::string& name) {
  return mixer->named_parameters()["attention." + name];
}

void fill(const Mixer& mixer, const std::string& name, double value) {
  const at::NoGradGuard no_grad;
  parameter(mixer, name).fill_(value);
}

// A layer with blend: free whose weights are these numbers.
Mixer weighed(const std::string& options, double near, double far) {
  auto mixer = made(options);
  fill(mixer, "near", near);
  fill(mixer, "far", far);
  return mixer;
}

TEST(Fmmformer, BothFieldsAreTheSumsThatTheDefinitionNames) {
  constexpr int64_t n = 9, band = 2;
  const auto mixer = weighed("{band: 2}", 0.7, -0.4);
  const auto x = random_normal({1, n, kWidth}, 1);
  const auto projected = [&](const std::string& name) {
    return split_heads(x.matmul(oracle::tensor_of(*mixer, name + ".weight").t()), kHeads)[0];
  };
  const auto q = projected("query"), k = projected("key"), v = projected("value");  // [H, N, D]
  auto o = at::zeros({kHeads, n, kHead}, at::kDouble);
  for (int64_t h = 0; h < kHeads; ++h)
    for (int64_t i = 0; i < n; ++i) {
      auto near = at::zeros({kHead}, at::kDouble), far = at::zeros({kHead}, at::kDouble);
      double near_sum = 0, far_sum = 0;
      for (int64_t j = 0; j < n; ++j) {
        const double w = features(q[h][i], "elu").dot(features(k[h][j], "elu")).item<double>();
        far += w * v[h][j];
        far_sum += w;
        if (std::abs(i - j) > band) continue;
        const double e = std::exp(q[h][i].dot(k[h][j]).item<double>() / std::sqrt(3.0));
        near += e * v[h][j];
        near_sum += e;
      }
      o[h][i] = 0.7 * near / near_sum - 0.4 * far / (far_sum + 1e-6);
    }
  Context context;
  EXPECT_NEAR_TENSOR(
      (*mixer)(x, context),
      merge_heads(o.unsqueeze(0)).matmul(oracle::tensor_of(*mixer, "output.weight").t()),
      tolerance(at::kDouble));
}

TEST(Fmmformer, ABandOverEverythingWithoutTheFarFieldIsSoftmax) {
  const auto x = random_normal({2, 40, kWidth}, 2);
  for (const bool causal : {false, true})
    for (const std::string band : {"39", "65536"}) {
      Context context = {.mask = {.causal = causal}};
      EXPECT_NEAR_TENSOR((*weighed("{band: " + band + "}", 1, 0))(x, context),
                         (*made("", kSite, "softmax"))(x, context), tolerance(at::kDouble));
    }
}

TEST(Fmmformer, ItStartsAsLinearAttention) {
  const auto x = random_normal({2, 40, kWidth}, 3);
  for (const bool causal : {false, true}) {
    Context context = {.mask = {.causal = causal}};
    EXPECT_NEAR_TENSOR((*made())(x, context), (*made("", kSite, "linear"))(x, context),
                       tolerance(at::kDouble));
  }
}

TEST(Fmmformer, ABandOfZeroGivesTheValues) {
  const auto mixer = weighed("{band: 0}", 1, 0);
  const auto x = random_normal({1, 40, kWidth}, 4);
  Context context;
  const auto value = x.matmul(oracle::tensor_of(*mixer, "value.weight").t());
  EXPECT_NEAR_TENSOR((*mixer)(x, context),
                     value.matmul(oracle::tensor_of(*mixer, "output.weight").t()),
                     tolerance(at::kDouble));
}

// Which inputs move output i of the near field: exactly the tokens of its band.
std::vector<int64_t> read_by(int64_t i, const std::string& band, bool causal) {
  constexpr int64_t n = 100;
  const auto x = random_normal({1, n, kWidth}, 5).requires_grad_();
  Context context = {.mask = {.causal = causal}};
  (*weighed("{band: " + band + "}", 1, 0))(x, context)[0][i].sum().backward();
  std::vector<int64_t> tokens;
  for (int64_t j = 0; j < n; ++j)
    if (x.grad()[0][j].abs().max().item<double>() > 0) tokens.push_back(j);
  return tokens;
}

TEST(Fmmformer, TheNearFieldReachesAsFarAsTheBandAcrossBlocks) {
  const auto range = [](int64_t first, int64_t last) {
    std::vector<int64_t> tokens;
    for (int64_t j = first; j <= last; ++j) tokens.push_back(j);
    return tokens;
  };
  EXPECT_EQ(read_by(32, "5", false), range(27, 37));
  EXPECT_EQ(read_by(31, "5", false), range(26, 36));
  EXPECT_EQ(read_by(32, "5", true), range(27, 32));
  EXPECT_EQ(read_by(50, "40", false), range(10, 90));
  EXPECT_EQ(read_by(50, "40", true), range(10, 50));
  EXPECT_EQ(read_by(2, "5", false), range(0, 7));
  EXPECT_EQ(read_by(98, "5", false), range(93, 99));
}

TEST(Fmmformer, EachMapAddsItsOwnFarField) {
  const auto x = random_normal({1, 12, kWidth}, 6);
  Context context;
  const auto alone = [&](const std::string& map) {
    return (*made("{maps: [" + map + "]}"))(x, context);
  };
  const auto elu = alone("elu"), elu_flip = alone("elu_flip"), tanh = alone("tanh");
  EXPECT_FALSE(elu.allclose(elu_flip));
  EXPECT_FALSE(elu.allclose(tanh));
  EXPECT_FALSE(elu_flip.allclose(tanh));
  EXPECT_NEAR_TENSOR((*weighed("{maps: [tanh, elu, elu_flip]}", 0, 1))(x, context),
                     elu + elu_flip + tanh, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR((*made("{maps: [tanh, elu_flip]}"))(x, context), (elu_flip + tanh) / 2,
                     tolerance(at::kDouble));
}

TEST(Fmmformer, SigmoidAndAlphaStartHalfNearAndHalfFar) {
  const auto x = random_normal({1, 12, kWidth}, 7);
  Context context;
  const auto half = (*weighed("{band: 3}", 0.5, 0.5))(x, context);
  EXPECT_NEAR_TENSOR((*made("{band: 3, blend: sigmoid}"))(x, context), half,
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR((*made("{band: 3, blend: alpha}"))(x, context), half, tolerance(at::kDouble));
}

TEST(Fmmformer, SigmoidWeightsStayBetweenZeroAndOne) {
  const auto mixer = made("{band: 3, blend: sigmoid}");
  fill(mixer, "near", 1e3);
  fill(mixer, "far", -1e3);
  const auto x = random_normal({1, 12, kWidth}, 8);
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), (*weighed("{band: 3}", 1, 0))(x, context), kExact);
}

TEST(Fmmformer, AlphaIsTheShareOfTheNearField) {
  const auto mixer = made("{band: 3, maps: [elu, elu_flip], blend: alpha, per: layer}");
  fill(mixer, "alpha", 0.25);
  const auto x = random_normal({1, 12, kWidth}, 9);
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context),
                     (*weighed("{band: 3, maps: [elu, elu_flip]}", 0.25, 0.375))(x, context),
                     tolerance(at::kDouble));
}

TEST(Fmmformer, FarStartsAsTheNearFieldAndAddsTheMeanOfTheMaps) {
  const auto mixer = made("{band: 3, maps: [elu, elu_flip], blend: far}");
  const auto x = random_normal({1, 12, kWidth}, 14);
  Context context;
  const auto free = [&](double near, double far) {
    return (*weighed("{band: 3, maps: [elu, elu_flip]}", near, far))(x, context);
  };
  EXPECT_NEAR_TENSOR((*mixer)(x, context), free(1, 0), tolerance(at::kDouble));
  fill(mixer, "far", 0.6);
  EXPECT_NEAR_TENSOR((*mixer)(x, context), free(1, 0.3), tolerance(at::kDouble));
}

TEST(Fmmformer, ProductWeighsTheMapsAndThenTheFarField) {
  const auto mixer = made("{band: 3, maps: [elu, elu_flip], blend: product, per: head}");
  const auto x = random_normal({1, 12, kWidth}, 15);
  Context context;
  const auto free = [&](double near, double far) {
    return (*weighed("{band: 3, maps: [elu, elu_flip]}", near, far))(x, context);
  };
  EXPECT_NEAR_TENSOR((*mixer)(x, context), free(1, 0), tolerance(at::kDouble));
  fill(mixer, "near", 0.2);
  fill(mixer, "far", -0.5);
  EXPECT_NEAR_TENSOR((*mixer)(x, context), (*weighed("{band: 3}", 0.2, -0.5))(x, context),
                     tolerance(at::kDouble));
  fill(mixer, "ratio", 3);
  EXPECT_NEAR_TENSOR((*mixer)(x, context), free(0.2, -1.5), tolerance(at::kDouble));
}

TEST(Fmmformer, WeightsStandPerChannelHeadOrLayer) {
  const auto shape = [](const std::string& options, const std::string& name) {
    return parameter(made(options), name).sizes().vec();
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(shape("", "near"), (Sizes{kHeads, kHead}));
  EXPECT_EQ(shape("{per: head}", "near"), (Sizes{kHeads, 1}));
  EXPECT_EQ(shape("{per: layer}", "near"), (Sizes{1, 1}));
  EXPECT_EQ(shape("{maps: [elu, tanh]}", "far"), (Sizes{2, kHeads, kHead}));
  EXPECT_EQ(shape("{maps: [elu, tanh], per: layer}", "far"), (Sizes{2, 1, 1}));
  EXPECT_EQ(shape("{blend: alpha, per: head}", "alpha"), (Sizes{kHeads, 1}));
  EXPECT_EQ(shape("{maps: [elu, tanh], blend: far}", "far"), (Sizes{1, kHeads, kHead}));
  EXPECT_EQ(shape("{maps: [elu, tanh], blend: product}", "far"), (Sizes{1, kHeads, kHead}));
  EXPECT_EQ(shape("{maps: [elu, tanh], blend: product}", "ratio"), (Sizes{2, 1, 1}));
}

// Without the denominator twice the same tokens give root two times the output.
TEST(Fmmformer, WithoutADenominatorTheSumsAreDividedByTheRootOfTheirLength) {
  const auto mixer = made("{far_norm: none}");
  const auto x = random_normal({1, 12, kWidth}, 10);
  Context context;
  const auto twice = (*mixer)(at::cat({x, x}, 1), context).narrow(1, 0, 12);
  EXPECT_NEAR_TENSOR(twice, (*mixer)(x, context) * std::sqrt(2.0), tolerance(at::kDouble));
}

TEST(Fmmformer, ALengthTakesThePlaceOfTheNumberOfKeys) {
  const auto x = random_normal({1, 12, kWidth}, 16);
  Context context;
  EXPECT_NEAR_TENSOR((*made("{far_norm: none, length: 3}"))(x, context),
                     (*made("{far_norm: none}"))(x, context) * 2, tolerance(at::kDouble));
}

TEST(Fmmformer, EpsilonIsAddedToTheDenominator) {
  const auto x = random_normal({1, 8, kWidth}, 11);
  Context context;
  EXPECT_NEAR_TENSOR((*made("{epsilon: 1}"))(x, context),
                     (*made("{epsilon: 1}", kSite, "linear"))(x, context), tolerance(at::kDouble));
}

TEST(Fmmformer, AMemoryIsReadByTheFarFieldAlone) {
  Site crossing = kSite;
  crossing.cross = true;
  const auto x = random_normal({2, 5, kWidth}, 12);
  Context context = {.memory = random_normal({2, 9, kWidth}, 13)};
  const auto linear = (*made("", crossing, "linear"))(x, context);
  EXPECT_NEAR_TENSOR((*made("", crossing))(x, context), linear, tolerance(at::kDouble));
  EXPECT_FALSE(made("", crossing)->named_parameters().contains("attention.near"));
  EXPECT_NEAR_TENSOR((*weighed("", 5, 1))(x, context), linear, tolerance(at::kDouble));
}

TEST(Fmmformer, TheStateIsTheSumsAndARing) {
  const auto sizes = [](const std::string& options, int64_t capacity) {
    const auto mixer = make_mixer("fmmformer", kSite, options);
    mixer->to(at::kBFloat16);
    State state;
    Context context;
    mixer->start(state, 5, capacity, context);
    EXPECT_EQ(state.lane.at("sums").scalar_type(), at::kFloat);
    EXPECT_EQ(state.lane.at("sums").sizes(), at::IntArrayRef({5, 2 * kHeads, kHead, kHead + 1}));
    return state.lane.at("keys").sizes().vec();
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(sizes("{band: 4, maps: [elu, tanh]}", 1000000), (Sizes{5, kHeads, 4 + 1, kHead}));
  EXPECT_EQ(sizes("{band: 65536, maps: [elu, tanh]}", 7), (Sizes{5, kHeads, 7 + 1, kHead}));
}

TEST(Fmmformer, RefusesWhatItCannotDo) {
  const auto message = [](const std::string& options) {
    return error_of([&] { (void)made(options); });
  };
  EXPECT_EQ(message("{band: -1}"),
            "fmmformer options:1: fmmformer.band is -1, out of range; it may be 0..65536");
  EXPECT_EQ(message("{maps: [square]}"),
            "fmmformer options:1: fmmformer.maps[0] is 'square'; one of: elu, elu_flip, tanh");
  EXPECT_EQ(message("{blend: convex}"),
            "fmmformer options:1: fmmformer.blend is 'convex'; one of: free, sigmoid, alpha, far, "
            "product");
  EXPECT_EQ(message("{per: token}"),
            "fmmformer options:1: fmmformer.per is 'token'; one of: channel, head, layer");
  EXPECT_EQ(message("{far_norm: sum}"),
            "fmmformer options:1: fmmformer.far_norm is 'sum'; one of: denominator, none");
  EXPECT_EQ(message("{epsilon: 0}"),
            "fmmformer options:1: fmmformer.epsilon is 0, out of range; it may be > 0");
  EXPECT_EQ(message("{dropout: 1}"),
            "fmmformer options:1: fmmformer.dropout is 1, out of range; it may be 0..0.99");
}

}  // namespace
}  // namespace longbow
