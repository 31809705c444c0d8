#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// phi(x) as the paper writes it, without stabilisers; omega [1 or H, rows, D].
Tensor features(const Tensor& x, const Tensor& omega, const std::string& map, double epsilon) {
  const auto scaled = x / std::pow(static_cast<double>(x.size(-1)), 0.25);
  const auto u = scaled.matmul(omega.transpose(-2, -1)), half = scaled.square().sum(-1, true) / 2;
  if (map == "relu") return u.clamp_min(0) + epsilon;
  return map == "softmax" ? (u - half).exp() : at::cat({(u - half).exp(), (-u - half).exp()}, -1);
}

const bool registered =
    oracle::add("performer", [](const torch::nn::Module& mixer, const Node& options,
                                const Site& site, const Tensor& x, const Context& context) {
      const auto map = as_string(*options.find("map"), "map");
      const double epsilon = as_number(*options.find("epsilon"), "epsilon");
      const auto omega = oracle::tensor_of(mixer, "attention.omega");
      return oracle::multi_head(
          mixer, site, x, context,
          [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
            const auto keys = features(k, omega, map, epsilon);
            const auto weights = features(q, omega, map, epsilon).matmul(keys.transpose(-2, -1));
            return oracle::weighted_mean(weights, v, visible);
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
  for (const auto* options : {"", "{map: hyperbolic}", "{map: relu}"})
    EXPECT_NEAR_TENSOR(run(bare(options), x), x, tolerance(at::kDouble));
}

TEST(Performer, RowsOfABlockAreOrthogonal) {
  const auto gram_of = [](const Tensor& rows) { return rows.matmul(rows.transpose(-2, -1)); };
  const auto omega = omega_of(bare("{features: 19}"))[0];
  EXPECT_EQ(omega.sizes(), at::IntArrayRef({19, kWidth}));
  for (const int64_t first : {0, 8, 16}) {
    const auto gram = gram_of(omega.narrow(0, first, first == 16 ? 3 : 8));
    EXPECT_NEAR_TENSOR(gram, gram.diagonal().diag(), (Tolerance{1e-5, 0}));
  }
  const auto fixed = omega_of(bare("{features: 8, norms: fixed}"))[0];
  EXPECT_NEAR_TENSOR(gram_of(fixed), 8 * at::eye(8, at::kDouble), (Tolerance{1e-5, 0}));
}

// Haar: without the signs of R's diagonal the first entries of Q are negative far too often. The
// mean length of a row is that of a normal vector: E[chi^2] = D.
TEST(Performer, RowsHaveNoPreferredDirection) {
  const auto omega = omega_of(bare("{features: 8000}"))[0];
  EXPECT_NEAR_TENSOR(omega.mean(0), at::zeros({kWidth}, at::kDouble), (Tolerance{0.05, 0}));
  EXPECT_NEAR_TENSOR(omega.t().matmul(omega) / 8000, at::eye(kWidth, at::kDouble),
                     (Tolerance{0.06, 0}));
  const auto diagonal = omega.view({1000, kWidth, kWidth}).diagonal(0, 1, 2);
  EXPECT_NEAR_TENSOR(diagonal.mean(0), at::zeros({kWidth}, at::kDouble), (Tolerance{0.15, 0}));
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
  EXPECT_EQ(mixer->named_buffers()["attention.draws"].item<int64_t>(), 1);
  const auto frozen = bare("{redraw: 0}");
  frozen->train();
  for (const int64_t step : {0, 9, 999}) after_step(frozen, step);
  EXPECT_NEAR_TENSOR(omega_of(frozen), first, kExact);
}

// The next draw follows from the seed and the number of draws, both of which a resumed run has.
TEST(Performer, AResumedRunDrawsTheSame) {
  const auto whole = bare("{redraw: 1}"), resumed = bare("{redraw: 1}"),
             other = bare("{redraw: 1}", 4);
  for (const auto& mixer : {whole, resumed, other}) mixer->train();
  after_step(whole, 0);
  const at::NoGradGuard no_grad;
  for (auto& buffer : resumed->named_buffers())
    buffer.value().copy_(whole->named_buffers()[buffer.key()]);
  after_step(whole, 1);
  after_step(resumed, 1);
  after_step(other, 0);
  after_step(other, 1);
  EXPECT_NEAR_TENSOR(omega_of(resumed), omega_of(whole), kExact);
  EXPECT_FALSE(omega_of(other).allclose(omega_of(whole)));
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
  const auto phi = features(x[0], omega_of(mixer)[0], "softmax", 0);
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
}

TEST(Performer, RefusesOptionsThatItDoesNotHave) {
  const auto message = [](const std::string& options) {
    return error_of([&] { (void)bare(options); });
  };
  EXPECT_EQ(message("{map: exp}"),
            "performer options:1: performer.map is 'exp'; one of: softmax, hyperbolic, relu");
  EXPECT_EQ(message("{norms: chi}"),
            "performer options:1: performer.norms is 'chi'; one of: regular, fixed");
  EXPECT_EQ(message("{features: -1}"),
            "performer options:1: performer.features is -1, out of range; it may be 0..65536");
  EXPECT_EQ(message("{redraw: -1}"),
            "performer options:1: performer.redraw is -1, out of range; it may be >= 0");
  EXPECT_EQ(message("{epsilon: 0}"),
            "performer options:1: performer.epsilon is 0, out of range; it may be > 0");
  EXPECT_EQ(message("{map: hyperbolic, features: 7}"),
            "performer: hyperbolic features come in pairs, but features is 7");
}

}  // namespace
}  // namespace longbow
