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

// Every pair with the scores of its level, as the definition says; bias [levels, H, 4 W - 1] or
// undefined.
Tensor dense(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
             const Tensor& real, bool causal, int64_t block, const Tensor& bias = {}) {
  const int64_t n = q.size(2);
  auto scores = at::zeros({q.size(0), q.size(1), n, n}, at::kDouble),
       left = at::ones({n, n}, at::kDouble);
  for (int64_t l = 0; left.sum().item<double>() > 0; ++l) {
    const auto here = left * near(n, block, l), means = cluster_means(real, l);
    const auto first = at::arange(n).floor_divide(int64_t{1} << l) * (int64_t{1} << l);
    const auto queries = causal ? q.index_select(2, first) : means.matmul(q);
    const double root = std::sqrt(static_cast<double>(q.size(-1)));
    scores = scores + here * queries.matmul(means.matmul(k).transpose(-2, -1)) / root;
    if (bias.defined()) {
      const auto cluster = at::arange(n).floor_divide(int64_t{1} << l);
      const auto distance = cluster.unsqueeze(0) - cluster.unsqueeze(1) + 2 * block - 1;
      const auto near_ones = distance.clamp(0, 4 * block - 2).flatten();
      scores = scores + here * bias[std::min(l, bias.size(0) - 1)]
                                   .index_select(1, near_ones)
                                   .view({1, q.size(1), n, n});
    }
    left = left - here;
  }
  return oracle::weighted_mean(scores.exp(), v, visible);
}

// What the library reads, token by token: q, k, v [H, N, D] of one sequence, real [N].
Tensor of_siblings(Tensor q, Tensor k, Tensor v, Tensor real, bool causal, int64_t block,
                   double epsilon) {
  const int64_t n = q.size(1);
  int64_t length = block, pairs = 1;  // blocks of the whole sequence
  for (; length < n; length *= 2) pairs *= 2;
  const auto fill = [&](const Tensor& x) { return at::constant_pad_nd(x, {0, 0, 0, length - n}); };
  real = at::constant_pad_nd(real, {0, length - n});
  q = fill(q) / std::sqrt(static_cast<double>(q.size(2))), k = fill(k);
  v = fill(v) * real.unsqueeze(-1);
  auto sum = at::zeros_like(v), total = at::zeros({q.size(0), length, 1}, at::kDouble);
  const auto read = [&](int64_t t, int64_t row, int64_t first, int64_t last) {
    const auto scores = k.narrow(1, first, block).matmul(q.select(1, row).unsqueeze(-1));
    const auto seen = real.narrow(0, first, block) * (at::arange(first, first + block) <= last);
    auto weights = at::ones({q.size(0), block, 1}, at::kDouble);  // if nothing is seen
    if (seen.sum().item<double>() > 0) {
      const auto top = scores.masked_fill(seen.eq(0).unsqueeze(-1), -1e300).amax(1, true);
      weights = (scores - top).clamp_max(0).exp() * seen.unsqueeze(-1);
    }
    sum.select(1, t) += (weights * v.narrow(1, first, block)).sum(1);
    total.select(1, t) += weights.sum(1);
  };
  for (int64_t t = 0; t < n; ++t) read(t, t, t / block * block, causal ? t : length);
  for (int64_t size = 1; size * 2 <= (causal ? pairs : pairs / 2); size *= 2) {
    const bool skipped = causal && size == 1;
    for (int64_t t = 0; t < n && !skipped; ++t) {
      const int64_t row = t / size, own = row / block;
      if (!causal || (own % 2 == 1 && (t + 1) % size == 0))
        read(t, row, (own % 2 == 1 ? own - 1 : own + 1) * block, length);
    }
    const auto pair = [](const Tensor& x) { return x.unflatten(-2, {-1, 2}).sum(-2); };
    const auto both = pair(real.unsqueeze(-1));
    q = pair(q * real.unsqueeze(-1)) / both.clamp_min(1);
    k = pair(k * real.unsqueeze(-1)) / both.clamp_min(1);
    v = pair(v);
    real = both.squeeze(-1).clamp_max(1);
  }
  return (sum / (total + epsilon)).narrow(1, 0, n);
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
            const int64_t block = as_integer(*options.find("block"), "block");
            if (as_string(*options.find("coverage"), "coverage") == "siblings") {
              std::vector<Tensor> rows;
              for (int64_t b = 0; b < q.size(0); ++b)
                rows.push_back(of_siblings(q[b], k[b], v[b], real[b], mask.causal, block,
                                           as_number(*options.find("epsilon"), "epsilon")));
              return at::stack(rows);
            }
            const bool biased = as_boolean(*options.find("relative_bias"), "relative_bias");
            return dense(q, k, v, visible, real, mask.causal, block,
                         biased ? oracle::tensor_of(mixer, "attention.bias") : Tensor());
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

TEST(H1d, ABiasIsAddedByLevelHeadAndDistance) {
  const auto mixer = make_mixer("h1d", kSite, "{block: 4, relative_bias: true}");
  mixer->to(at::kDouble);
  auto bias = mixer->named_parameters()["attention.bias"];
  EXPECT_EQ(bias.sizes(), at::IntArrayRef({4, 2, 15}));  // 64 tokens in blocks of 4: 4 levels
  const auto x = random_normal({1, 30, 6}, 6).requires_grad_();
  Context context;
  EXPECT_NEAR_TENSOR((*mixer)(x, context), run("h1d", "{block: 4}", x), tolerance(at::kDouble));
  // Nothing but the key at distance 2, which every token but the last two has.
  {
    const at::NoGradGuard no_grad;
    bias.fill_(-1e6);
    bias.select(0, 0).select(1, 7 + 2).zero_();
  }
  (*mixer)(x, context)[0][9].sum().backward();
  const auto moved = x.grad()[0].abs().amax(1).nonzero().flatten();
  EXPECT_NEAR_TENSOR(moved, at::tensor({11}), kExact);
}

// Some hundred tokens, so that clusters of every level open and close.
TEST(H1d, ALongSequenceIsDecodedAsItIsRead) {
  constexpr int64_t kTokens = 150;
  const at::NoGradGuard no_grad;
  for (const std::string options :
       {"{block: 2}", "{block: 4, relative_bias: true}", "{block: 6}"}) {
    Site site = kSite;
    site.shape.max_length = kTokens;
    const auto mixer = make_mixer("h1d", site, options);
    mixer->to(at::kDouble);
    for (auto& parameter : mixer->parameters()) parameter.normal_();
    const auto x = random_normal({2, kTokens, 6}, 7);
    Context causal = {.mask = {.causal = true}}, context;
    const auto want = (*mixer)(x, causal);
    State state;
    mixer->start(state, 2, kTokens, context);
    int64_t first = 0;
    for (const int64_t count : {1, 1, 1, 5, 60, 1, 1, 33, 2, 45}) {
      EXPECT_NEAR_TENSOR(mixer->extend(x.narrow(1, first, count), state, context),
                         want.narrow(1, first, count), tolerance(at::kDouble))
          << options << " from token " << first;
      first += count;
    }
    EXPECT_EQ(first, kTokens);
  }
}

TEST(H1d, TheStateGrowsWithTheLogarithmOfTheCapacity) {
  const auto size = [](int64_t capacity) {
    State state;
    Context context;
    make_mixer("h1d", kSite, "{block: 4}")->start(state, 5, capacity, context);
    return state.lane.at("keys").sizes().vec();
  };
  EXPECT_EQ(size(8), (std::vector<int64_t>{5, 2, 1, 12, 3}));
  EXPECT_EQ(size(1024), (std::vector<int64_t>{5, 2, 8, 12, 3}));
  EXPECT_EQ(size(1 << 20), (std::vector<int64_t>{5, 2, 18, 12, 3}));
}

TEST(H1d, SiblingsReadOnlyTheirPairs) {
  const auto read_by = [](int64_t i, bool causal) {
    const auto x = random_normal({1, 32, 6}, 8).requires_grad_();
    run("h1d", "{block: 4, coverage: siblings}", x, {.mask = {.causal = causal}})[0][i]
        .sum()
        .backward();
    return x.grad()[0].abs().amax(1).nonzero().flatten();
  };
  EXPECT_NEAR_TENSOR(read_by(6, false), at::arange(16), kExact);
  EXPECT_NEAR_TENSOR(read_by(20, false), at::arange(16, 32), kExact);
  EXPECT_NEAR_TENSOR(read_by(14, true), at::arange(12, 15), kExact);
  EXPECT_NEAR_TENSOR(read_by(15, true), at::cat({at::arange(8), at::arange(12, 16)}), kExact);
}

TEST(H1d, RefusesOptionsThatItDoesNotHave) {
  EXPECT_EQ(error_of([] { (void)make_mixer("h1d", kSite, "{block: 1}"); }),
            "h1d options:1: h1d.block is 1, out of range; it may be 2..65536");
  EXPECT_EQ(error_of([] { (void)make_mixer("h1d", kSite, "{coverage: half}"); }),
            "h1d options:1: h1d.coverage is 'half'; one of: full, siblings");
  EXPECT_EQ(error_of([] {
              Site endless = kSite;
              endless.shape.max_length = 0;
              (void)make_mixer("h1d", endless, "{relative_bias: true}");
            }),
            "h1d: relative_bias needs the model's max_length");
  EXPECT_EQ(error_of([] {
              (void)run("h1d", "{block: 4, relative_bias: true}", random_normal({1, 65, 6}, 9));
            }),
            "h1d: 65 tokens have 5 levels, but the relative bias has 4");
  EXPECT_EQ(error_of([] { (void)make_mixer("h1d", kSite, "{blocks: 8}"); }),
            "h1d options:1: unknown key 'blocks'; did you mean 'block'?");
}

}  // namespace
}  // namespace longbow
