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

// What each head has of the tokens of one sequence, [H, n, ·].
struct Parts {
  Tensor c, b, x, step, log_decay;  // step and log_decay [H, n, 1]
  Tensor z;                         // [1, n, E]
};
Parts parts_of(const torch::nn::Module& mixer, const std::string& prefix, const Node& options,
               const Site& site, const Tensor& u) {
  const auto integer = [&](const char* key) { return as_integer(*options.find(key), key); };
  const auto number = [&](const char* key) { return as_number(*options.find(key), key); };
  const int64_t groups = integer("groups"), n = integer("state"),
                heads = integer("expand") * site.shape.heads, inner = heads * site.shape.head();
  const auto all = oracle::projected(mixer, prefix + "input", u);
  const auto mixed = oracle::convolved(mixer, prefix + "convolution",
                                       all.narrow(2, inner, inner + 2 * groups * n));
  const auto shared = [&](int64_t start) {  // by head from what its group has
    return split_heads(mixed.narrow(2, start, groups * n), groups)[0].repeat_interleave(
        heads / groups, 0);
  };
  const auto dt =
      all.narrow(2, all.size(2) - heads, heads) + oracle::tensor_of(mixer, prefix + "steps.bias");
  auto step = (1 + dt.exp()).log();
  step = step.clamp_min(number("least_step"));
  if (number("most_step") > 0) step = step.clamp_max(number("most_step"));
  step = split_heads(step, heads)[0];
  const auto rate = oracle::tensor_of(mixer, prefix + "steps.log_rate").exp().view({heads, 1, 1});
  return {.c = shared(inner + groups * n),
          .b = shared(inner),
          .x = split_heads(mixed.narrow(2, 0, inner), heads)[0],
          .step = step,
          .log_decay = -rate * step,
          .z = all.narrow(2, 0, inner)};
}

Tensor output(const torch::nn::Module& mixer, const std::string& prefix, const Node& options,
              const Parts& parts, const Tensor& read) {
  const auto skip = oracle::tensor_of(mixer, prefix + "skip").view({-1, 1, 1});
  auto y = merge_heads((read + skip * parts.x).unsqueeze(0)) * parts.z * at::sigmoid(parts.z);
  const bool grouped = as_string(*options.find("norm"), "norm") == "groups";
  const int64_t groups = grouped ? as_integer(*options.find("groups"), "groups") : 1;
  y = oracle::rms_norm(y.unflatten(2, {groups, -1}),
                       as_number(*options.find("norm_epsilon"), "norm_epsilon"))
          .flatten(2);
  return oracle::projected(mixer, prefix + "output",
                           y * oracle::tensor_of(mixer, prefix + "norm.weight"));
}

// O = (L * C B^T) (Delta x), L_ij = exp(sum of the decays after j up to i), for each head.
Tensor dense(const torch::nn::Module& mixer, const Node& options, const Site& site, const Tensor& x,
             const Context& context) {
  const auto run = [&](const std::string& prefix, const Tensor& tokens, const Tensor&) {
    const auto parts = parts_of(mixer, prefix, options, site, tokens);
    const auto sums = parts.log_decay.cumsum(1);
    const auto between = sums - sums.transpose(1, 2);
    const auto kept = at::where(between > 0, 0, between).exp().tril();
    const auto read = (kept * parts.c.matmul(parts.b.transpose(1, 2))).matmul(parts.step * parts.x);
    return output(mixer, prefix, options, parts, read);
  };
  return oracle::both_ways(options, x, context, run);
}
const bool registered = oracle::add("ssd", dense);

Mixer made(const std::string& options = "{state: 7}", const Site& site = kSite) {
  const auto mixer = make_mixer("ssd", site, options);
  mixer->to(at::kDouble);
  return mixer;
}

Node resolved(const std::string& options) {
  return find_mechanism("ssd").resolve(parse_yaml(options, "options"));
}

void set(const Mixer& mixer, const std::string& name, const Tensor& value) {
  const at::NoGradGuard no_grad;
  mixer->named_parameters()[name].copy_(value);
}

Tensor causal(const Mixer& mixer, const Tensor& x) {
  Context context = {.mask = {.causal = true}};
  return (*mixer)(x, context);
}

// S_t = exp(Delta_t A) S_{t-1} + B_t (Delta_t x_t)^T, token by token.
TEST(Ssd, IsTheRecurrence) {
  const std::string options = "{state: 7, groups: 2}";
  const auto mixer = made(options);
  const auto u = random_normal({1, 100, kWidth}, 1);
  const auto parts = parts_of(*mixer, "forward.", resolved(options), kSite, u);
  auto sums = at::zeros({2 * kHeads, 7, 6}, at::kDouble);
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < 100; ++t) {
    const auto row = [&](const Tensor& all) { return all.narrow(1, t, 1); };
    sums = sums * row(parts.log_decay).exp() +
           row(parts.b).transpose(1, 2).matmul(row(parts.step) * row(parts.x));
    rows.push_back(row(parts.c).matmul(sums));
  }
  EXPECT_NEAR_TENSOR(causal(mixer, u),
                     output(*mixer, "forward.", resolved(options), parts, at::cat(rows, 1)),
                     tolerance(at::kDouble));
}

// Rate 0 and steps of one: tril(C B^T) x.
TEST(Ssd, WithoutDecayItIsCausalLinearAttention) {
  const std::string options = "{state: 7, least_step: 1, most_step: 1}";
  const auto mixer = made(options);
  set(mixer, "forward.steps.log_rate", at::full({2 * kHeads}, -INFINITY));
  const auto u = random_normal({1, 80, kWidth}, 2);
  const auto parts = parts_of(*mixer, "forward.", resolved(options), kSite, u);
  const auto read = parts.c.matmul(parts.b.transpose(1, 2)).tril().matmul(parts.x);
  EXPECT_NEAR_TENSOR(causal(mixer, u), output(*mixer, "forward.", resolved(options), parts, read),
                     tolerance(at::kDouble));
}

TEST(Ssd, WithoutStepsItIsASkipConnection) {
  const auto mixer = made();
  set(mixer, "forward.steps.bias", at::full({2 * kHeads}, -1e3));
  const auto u = random_normal({1, 20, kWidth}, 3);
  const auto parts = parts_of(*mixer, "forward.", resolved("{state: 7}"), kSite, u);
  EXPECT_NEAR_TENSOR(
      causal(mixer, u),
      output(*mixer, "forward.", resolved("{state: 7}"), parts, at::zeros_like(parts.x)),
      tolerance(at::kDouble));
}

// In float32: a step of a thousand forgets all that was before it.
TEST(Ssd, SteepStepsStayFinite) {
  const auto mixer = make_mixer("ssd", kSite, "{state: 7}");
  set(mixer, "forward.steps.bias", at::full({2 * kHeads}, 1e3));
  const auto x = random_normal({1, 200, kWidth}, 6).to(at::kFloat).requires_grad_();
  Context context;
  const auto y = (*mixer)(x, context);
  y.square().sum().backward();
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

TEST(Ssd, TheStateIsOneMatrixForEachHeadWhateverTheLength) {
  const auto mixer = make_mixer("ssd", kSite, "{state: 7, groups: 2}");
  mixer->to(at::kBFloat16);
  State state;
  Context context;
  mixer->start(state, 3, 1000000, context);
  ASSERT_EQ(state.lane.size(), 2u);
  EXPECT_EQ(state.lane.at("sums").sizes(), at::IntArrayRef({3, 2, 7, 12}));
  EXPECT_EQ(state.lane.at("sums").scalar_type(), at::kFloat);
  EXPECT_EQ(state.lane.at("short_convolution").sizes(), at::IntArrayRef({3, 3, 24 + 2 * 2 * 7}));
}

TEST(Ssd, RefusesWhatItCannotDo) {
  EXPECT_EQ(error_of([] { (void)made("{groups: 3}"); }),
            "ssd options:1: ssd.groups is 3, but 4 heads do not divide into so many; take a "
            "divisor of expand times the model's heads");
  EXPECT_EQ(error_of([] { (void)made("{least_step: 2, most_step: 1}"); }),
            "ssd options:1: ssd.most_step is 1, but least_step is 2; take a larger one, or 0 for "
            "no limit");
  EXPECT_EQ(error_of([] { (void)made("{state: 0}"); }),
            "ssd options:1: ssd.state is 0, out of range; it may be 1..65536");
  EXPECT_EQ(error_of([] {
              (void)causal(made("{backward: own}"), random_normal({1, 3, kWidth}, 8));
            }).find("ssd: is not causal; mechanisms that do: "),
            0u);
}

}  // namespace
}  // namespace longbow
