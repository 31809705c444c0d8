#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// x_t = L_ x_{t-1} + B_ u_t, 2 Re(R x_t): u [B, N, C].
Tensor recurrence(const torch::nn::Module& mixer, const Node& options, const Tensor& u,
                  const std::string& read) {
  const auto complex = [&](const std::string& name) {
    return at::view_as_complex(oracle::tensor_of(mixer, name));
  };
  const auto l = complex("lambda"), step = oracle::tensor_of(mixer, "log_step").exp(), z = l * step;
  const bool hold = as_string(*options.find("discretization"), "discretization") == "zoh";
  const auto decay = hold ? z.exp() : (1 + z / 2) / (1 - z / 2);
  const auto b = (hold ? (decay - 1) / l : step / (1 - z / 2)).unsqueeze(1) * complex("input");
  auto x = at::zeros({u.size(0), l.size(0)}, l.options());
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < u.size(1); ++t) {
    x = decay * x + u.select(1, t).to(at::kComplexDouble).matmul(b.t());
    rows.push_back(2 * at::real(x.matmul(complex(read).t())));
  }
  return at::stack(rows, 1);
}

Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site&, const Tensor& x,
             const Context& context) {
  const auto u = oracle::without_padding(x, context);
  auto y = recurrence(mixer, options, u, "read") + oracle::tensor_of(mixer, "skip") * u;
  if (as_boolean(*options.find("bidirectional"), "bidirectional") && !context.mask.causal)
    y = y + recurrence(mixer, options, u.flip(1), "read_ahead").flip(1);
  const auto activation = as_string(*options.find("activation"), "activation");
  if (activation == "gelu") y = at::gelu(y);
  if (activation == "half_glu")
    y = y * (at::gelu(y).matmul(oracle::tensor_of(mixer, "gate.weight").t()) +
             oracle::tensor_of(mixer, "gate.bias"))
                .sigmoid();
  return oracle::without_padding(y, context);
}

const bool registered = oracle::add("s5", dense);

Mixer made(const std::string& mechanism, const std::string& options, int64_t width = 6) {
  auto mixer = make_mixer(mechanism, {.shape = {.width = width}, .init = "xavier"}, options);
  mixer->to(at::kDouble);
  mixer->eval();
  return mixer;
}

Tensor run(const Mixer& mixer, const Tensor& x, bool causal = true) {
  Context context = {.mask = {.causal = causal}};
  return (*mixer)(x, context);
}

// A mode of s5 for each mode of each channel of s4d, which only that channel writes and reads.
TEST(S5, WithModesForEachChannelIsS4d) {
  constexpr int64_t kWidth = 3, kModes = 2;
  const auto s4d = made("s4d", "{state: 4, bidirectional: false}", kWidth),
             s5 = made("s5", "{state: 12, bidirectional: false, activation: none}", kWidth);
  const at::NoGradGuard no_grad;
  auto theirs = s4d->named_parameters(), ours = s5->named_parameters();
  theirs["read"].normal_();
  ours["input"].zero_();
  ours["read"].zero_();
  for (int64_t c = 0; c < kWidth; ++c)
    for (int64_t n = 0; n < kModes; ++n) {
      const int64_t mode = c * kModes + n;
      ours["lambda"][mode][0] = -theirs["log_decay"][c][n].exp();
      ours["lambda"][mode][1] = theirs["frequency"][c][n];
      ours["log_step"][mode] = theirs["log_step"][c];
      ours["input"][mode][c][0] = 1;
      ours["read"][c][mode].copy_(theirs["read"][c][n]);
    }
  ours["skip"].copy_(theirs["skip"]);
  const auto x = random_normal({2, 50, kWidth}, 1);
  const auto mixed =
      at::gelu(run(s5, x)).matmul(theirs["output.weight"].t()) + theirs["output.bias"];
  EXPECT_NEAR_TENSOR(at::glu(mixed, -1), run(s4d, x), (Tolerance{1e-10, 1e-10}));
}

TEST(S5, WithoutAReadOutItIsTheSkip) {
  const auto mixer = made("s5", "{state: 8, activation: none}");
  const at::NoGradGuard no_grad;
  for (const auto* name : {"read", "read_ahead"}) mixer->named_parameters()[name].zero_();
  const auto x = random_normal({2, 9, 6}, 1);
  EXPECT_NEAR_TENSOR(run(mixer, x, false), mixer->named_parameters()["skip"] * x,
                     tolerance(at::kDouble));
}

TEST(S5, ForwardIgnoresWhetherTheMaskIsCausal) {
  const auto mixer = made("s5", "{state: 8, bidirectional: false}");
  const auto x = random_normal({2, 9, 6}, 1);
  EXPECT_TRUE(run(mixer, x, false).equal(run(mixer, x, true)));
}

TEST(S5, ASystemThatWouldGrowIsHeld) {
  const auto mixer = made("s5", "{state: 8}");
  const at::NoGradGuard no_grad;
  mixer->named_parameters()["lambda"].select(1, 0).fill_(50);
  EXPECT_TRUE(run(mixer, random_normal({1, 3000, 6}, 1)).isfinite().all().item<bool>());
}

TEST(S5, BlocksStartAlike) {
  const auto lambda = made("s5", "{state: 16, blocks: 4}")->named_parameters()["lambda"];
  for (int64_t block = 1; block < 4; ++block)
    EXPECT_TRUE(lambda.narrow(0, 2 * block, 2).equal(lambda.narrow(0, 0, 2)));
  EXPECT_TRUE((lambda.select(1, 0) == -0.5).all().item<bool>());
}

TEST(S5, ItsSystemLearnsSlowlyAndDoesNotDecay) {
  const auto mixer = made("s5", "{}");
  for (const auto* name : {"log_step", "lambda", "input"}) {
    EXPECT_FALSE(mixer->hints().at(name).decay);
    EXPECT_EQ(mixer->hints().at(name).max_learning_rate, 1e-3);
  }
}

TEST(S5, RefusesOptionsThatDoNotFit) {
  EXPECT_EQ(error_of([] { made("s5", "{state: 12, blocks: 4}"); }),
            "s5 options:1: s5.state is 12, but needs an even number in each of 4 blocks; take a "
            "multiple of twice the blocks");
  EXPECT_EQ(error_of([] { made("s5", "{least_step: 0.2}"); }),
            "s5 options:1: s5.least_step is 0.2, above largest_step, 0.1; exchange them");
}

}  // namespace
}  // namespace longbow
