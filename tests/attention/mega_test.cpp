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

// The recurrence of one direction, channels `first` .. of the parameters.
Tensor moving(const torch::nn::Module& mixer, const Tensor& x, int64_t first) {
  const auto rows = [&](const std::string& name) {
    return of(mixer, "average." + name).narrow(0, first, x.size(2));
  };
  const auto p = rows("delta").sigmoid(), phi = 1 - p * rows("alpha").sigmoid();
  auto s = at::zeros_like(phi).expand({x.size(0), -1, -1});
  std::vector<Tensor> averages;
  for (int64_t t = 0; t < x.size(1); ++t) {
    s = phi * s + p * rows("beta") * x.select(1, t).unsqueeze(-1);
    averages.push_back((rows("eta") * s).sum(-1) / std::sqrt(static_cast<double>(phi.size(1))));
  }
  return at::stack(averages, 1);
}

Tensor biases(const torch::nn::Module& mixer, const std::string& kind, int64_t chunk, int64_t n) {
  const auto table = of(mixer, "bias");
  auto result = at::zeros({n, n}, at::kDouble);
  const auto turned = [&](const Tensor& vector, int64_t t) {
    const int64_t half = vector.size(0) / 2;
    const auto angle = static_cast<double>(t) *
                       at::pow(10000.0, -at::arange(half, at::kDouble) / static_cast<double>(half));
    const auto a = vector.narrow(0, 0, half), b = vector.narrow(0, half, half);
    return at::cat({a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()});
  };
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      if (chunk > 0 && i / chunk != j / chunk) continue;
      result[i][j] = kind == "simple" ? table[(table.size(0) - 1) / 2 + j - i]
                                      : turned(table[0], i).dot(turned(table[1], j));
    }
  return result;
}

Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site&, const Tensor& x,
             const Context& context) {
  const auto text = [&](const char* key) { return as_string(*options.find(key), key); };
  const auto flag = [&](const char* key) { return as_boolean(*options.find(key), key); };
  const int64_t n = x.size(1), width = x.size(2),
                chunk = as_integer(*options.find("chunk"), "chunk");
  const auto given =
      flag("norm") ? at::layer_norm(x, {width}, of(mixer, "norm.weight"), of(mixer, "norm.bias"))
                   : x;
  const auto real = oracle::without_padding(given, context);
  auto average = moving(mixer, real, 0);
  if (flag("bidirectional") && !context.mask.causal)
    average = average + moving(mixer, real.flip(1), width).flip(1);
  const auto m = at::silu(average + of(mixer, "average.omega") * given);
  const int64_t hidden = of(mixer, "value.weight").size(0), shared = of(mixer, "gain").size(1);
  const auto parts =
      projected(mixer, m, "gates").split_with_sizes({width, shared, hidden, width}, -1);
  const auto z = at::silu(parts[1]), gain = of(mixer, "gain"), offset = of(mixer, "offset");
  const auto scores = (z * gain[0] + offset[0]).matmul((z * gain[1] + offset[1]).transpose(1, 2));
  auto visible = oracle::visible(context, x.size(0), n, n).squeeze(1);
  const auto place = at::arange(n, at::kLong);
  if (chunk > 0) {
    const auto own = place.floor_divide(chunk);
    visible = visible * (own.unsqueeze(0) == own.unsqueeze(1)).to(at::kDouble);
  }
  const auto bias = biases(mixer, text("bias"), chunk, n);
  const auto v = at::silu(projected(mixer, given, "value"));
  Tensor o;
  if (text("function") == "softmax") {
    o = oracle::weighted_mean((scores / std::sqrt(static_cast<double>(shared)) + bias).exp(), v,
                              visible);
  } else {
    const auto a = scores / visible.sum(-1, true).clamp_min(1) + bias;
    const auto f = text("function") == "relu2"
                       ? a.relu().square()
                       : (1 + at::erf((a - 0.707107) / (0.282095 * std::sqrt(2.0)))) / 2;
    o = (f * visible).matmul(v);
  }
  const auto candidate = at::silu(parts[3] + projected(mixer, o * at::silu(parts[2]), "output"));
  return oracle::without_padding(parts[0].sigmoid() * (candidate - x), context);
}

const bool registered = oracle::add("mega", dense);

const Site kSite = {.shape = {.width = 6, .max_length = 40}, .init = "xavier"};

Mixer made(const std::string& options, const Site& site = kSite) {
  auto mixer = make_mixer("mega", site, options);
  mixer->to(at::kDouble);
  mixer->eval();
  return mixer;
}

Tensor run(const Mixer& mixer, const Tensor& x, bool causal = false) {
  Context context = {.mask = {.causal = causal}};
  return (*mixer)(x, context);
}

// The same parameters, and the biases of the distances that both have.
void copy(const Mixer& from, const Mixer& to) {
  const at::NoGradGuard no_grad;
  auto target = to->named_parameters();
  for (const auto& source : from->named_parameters()) {
    auto& tensor = target[source.key()];
    const int64_t more = (source.value().size(0) - tensor.size(0)) / 2;
    tensor.copy_(source.value().narrow(0, more, tensor.size(0)));
  }
}

TEST(Mega, OneChunkIsTheWholeForm) {
  for (const std::string more : {"", ", function: laplace", ", function: relu2, bias: rotary"})
    for (const bool causal : {false, true}) {
      const auto whole = made("{shared: 8, components: 2, chunk: 0" + more + "}"),
                 chunked = made("{shared: 8, components: 2, chunk: 30" + more + "}");
      copy(whole, chunked);
      const auto x = random_normal({2, 30, 6}, 1);
      EXPECT_NEAR_TENSOR(run(chunked, x, causal), run(whole, x, causal), tolerance(at::kDouble));
    }
}

TEST(Mega, AClosedUpdateGateIsTheIdentity) {
  const auto mixer = made("{shared: 8}");
  const at::NoGradGuard no_grad;
  mixer->named_parameters()["gates.weight"].narrow(0, 0, 6).zero_();
  mixer->named_parameters()["gates.bias"].narrow(0, 0, 6).fill_(-INFINITY);
  EXPECT_EQ(run(mixer, random_normal({2, 9, 6}, 1)).abs().max().item<double>(), 0);
}

// Then it is a gated head over the tokens themselves, and chunks of one token see no other.
TEST(Mega, WithoutAnAverageChunksOfOneTokenMixNothing) {
  const auto mixer = made("{shared: 8, chunk: 1}");
  const at::NoGradGuard no_grad;
  mixer->named_parameters()["average.beta"].zero_();
  const auto x = random_normal({2, 9, 6}, 1);
  const auto order = at::tensor({3, 1, 4, 0, 5, 8, 2, 6, 7}, at::kLong);
  EXPECT_NEAR_TENSOR(run(mixer, x.index_select(1, order)), run(mixer, x).index_select(1, order),
                     tolerance(at::kDouble));
}

// With one component, alpha -> infinity and beta = eta = 1, omega = 0: phi = 1 - p.
TEST(Mega, TheClassicMovingAverageIsASpecialCase) {
  const auto mixer = made("{shared: 8, components: 1, norm: false, bidirectional: false}");
  const at::NoGradGuard no_grad;
  auto parameters = mixer->named_parameters();
  parameters["average.alpha"].fill_(1e3);
  parameters["average.beta"].fill_(1);
  parameters["average.eta"].fill_(1);
  parameters["average.omega"].zero_();
  const auto p = parameters["average.delta"].sigmoid().squeeze(1), x = random_normal({1, 20, 6}, 1);
  auto classic = at::zeros({1, 6}, at::kDouble);
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < 20; ++t) {
    classic = (1 - p) * classic + p * x.select(1, t);
    rows.push_back(classic);
  }
  EXPECT_NEAR_TENSOR(moving(*mixer, x, 0), at::stack(rows, 1), tolerance(at::kDouble));
  Context context;
  const auto options = find_mechanism("mega").resolve(
      parse_yaml("{shared: 8, components: 1, norm: false, bidirectional: false}", "options"));
  EXPECT_NEAR_TENSOR(run(mixer, x), dense(*mixer, options, kSite, x, context),
                     tolerance(at::kDouble));
}

// A component that forgets everything at once, phi = 0, still counts the token itself.
TEST(Mega, AComponentWithoutPastIsFinite) {
  const auto mixer = made("{shared: 8, components: 2}");
  const at::NoGradGuard no_grad;
  mixer->named_parameters()["average.alpha"].fill_(1e3);
  mixer->named_parameters()["average.delta"].fill_(1e3);
  const auto x = random_normal({2, 9, 6}, 1);
  Context context;
  const auto options =
      find_mechanism("mega").resolve(parse_yaml("{shared: 8, components: 2}", "options"));
  EXPECT_NEAR_TENSOR(run(mixer, x), dense(*mixer, options, kSite, x, context),
                     tolerance(at::kDouble));
}

TEST(Mega, ItsBlockHasNoNormBeforeIt) {
  const auto names = [](const std::string& options, Residual residual) {
    return make_block(parse_yaml(options, "options"), kSite, {.residual = residual})
        ->named_parameters();
  };
  EXPECT_FALSE(names("{name: mega}", Residual::pre_norm).contains("mixer_norm.weight"));
  EXPECT_TRUE(names("{name: mega}", Residual::pre_norm).contains("mixer.norm.weight"));
  EXPECT_TRUE(names("{name: mega}", Residual::pre_norm).contains("feed_forward_norm.weight"));
  EXPECT_TRUE(names("{name: mega, norm: false}", Residual::pre_norm).contains("mixer_norm.weight"));
  EXPECT_TRUE(
      names("{name: mega, norm: false}", Residual::post_norm).contains("mixer_norm.weight"));
}

TEST(Mega, APreNormBlockAddsItToTheTokensAsTheyAre) {
  const auto block = make_block(parse_yaml("{name: mega, shared: 8}", "options"), kSite,
                                {.feed_forward = {.kind = FeedForwardKind::none}});
  block->to(at::kDouble);
  block->eval();
  const auto mixer = std::dynamic_pointer_cast<MixerImpl>(block->named_children()["mixer"]);
  const auto x = random_normal({2, 9, 6}, 1);
  Context context;
  EXPECT_TRUE(block->forward(x, context).equal(x + run(mixer, x)));
}

TEST(Mega, RefusesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] { made("{shared: 5, bias: rotary}"); }),
            "mega options:1: mega.shared is 5, but bias: rotary turns halves of it; take an even "
            "number");
  EXPECT_EQ(error_of([] { made("{chunk: 0}", {.shape = {.width = 6}}); }),
            "mega: bias: simple without chunks needs max_length");
  EXPECT_EQ(error_of([] {
              run(made("{chunk: 0}"), at::zeros({1, 41, 6}, at::kDouble));
            }),
            "mega: 41 tokens, but max_length is 40");
}

}  // namespace
}  // namespace longbow
