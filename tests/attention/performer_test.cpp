#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

Tensor scaled(const Tensor& x) {
  return x / std::pow(static_cast<double>(x.size(-1)), 0.25);
}

// phi(x) as the paper writes it, without stabilisers; omega [1 or H, rows, D].
Tensor features(const Tensor& x, const Tensor& omega, const std::string& map) {
  const auto u = scaled(x).matmul(omega.transpose(-2, -1)),
             half = scaled(x).square().sum(-1, true) / 2;
  const auto phi =
      map == "softmax" ? (u - half).exp() : at::cat({(u - half).exp(), (-u - half).exp()}, -1);
  return phi / std::sqrt(static_cast<double>(phi.size(-1)));
}

Tensor g(const std::string& kernel, const Tensor& u) {
  if (kernel == "relu") return u.clamp_min(0);
  if (kernel == "elu1") return at::where(u > 0, u + 1, u.exp());
  if (kernel == "exp") return u.exp();
  if (kernel == "softplus") return u.exp().log1p();
  return kernel == "square" ? u * u : at::where(u < 0, -u, u);
}

// Features of queries and of keys; `real` [B, 1, M, 1] of 0 and 1 says which keys there are.
std::pair<Tensor, Tensor> features(const Node& options, const Tensor& omega, bool causal,
                                   const Tensor& q, const Tensor& k, const Tensor& real) {
  const auto text = [&](const std::string& name) { return as_string(*options.find(name), name); };
  const auto number = [&](const std::string& name) { return as_number(*options.find(name), name); };
  const auto map = text("map");
  if (map == "no_projection") {
    const auto e = k.exp() * real;
    return {q.exp() / q.exp().sum(-1, true), causal ? e : e / e.sum(2, true).clamp_min(1e-300)};
  }
  if (map == "relu" || map == "generalised") {
    const auto kernel = map == "relu" ? map : text("kernel");
    const bool official = as_boolean(*options.find("official"), "official");
    const auto phi = [&](const Tensor& x) {
      const auto u = omega.defined() ? scaled(x).matmul(omega.transpose(-2, -1))
                     : official      ? x
                                     : scaled(x);
      return g(kernel, u) + number("epsilon");
    };
    return {phi(q), phi(k) * real};
  }
  const double eps = number("eps_in_features");
  if (eps == 0) return {features(q, omega, map), features(k, omega, map) * real};
  const auto u = [&](const Tensor& x) {
    const auto all = scaled(x).matmul(omega.transpose(-2, -1));
    return map == "softmax" ? all : at::cat({all, -all}, -1);
  };
  const auto half = [](const Tensor& x) { return scaled(x).square().sum(-1, true) / 2; };
  const auto u_k = at::where(real > 0, u(k), -1e300);
  const double root = std::sqrt(static_cast<double>(u_k.size(-1)));
  return {((u(q) - half(q) - u(q).amax(-1, true)).exp() + eps) / root,
          ((u_k - half(k) - u_k.amax({2, 3}, true)).exp() + eps) * real / root};
}

const bool registered =
    oracle::add("performer", [](const torch::nn::Module& mixer, const Node& options,
                                const Site& site, const Tensor& x, const Context& context) {
      Tensor omega;
      if (mixer.named_buffers().contains("attention.omega"))
        omega = oracle::tensor_of(mixer, "attention.omega");
      return oracle::multi_head(
          mixer, site, x, context,
          [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sees) {
            const bool all = as_boolean(*options.find("official"), "official");
            const auto visible = all ? at::ones_like(sees) : sees;
            const auto real = std::get<0>(visible.max(2)).unsqueeze(-1);  // [B, 1, M, 1]
            const auto [a, b] = features(options, omega, context.mask.causal, q, k, real);
            const auto weights = a.matmul(b.transpose(-2, -1)) * visible;
            const auto sum = weights.sum(-1, true) +
                             as_number(*options.find("eps_sums"), "eps_sums") * a.sum(-1, true) +
                             as_number(*options.find("eps_denominator"), "eps_denominator");
            return weights.matmul(v) / at::where(sum > 0, sum, 1.0);
          });
    });

constexpr int64_t kWidth = 8;
// One head whose projections are the identity: the attention itself.
Mixer bare(const std::string& options, uint64_t seed = 3, int64_t width = kWidth) {
  const Site site = {.shape = {.width = width, .heads = 1}, .bias = false, .seed = seed};
  const auto mixer = make_mixer("performer", site, options);
  mixer->to(at::kDouble);
  const at::NoGradGuard no_grad;
  for (auto& weight : mixer->parameters()) weight.copy_(at::eye(width));
  mixer->eval();
  return mixer;
}

Tensor run(const Mixer& mixer, const Tensor& x, const Mask& mask = {}) {
  Context context = {.mask = mask};
  return (*mixer)(x, context);
}

Tensor omega_of(const Mixer& mixer) {
  return mixer->named_buffers()["attention.omega"].detach().clone();
}

void after_step(const Mixer& mixer, int64_t step) {
  for (const auto& module : mixer->modules())
    if (auto* part = dynamic_cast<Part*>(module.get())) part->after_step(step);
}

// Sums over keys and features one number at a time.
TEST(Performer, IsTheEquation) {
  constexpr int64_t kTokens = 5, kRows = 6;
  for (const bool causal : {false, true}) {
    const auto mixer = bare("{features: 6}");
    const auto x = random_normal({1, kTokens, kWidth}, 1), omega = omega_of(mixer);
    const auto at = [](const Tensor& t, int64_t i, int64_t j) { return t[0][i][j].item<double>(); };
    const auto phi = [&](int64_t token, int64_t row) {
      double u = 0, norm = 0;
      for (int64_t d = 0; d < kWidth; ++d) {
        const double scaled = at(x, token, d) / std::pow(8.0, 0.25);
        u += at(omega, row, d) * scaled;
        norm += scaled * scaled;
      }
      return std::exp(u - norm / 2) / std::sqrt(6.0);
    };
    auto want = at::zeros({1, kTokens, kWidth}, at::kDouble);
    for (int64_t i = 0; i < kTokens; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < (causal ? i + 1 : kTokens); ++j) {
        double weight = 0;
        for (int64_t r = 0; r < kRows; ++r) weight += phi(i, r) * phi(j, r);
        want[0][i] += weight * x[0][j];
        sum += weight;
      }
      want[0][i] /= sum;
    }
    EXPECT_NEAR_TENSOR(run(mixer, x, {.causal = causal}), want, tolerance(at::kDouble));
  }
}

// The exact limit: the error falls as the square root of the number of features.
TEST(Performer, ManyFeaturesAreSoftmax) {
  constexpr int kDraws = 30;
  const auto x = 0.5 * random_normal({1, 16, kWidth}, 2);
  const auto heads = x.unsqueeze(1);
  const auto want = oracle::softmax(heads, heads, heads, at::ones({1, 1, 16, 16}, at::kDouble))[0];
  const auto error = [&](const std::string& options) {
    double sum = 0;
    for (uint64_t seed = 0; seed < kDraws; ++seed)
      sum += (run(bare(options, seed), x) - want).square().mean().sqrt().item<double>();
    return sum / kDraws;
  };
  const double few = error("{features: 64}"), many = error("{features: 1024}");
  EXPECT_LT(few, 0.1);
  EXPECT_GT(few / many, 3);
  EXPECT_LT(few / many, 5.3);
  EXPECT_LT(error("{features: 64, map: hyperbolic}"), few);
}

TEST(Performer, OneKeyGivesItsValue) {
  const auto x = random_normal({2, 1, kWidth}, 3);
  for (const auto* options :
       {"", "{map: hyperbolic}", "{map: relu}", "{map: generalised, kernel: square}",
        "{map: no_projection}", "{eps_in_features: 1e-4}"})
    EXPECT_NEAR_TENSOR(run(bare(options), x), x, tolerance(at::kDouble));
}

TEST(Performer, RowsAreOrthogonalAndAsLongAsAsked) {
  const auto gram_of = [](const Tensor& rows) { return rows.matmul(rows.transpose(-2, -1)); };
  const auto gram = gram_of(omega_of(bare("{features: 8}"))[0]);
  EXPECT_NEAR_TENSOR(gram, gram.diagonal().diag(), (Tolerance{1e-5, 0}));
  const auto fixed = omega_of(bare("{features: 8, norms: fixed}"))[0];
  EXPECT_NEAR_TENSOR(gram_of(fixed), 8 * at::eye(8, at::kDouble), (Tolerance{1e-5, 0}));
}

TEST(Performer, TheNumberOfFeatures) {
  EXPECT_EQ(omega_of(bare("")).sizes(), at::IntArrayRef({1, 16, 8}));  // 8 ln 8 = 16.6
  EXPECT_EQ(omega_of(bare("{map: hyperbolic}")).sizes(), at::IntArrayRef({1, 8, 8}));
  EXPECT_EQ(omega_of(bare("{map: hyperbolic}", 3, 1)).sizes(), at::IntArrayRef({1, 1, 1}));
  EXPECT_EQ(omega_of(bare("", 3, 64)).sizes(), at::IntArrayRef({1, 266, 64}));
  const auto mixer =
      make_mixer("performer", {.shape = {.width = 24, .heads = 3}}, "{per_head: true}");
  const auto omega = mixer->named_buffers()["attention.omega"];
  EXPECT_EQ(omega.sizes(), at::IntArrayRef({3, 16, 8}));
  EXPECT_FALSE(omega[0].allclose(omega[1]));
}

TEST(Performer, DrawsAnewWhileTrainingAndNeverInEvaluation) {
  const auto mixer = bare("{redraw: 10}");
  const auto first = omega_of(mixer);
  after_step(mixer, 9);
  EXPECT_NEAR_TENSOR(omega_of(mixer), first, kExact);
  mixer->train();
  for (int64_t step = 0; step < 9; ++step) after_step(mixer, step);
  EXPECT_NEAR_TENSOR(omega_of(mixer), first, kExact);
  after_step(mixer, 9);
  EXPECT_FALSE(omega_of(mixer).allclose(first));
  const auto frozen = bare("{redraw: 0}");
  frozen->train();
  for (const int64_t step : {0, 9, 999}) after_step(frozen, step);
  EXPECT_NEAR_TENSOR(omega_of(frozen), first, kExact);
}

// A key whose exponents are hundreds above those before it, in float32: the maximum runs, so
// earlier rows keep their values and later ones do not overflow, in one pass and token by token.
TEST(Performer, TheRunningMaximumFollowsExtremeKeys) {
  const auto mixer = bare("{features: 16}"), narrow = bare("{features: 16}");
  narrow->to(at::kFloat);
  auto x = random_normal({1, 150, kWidth}, 4);
  x.narrow(1, 0, 40) *= 12;  // exponents around -|x|^2 / 2, down to hundreds below zero
  x.narrow(1, 100, 10) *= 6;
  const auto single = x.to(at::kFloat).requires_grad_();
  const auto y = run(narrow, single, {.causal = true});
  y.sum().backward();
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_TRUE(single.grad().isfinite().all().item<bool>());
  EXPECT_NEAR_TENSOR(y.narrow(1, 0, 1), single.narrow(1, 0, 1), (Tolerance{1e-5, 1e-5}));
  const auto want = run(mixer, x, {.causal = true});
  EXPECT_NEAR_TENSOR(run(mixer, x.narrow(1, 0, 99), {.causal = true}), want.narrow(1, 0, 99),
                     tolerance(at::kDouble));
  State state;
  Context context;
  mixer->start(state, 1, 150, context);
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < 150; ++t) {
    Context next;
    rows.push_back(mixer->extend(x.narrow(1, t, 1), state, next));
  }
  EXPECT_NEAR_TENSOR(at::cat(rows, 1), want, (Tolerance{1e-9, 1e-9}));
}

// The recurrence with its maximum, one token at a time, over several chunks.
TEST(Performer, CausallyItIsTheRecurrence) {
  const auto mixer = bare("{features: 12}");
  const auto x = random_normal({1, 140, kWidth}, 5);
  const auto phi = features(x[0], omega_of(mixer)[0], "softmax");
  auto sums = at::zeros({12, kWidth}, at::kDouble), z = at::zeros({12, 1}, at::kDouble);
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < 140; ++t) {
    const auto row = phi.narrow(0, t, 1);
    sums = sums + row.t().matmul(x[0].narrow(0, t, 1));
    z = z + row.t();
    rows.push_back(row.matmul(sums) / row.matmul(z));
  }
  EXPECT_NEAR_TENSOR(run(mixer, x, {.causal = true}), at::cat(rows, 0).unsqueeze(0),
                     tolerance(at::kDouble));
}

TEST(Performer, TheStateIsOneSumPerHeadWhateverTheLength) {
  const auto mixer = make_mixer("performer", {.shape = {.width = 16, .heads = 2}}, "{features: 5}");
  mixer->to(at::kBFloat16);
  State state;
  Context context;
  mixer->start(state, 3, 1000000, context);
  ASSERT_EQ(state.lane.size(), 2u);
  EXPECT_EQ(state.lane.at("sums").sizes(), at::IntArrayRef({3, 2, 5, 9}));
  EXPECT_EQ(state.lane.at("peak").sizes(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(state.lane.at("sums").scalar_type(), at::kFloat);
}

TEST(Performer, EachOptionGivesOtherValues) {
  const auto x = random_normal({1, 9, kWidth}, 6);
  const auto y = run(bare("{features: 16}"), x);
  for (const auto* options : {"{features: 16, map: hyperbolic}", "{features: 16, map: relu}",
                              "{features: 16, norms: fixed}", "{features: 15}"})
    EXPECT_FALSE(run(bare(options), x).allclose(y)) << options;
  EXPECT_FALSE(run(bare("{map: relu, epsilon: 1}"), x).allclose(run(bare("{map: relu}"), x)));
  for (const auto* eps : {"eps_in_features", "eps_sums", "eps_denominator"}) {
    const auto options = std::string("{features: 16, ") + eps + ": 0.1}";
    EXPECT_FALSE(run(bare(options), x).allclose(y)) << eps;
  }
}

// g by g, with Omega and without, against its formula at every pair.
TEST(Performer, TheGeneralisedMapTakesAnyKernel) {
  const auto x = random_normal({1, 12, kWidth}, 7);
  for (const std::string kernel : {"relu", "elu1", "exp", "softplus", "square", "abs"})
    for (const bool projection : {false, true}) {
      const auto mixer =
          bare("{map: generalised, features: " + std::string(projection ? "5" : "8") +
               ", kernel: " + kernel + (projection ? "}" : ", projection: false}"));
      EXPECT_EQ(mixer->named_buffers().contains("attention.omega"), projection);
      const auto u = projection ? scaled(x).matmul(omega_of(mixer)[0].t()) : scaled(x);
      const auto phi = g(kernel, u) + 1e-3;
      const auto weights = phi.matmul(phi.transpose(-2, -1));
      EXPECT_NEAR_TENSOR(run(mixer, x), weights.matmul(x) / weights.sum(-1, true),
                         tolerance(at::kDouble))
          << kernel;
    }
  EXPECT_NEAR_TENSOR(run(bare("{map: relu}"), x), run(bare("{map: generalised}"), x), kExact);
}

// A softmax over the channels of a query mixes means of the values, one for each channel of the
// keys; all positions sum to one, so the output is within the hull of the values.
TEST(Performer, WithoutAProjectionItIsEfficientAttention) {
  const auto x = random_normal({1, 10, kWidth}, 8);
  const auto mixer = bare("{map: no_projection}");
  EXPECT_TRUE(mixer->buffers().empty());
  const auto want = x[0].softmax(-1).matmul(x[0].softmax(0).t().matmul(x[0]));
  EXPECT_NEAR_TENSOR(run(mixer, x)[0], want, tolerance(at::kDouble));
  const auto weights = x[0].softmax(-1).matmul(x[0].exp().t()).tril();
  EXPECT_NEAR_TENSOR(run(mixer, x, {.causal = true})[0],
                     weights.matmul(x[0]) / weights.sum(-1, true), tolerance(at::kDouble));
}

// eps in the features pulls towards the mean of the values, all the more the larger it is.
TEST(Performer, EpsInTheFeaturesPullsTowardsTheMean) {
  const auto x = random_normal({1, 10, kWidth}, 9);
  EXPECT_NEAR_TENSOR(run(bare("{eps_in_features: 1e6}"), x), x.mean(1, true).expand_as(x),
                     (Tolerance{1e-4, 0}));
  EXPECT_NEAR_TENSOR(run(bare("{eps_in_features: 1e-13}"), x), run(bare(""), x),
                     (Tolerance{1e-9, 1e-9}));
}

// The factor of a key is common to the sum and to what is added, so a large one hides eps.
TEST(Performer, EpsOfSumsAndDenominatorsIsInUnitsOfTheFeatures) {
  const auto x = random_normal({1, 7, kWidth}, 10);
  for (const std::string map : {"softmax", "hyperbolic"})
    for (const bool causal : {false, true}) {
      const auto mixer =
          bare("{features: 6, eps_sums: 0.2, eps_denominator: 0.3, map: " + map + "}");
      const auto phi = features(x[0], omega_of(mixer)[0], map);
      auto weights = phi.matmul(phi.t());
      if (causal) weights = weights.tril();
      const auto sum = weights.sum(-1, true) + 0.2 * phi.sum(-1, true) + 0.3;
      EXPECT_NEAR_TENSOR(run(mixer, x, {.causal = causal})[0], weights.matmul(x[0]) / sum,
                         tolerance(at::kDouble));
    }
}

// Its maxima are constants to the gradient though they do not cancel, as in the reference, so it is
// no variant that the laws look at; its values are those of the formula, padded or not.
TEST(Performer, EpsInTheFeaturesIsTheFormula) {
  const Site site = {.shape = {.width = 12, .heads = 2}, .init = "xavier"};
  const auto x = random_normal({2, 9, 12}, 12);
  for (const std::string options : {"{features: 5, eps_in_features: 0.01}",
                                    "{map: hyperbolic, features: 6, eps_in_features: 0.1, "
                                    "eps_sums: 0.2, eps_denominator: 0.3, per_head: true}"}) {
    const auto mixer = make_mixer("performer", site, options);
    mixer->to(at::kDouble);
    const auto resolved = find_mechanism("performer").resolve(parse_yaml(options, "test"));
    for (const auto& keep : {Tensor(), Mask::from_lengths(at::tensor({9, 4}), 9).keep}) {
      Context context = {.mask = {.keep = keep}};
      const auto want = (*oracle::find("performer"))(*mixer, resolved, site, x, context);
      EXPECT_NEAR_TENSOR((*mixer)(x, context), want, tolerance(at::kDouble));
      auto loud = x.clone();
      loud[1].narrow(0, 4, 5).fill_(50);
      if (keep.defined()) EXPECT_NEAR_TENSOR((*mixer)(loud, context), want, tolerance(at::kDouble));
    }
  }
}

TEST(Performer, EpsInTheFeaturesIsNotCausal) {
  const auto mixer = bare("{eps_in_features: 1e-4}");
  const auto x = random_normal({1, 3, kWidth}, 11);
  EXPECT_EQ(error_of([&] {
              run(mixer, x, {.causal = true});
            }).find("performer: is not causal; mechanisms that do: "),
            0u);
  EXPECT_EQ(error_of([&] {
              State state;
              Context context;
              mixer->start(state, 1, 8, context);
            }).find("performer: has no decoding state; mechanisms that do: "),
            0u);
}

// relu(q) . relu(k) with 1e-3 beside each feature, over padding too.
TEST(Performer, TheOfficialFormReadsPaddingAndScalesNothing) {
  const auto mixer = bare("{map: generalised, projection: false, official: true}");
  const auto x = random_normal({1, 9, kWidth}, 11), phi = x.relu() + 1e-3;
  const auto weights = phi.matmul(phi.transpose(1, 2));
  EXPECT_NEAR_TENSOR(run(mixer, x, {.keep = (at::arange(9) < 5).unsqueeze(0)}).slice(1, 0, 5),
                     (weights.matmul(x) / weights.sum(-1, true)).slice(1, 0, 5),
                     (Tolerance{1e-12, 1e-12}));
}

TEST(Performer, RefusesOptionsThatItDoesNotHave) {
  const auto message = [](const std::string& options) {
    return error_of([&] { (void)bare(options); });
  };
  EXPECT_EQ(message("{map: exp}"),
            "performer options:1: performer.map is 'exp'; one of: softmax, hyperbolic, relu, "
            "generalised, no_projection");
  EXPECT_EQ(message("{map: generalised, kernel: cosine}"),
            "performer options:1: performer.kernel is 'cosine'; one of: relu, elu1, exp, softplus, "
            "square, abs");
  for (const std::string name : {"eps_in_features", "eps_sums", "eps_denominator"})
    EXPECT_EQ(message("{" + name + ": -1}"),
              "performer options:1: performer." + name + " is -1, out of range; it may be >= 0");
  EXPECT_EQ(message("{norms: chi}"),
            "performer options:1: performer.norms is 'chi'; one of: regular, fixed");
  EXPECT_EQ(message("{features: -1}"),
            "performer options:1: performer.features is -1, out of range; it may be 0..65536");
  EXPECT_EQ(message("{redraw: -1}"),
            "performer options:1: performer.redraw is -1, out of range; it may be >= 0");
  EXPECT_EQ(message("{epsilon: 0}"),
            "performer options:1: performer.epsilon is 0, out of range; it may be > 0");
  EXPECT_EQ(message("{official: true}"),
            "performer options:1: performer.official needs map: generalised and projection: false; "
            "set both, or leave it out");
}

}  // namespace
}  // namespace longbow
