#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

// [N, N] of 0 and 1: the blocks of i and j at level l are the same or neighbours.
Tensor near(int64_t length, int64_t block, int64_t l) {
  const auto place = at::arange(length).floor_divide(block << l);
  return ((place.unsqueeze(1) - place.unsqueeze(0)).abs() <= 1).to(at::kDouble);
}

// [B, 1, N, N]: row i is the mean over the real tokens in i's cluster of 2^l.
Tensor cluster_means(const Tensor& real, int64_t l) {
  const auto cluster = at::arange(real.size(1)).floor_divide(int64_t{1} << l);
  const auto same = (cluster.unsqueeze(1) == cluster.unsqueeze(0)).to(at::kDouble);
  const auto members = same * real.unsqueeze(1).unsqueeze(1);
  return members / members.sum(-1, true).clamp_min(1);
}

// Every pair with the scores of its level, as the definition says.
Tensor dense(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
             const Tensor& real, bool causal, int64_t block) {
  const int64_t n = q.size(2);
  auto scores = at::zeros({q.size(0), q.size(1), n, n}, at::kDouble),
       left = at::ones({n, n}, at::kDouble);
  for (int64_t l = 0; left.sum().item<double>() > 0; ++l) {
    const auto here = left * near(n, block, l), means = cluster_means(real, l);
    const auto first = at::arange(n).floor_divide(int64_t{1} << l) * (int64_t{1} << l);
    const auto queries = causal ? q.index_select(2, first) : means.matmul(q);
    scores = scores + here * queries.matmul(means.matmul(k).transpose(-2, -1));
    left = left - here;
  }
  return oracle::weighted_mean((scores / std::sqrt(static_cast<double>(q.size(-1)))).exp(), v,
                               visible);
}

const bool registered =
    oracle::add("h1d", [](const torch::nn::Module& mixer, const Node& options, const Site& site,
                          const Tensor& x, const Context& context) {
      const auto& mask = context.mask;
      const auto real = mask.keep.defined() ? mask.keep.to(at::kDouble)
                                            : at::ones({x.size(0), x.size(1)}, at::kDouble);
      return oracle::multi_head(
          mixer, site, x, context,
          [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
            return dense(q, k, v, visible, real, mask.causal,
                         as_integer(*options.find("block"), "block"));
          });
    });

const Site kSite = {.shape = {.width = 6, .heads = 2, .head_width = 3, .max_length = 64},
                    .init = "xavier"};

Tensor run(const std::string& name, const std::string& options, const Tensor& x,
           Context context = {}) {
  const auto mixer = make_mixer(name, kSite, options);
  mixer->to(at::kDouble);
  return (*mixer)(x, context);
}

// One head whose projections are the identity: the attention itself.
Tensor bare(const std::string& options, const Tensor& x, Context context = {}) {
  const int64_t width = x.size(2);
  const auto mixer = make_mixer(
      "h1d", {.shape = {.width = width, .heads = 1, .max_length = 64}, .bias = false}, options);
  {
    const at::NoGradGuard no_grad;
    for (auto& parameter : mixer->parameters()) parameter.copy_(at::eye(width));
  }
  mixer->to(at::kDouble);
  return (*mixer)(x, context);
}

TEST(H1d, IsTheEquationInLoops) {
  constexpr int64_t kTokens = 13, kWidth = 3, kBlock = 2;
  const auto x = random_normal({1, kTokens, kWidth}, 1);
  const auto mean = [&](int64_t i, int64_t size, int64_t c) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t j = i / size * size; j < std::min(kTokens, i / size * size + size); ++j, ++count)
      sum += x[0][j][c].item<double>();
    return sum / static_cast<double>(count);
  };
  for (const bool causal : {false, true}) {
    const auto want = at::zeros({1, kTokens, kWidth}, at::kDouble);
    for (int64_t i = 0; i < kTokens; ++i) {
      double total = 0;
      for (int64_t j = 0; j < (causal ? i + 1 : kTokens); ++j) {
        int64_t size = 1;
        while (std::abs(i / (kBlock * size) - j / (kBlock * size)) > 1) size *= 2;
        double score = 0;
        for (int64_t c = 0; c < kWidth; ++c)
          score += (causal ? x[0][i / size * size][c].item<double>() : mean(i, size, c)) *
                   mean(j, size, c) / std::sqrt(3.0);
        total += std::exp(score);
        want[0][i] += std::exp(score) * x[0][j];
      }
      want[0][i] /= total;
    }
    EXPECT_NEAR_TENSOR(bare("{block: 2}", x, {.mask = {.causal = causal}}), want,
                       tolerance(at::kDouble));
  }
}

TEST(H1d, TwoBlocksAreSoftmax) {
  const auto mask = Mask::from_lengths(at::tensor({24, 17}, at::kLong), 24);
  const auto x = random_normal({2, 24, 6}, 2);
  for (const bool causal : {false, true}) {
    const Context context = {.mask = {.causal = causal, .keep = mask.keep}};
    const auto want = run("softmax", "", x, context);
    for (const std::string block : {"12", "16", "64"})
      EXPECT_NEAR_TENSOR(run("h1d", "{block: " + block + "}", x, context), want,
                         tolerance(at::kDouble));
    EXPECT_FALSE(run("h1d", "{block: 10}", x, context).allclose(want));
  }
}

TEST(H1d, TokensThatAreEqualWithinClustersAreSoftmax) {
  const auto x = random_normal({2, 8, 6}, 3).repeat_interleave(4, 1);  // 32 tokens, clusters of 4
  for (const bool causal : {false, true}) {
    const Context context = {.mask = {.causal = causal}};
    EXPECT_NEAR_TENSOR(run("h1d", "{block: 4}", x, context), run("softmax", "", x, context),
                       tolerance(at::kDouble));
  }
}

// Every token weighs the same: the mean, whatever the sizes of the clusters that are cut off.
TEST(H1d, EveryPairIsCountedOnce) {
  const auto values = random_normal({1, 64, 4}, 4);
  for (const int64_t n : {1, 5, 16, 33, 50, 63, 64}) {
    const auto mixer =
        make_mixer("h1d", {.shape = {.width = 4, .heads = 1, .max_length = 64}}, "{block: 2}");
    {
      const at::NoGradGuard no_grad;
      for (auto& parameter : mixer->named_parameters()) parameter.value().zero_();
      for (const auto* name : {"value.weight", "output.weight"})
        mixer->named_parameters()[name].copy_(at::eye(4));
    }
    mixer->to(at::kDouble);
    const auto x = values.narrow(1, 0, n);
    Context all, past = {.mask = {.causal = true}};
    EXPECT_NEAR_TENSOR((*mixer)(x, all), x.mean(1, true).expand_as(x), tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR((*mixer)(x, past),
                       x.cumsum(1) / at::arange(1, n + 1, at::kDouble).view({1, n, 1}),
                       tolerance(at::kDouble));
  }
}

TEST(H1d, LevelsWithVeryDifferentScoresAreMerged) {
  const auto scale = at::ones({1, 40, 1}, at::kDouble);
  scale.narrow(1, 0, 20).fill_(7);
  const auto x = random_normal({1, 40, 4}, 5) * scale;  // scores up to some hundreds
  const auto heads = x.unsqueeze(1);
  const auto want = dense(heads, heads, heads, at::ones({1, 1, 40, 40}, at::kDouble),
                          at::ones({1, 40}, at::kDouble), false, 2);
  EXPECT_NEAR_TENSOR(bare("{block: 2}", x), want.squeeze(1), tolerance(at::kDouble));
  EXPECT_TRUE(bare("{block: 2}", 100 * x).isfinite().all().item<bool>());
}

TEST(H1d, RefusesOptionsThatItDoesNotHave) {
  EXPECT_EQ(error_of([] { (void)make_mixer("h1d", kSite, "{block: 7}"); }),
            "h1d: block is 7, but halves of it are read: needs an even number");
  EXPECT_EQ(error_of([] { (void)make_mixer("h1d", kSite, "{block: 1}"); }),
            "h1d options:1: h1d.block is 1, out of range; it may be 2..65536");
  EXPECT_EQ(error_of([] { (void)make_mixer("h1d", kSite, "{blocks: 8}"); }),
            "h1d options:1: unknown key 'blocks'; did you mean 'block'?");
}

}  // namespace
}  // namespace longbow
