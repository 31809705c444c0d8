#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// s_t = exp(dt A) s_{t-1} + u_t, y_t = 2 Re sum_n C_n (exp(dt A_n) - 1) / A_n s_tn.
Tensor recurrence(const torch::nn::Module& mixer, const Tensor& u, const std::string& read) {
  const auto a = at::complex(oracle::tensor_of(mixer, "log_decay").exp().neg(),
                             oracle::tensor_of(mixer, "frequency"));
  const auto decay = (a * oracle::tensor_of(mixer, "log_step").exp().unsqueeze(1)).exp();
  const auto c = at::view_as_complex(oracle::tensor_of(mixer, read)) * (decay - 1) / a;
  auto s = at::zeros({u.size(0), a.size(0), a.size(1)}, a.options());
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < u.size(1); ++t) {
    s = decay * s + u.select(1, t).unsqueeze(-1);
    rows.push_back(2 * at::real(c * s).sum(-1));
  }
  return at::stack(rows, 1);
}

// Later tokens are read by the same recurrence from behind, from the token after on.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site&, const Tensor& x,
             const Context& context) {
  const int64_t n = x.size(1);
  const auto u = oracle::without_padding(x, context);
  auto y = recurrence(mixer, u, "read") + oracle::tensor_of(mixer, "skip") * u;
  if (as_boolean(*options.find("bidirectional"), "bidirectional") && !context.mask.causal)
    y.narrow(1, 0, n - 1) += recurrence(mixer, u.flip(1), "read_ahead").flip(1).narrow(1, 1, n - 1);
  const auto z = at::gelu(y).matmul(oracle::tensor_of(mixer, "output.weight").t()) +
                 oracle::tensor_of(mixer, "output.bias");
  const auto halves = z.chunk(2, -1);
  return oracle::without_padding(halves[0] * halves[1].sigmoid(), context);
}

const bool registered = oracle::add("s4d", dense);

Mixer made(const std::string& options) {
  auto mixer = make_mixer("s4d", {.shape = {.width = 6}, .init = "xavier"}, options);
  mixer->to(at::kDouble);
  mixer->eval();
  return mixer;
}

Tensor run(const Mixer& mixer, const Tensor& x, bool causal = true) {
  Context context = {.mask = {.causal = causal}};
  return (*mixer)(x, context);
}

TEST(S4d, WithoutAReadOutItMixesNoTokens) {
  const auto mixer = made("{state: 8}");
  const at::NoGradGuard no_grad;
  for (const auto* name : {"read", "read_ahead"}) mixer->named_parameters()[name].zero_();
  const auto x = random_normal({2, 9, 6}, 1);
  const auto order = at::randperm(9, at::kLong);
  EXPECT_NEAR_TENSOR(run(mixer, x.index_select(1, order), false),
                     run(mixer, x, false).index_select(1, order), tolerance(at::kDouble));
}

TEST(S4d, ForwardIgnoresWhetherTheMaskIsCausal) {
  const auto mixer = made("{state: 8, bidirectional: false}");
  const auto x = random_normal({2, 9, 6}, 1);
  EXPECT_TRUE(run(mixer, x, false).equal(run(mixer, x, true)));
}

// A long memory: after 4,000 tokens of a step of 0.001 an impulse still counts as it should.
TEST(S4d, ALongKernelIsTheRecurrence) {
  const auto mixer = made("{state: 8, bidirectional: false}");
  const at::NoGradGuard no_grad;
  const auto x = random_normal({1, 4000, 6}, 1);
  Context context = {.mask = {.causal = true}};
  const auto want = dense(*mixer, parse_yaml("{bidirectional: false}", "test"), {}, x, context);
  EXPECT_NEAR_TENSOR(run(mixer, x), want, (Tolerance{1e-10, 1e-10}));
}

TEST(S4d, StartsFromTheSpectraOfThePaper) {
  const auto first = [](const std::string& start) {
    const auto mixer = made("{state: 4, start: " + start + "}");
    EXPECT_NEAR_TENSOR(mixer->named_parameters()["log_decay"].exp(),
                       at::full({6, 2}, 0.5, at::kDouble), tolerance(at::kFloat));
    return mixer->named_parameters()["frequency"][5].detach();
  };
  const double pi = M_PI;
  EXPECT_NEAR_TENSOR(first("lin"), at::tensor({0.0, pi}, at::kDouble), tolerance(at::kFloat));
  EXPECT_NEAR_TENSOR(first("inv"), at::tensor({12 / pi, 4 / pi / 3}, at::kDouble),
                     tolerance(at::kFloat));
  // The skew matrix of two conjugate pairs: w^4 - (sum of squares) w^2 + Pfaffian^2 = 0.
  const auto w = first("legs").square();
  const double squares = (3 + 5 + 7 + 15 + 21 + 35) / 4.0;
  const double pfaffian = (std::sqrt(3.0 * 35) - std::sqrt(5.0 * 21) + std::sqrt(7.0 * 15)) / 4;
  EXPECT_NEAR(w.sum().item<double>(), squares, 1e-4);
  EXPECT_NEAR(w.prod().item<double>(), pfaffian * pfaffian, 1e-3);
}

TEST(S4d, StepsStartBetweenTheirBounds) {
  const auto steps =
      made("{least_step: 0.01, largest_step: 0.02}")->named_parameters()["log_step"].exp();
  EXPECT_GE(steps.min().item<double>(), 0.0099);
  EXPECT_LE(steps.max().item<double>(), 0.0201);
}

TEST(S4d, ItsSystemLearnsSlowlyAndDoesNotDecay) {
  const auto mixer = made("{}");
  for (const auto* name : {"log_step", "log_decay", "frequency"}) {
    EXPECT_FALSE(mixer->hints().at(name).decay);
    EXPECT_EQ(mixer->hints().at(name).max_learning_rate, 1e-3);
  }
}

TEST(S4d, RefusesOptionsThatDoNotFit) {
  EXPECT_EQ(error_of([] { made("{state: 7}"); }),
            "s4d options:1: s4d.state is 7, but half of it is stored; take an even number");
  EXPECT_EQ(error_of([] { made("{least_step: 0.2}"); }),
            "s4d options:1: s4d.least_step is 0.2, above largest_step, 0.1; exchange them");
}

}  // namespace
}  // namespace longbow
