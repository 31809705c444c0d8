#include "longbow/attention/scatterbrain/groups.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kTokens = 23, kRounds = 3, kWidth = 4;

// What each pair counts in all rounds together, [B, H, N, N], read back from the groups.
Tensor counted(const Groups& groups, const Mask& mask, int64_t batch, int64_t heads) {
  const auto index = at::arange(1, kTokens + 1, at::kDouble)
                         .view({1, 1, kTokens, 1})
                         .expand({batch, heads, -1, -1});
  auto sum = at::zeros({batch, heads, kTokens, kTokens + 1}, at::kDouble);
  for (int64_t round = 0; round < groups.rounds(); ++round) {
    const auto share = groups.share(mask, round, at::kDouble);   // [B, H, K, W, S]
    const auto j = groups.keys(index, round).transpose(-2, -1);  // 0: none
    auto spread = at::zeros({batch, heads, share.size(2), share.size(3), kTokens + 1}, at::kDouble);
    spread.scatter_add_(-1, j.to(at::kLong).expand_as(share), share);
    sum = sum + groups.rows(spread, round);
  }
  return sum.narrow(-1, 1, kTokens);
}

Codes random_codes(uint64_t seed) {
  return {random_normal({kRounds, 2, 2, kTokens}, seed),
          random_normal({kRounds, 2, 2, kTokens}, seed + 1)};
}

// 1 for each pair that some round finds, by the places of both.
Tensor found(const Codes& codes, int64_t size, int64_t before, int64_t length) {
  auto any = at::zeros({2, 2, kTokens, kTokens}, at::kDouble);
  for (int64_t round = 0; round < kRounds; ++round) {
    const auto group = [&](const Tensor& x) {
      const auto real = x[round].narrow(-1, 0, length);
      return (real.unsqueeze(-2) < real.unsqueeze(-1))
          .sum(-1)
          .div(size, "floor");  // how many before
    };
    const auto distance = group(codes.q).unsqueeze(-1) - group(codes.k).unsqueeze(-2);
    const auto inside = (distance >= 0).logical_and(distance <= before).to(at::kDouble);
    any.narrow(2, 0, length).narrow(3, 0, length).add_(inside);
  }
  return any.clamp_max(1);
}

TEST(Groups, APairCountsOnceHoweverOftenItIsFound) {
  const auto codes = random_codes(1);
  for (const int64_t size : {1, 5, 23, 40})
    for (const int64_t before : {0, 1, 2}) {
      const Groups groups(sorted_by(codes, {}), size, before);
      const auto want = found(codes, size, before, kTokens);
      EXPECT_NEAR_TENSOR(counted(groups, {}, 2, 2), want, tolerance(at::kDouble)) << size << before;
      EXPECT_NEAR_TENSOR(counted(groups, {.causal = true}, 2, 2), want.tril(),
                         tolerance(at::kDouble));
    }
}

TEST(Groups, PaddedTokensComeLastAndCountNothing) {
  const auto codes = random_codes(3);
  const auto keep = Mask::from_lengths(at::tensor({9, 9}), kTokens).keep;
  const Groups groups(sorted_by(codes, keep), 4, 1);
  const auto got = counted(groups, {.keep = keep}, 2, 2);
  EXPECT_NEAR_TENSOR(got.narrow(2, 0, 9), found(codes, 4, 1, 9).narrow(2, 0, 9),
                     tolerance(at::kDouble));
}

TEST(Groups, RowsAreTheQueriesAgain) {
  const auto x = random_normal({2, 2, kTokens, 3}, 5);
  const Groups groups(sorted_by(random_codes(6), {}), 5, 0);
  for (int64_t round = 0; round < kRounds; ++round)
    EXPECT_NEAR_TENSOR(groups.rows(groups.queries(x, round), round), x, kExact);
}

// The lifted vectors one by one: all of one length, products of q and k unchanged.
TEST(Groups, ClustersProjectVectorsOfOneLength) {
  const auto q = random_normal({2, 1, 6, kWidth}, 7), k = random_normal({2, 1, 6, kWidth}, 8);
  const auto planes = random_normal({2, 1, kWidth + 2}, 9);
  const auto keep = Mask::from_lengths(at::tensor({6, 3}), 6).keep;
  const auto codes = cluster_codes(q, k, planes, keep);
  EXPECT_EQ(codes.q.sizes(), at::IntArrayRef({2, 2, 1, 6}));
  for (int64_t b = 0; b < 2; ++b) {
    const int64_t n = b == 0 ? 6 : 3;
    const auto a = q[b][0].narrow(0, 0, n), c = k[b][0].narrow(0, 0, n);
    const auto m = a.square().sum(1).max() + c.square().sum(1).max();
    const auto none = at::zeros({n, 1}, at::kDouble);
    const auto rest = [&](const Tensor& x) { return (m - x.square().sum(1, true)).sqrt(); };
    const auto longer_q = at::cat({a, none, rest(a)}, 1), longer_k = at::cat({c, rest(c), none}, 1);
    EXPECT_NEAR_TENSOR(longer_q.square().sum(1), m.expand({n}), tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(longer_q.matmul(longer_k.t()), a.matmul(c.t()), tolerance(at::kDouble));
    for (int64_t round = 0; round < 2; ++round) {
      EXPECT_NEAR_TENSOR(codes.q[round][b][0].narrow(0, 0, n), longer_q.mv(planes[round][0]),
                         tolerance(at::kDouble));
      EXPECT_NEAR_TENSOR(codes.k[round][b][0].narrow(0, 0, n), longer_k.mv(planes[round][0]),
                         tolerance(at::kDouble));
    }
  }
}

TEST(Groups, AnglesDecideTheBucketNotLengths) {
  const auto q = random_normal({1, 2, 9, kWidth}, 10), planes = random_normal({2, 3, kWidth}, 11);
  const auto codes = angular_codes(q, -7 * q, planes);
  EXPECT_EQ(codes.q.sizes(), at::IntArrayRef({2, 1, 2, 9}));
  EXPECT_TRUE(codes.k.equal((codes.q + 3).remainder(6)));  // the opposite bucket
  EXPECT_EQ(angular_codes(planes.narrow(0, 0, 1).unsqueeze(0) * 9, q, planes).q.size(3), 3);
}

}  // namespace
}  // namespace longbow
