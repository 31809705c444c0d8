#include "longbow/attention/aft/channel_tiles.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

// Every pair and channel on its own, w [H or 1, N, N].
Tensor dense_mean(const Tensor& k, const Tensor& v, const Tensor& w, bool causal) {
  auto scores = k.unsqueeze(-3) + w.unsqueeze(-1);  // [B, H, N, N, D]
  if (causal)
    scores = scores.masked_fill(at::ones({k.size(2), k.size(2)}, at::kBool).triu(1).unsqueeze(-1),
                                -std::numeric_limits<double>::infinity());
  return (scores.softmax(-2) * v.unsqueeze(-3)).sum(-2);
}

// Taps [H, N or 1, 2 reach + 1] as the matrix of all pairs.
Tensor spread(const Tensor& taps, int64_t n) {
  const int64_t reach = (taps.size(2) - 1) / 2;
  auto w = at::zeros({taps.size(0), n, n}, at::kDouble);
  for (int64_t t = 0; t < n; ++t)
    for (int64_t j = std::max<int64_t>(0, t - reach); j <= std::min(n - 1, t + reach); ++j)
      w.select(1, t).select(1, j).copy_(
          taps.select(1, taps.size(1) == 1 ? 0 : t).select(1, j - t + reach));
  return w;
}

TEST(ChannelTiles, PairsAreReadAsTheyStand) {
  for (const int64_t n : {1, 63, 64, 65, 200})
    for (const bool causal : {false, true}) {
      const auto k = random_normal({2, 1, n, 3}, 1), v = random_normal({2, 1, n, 3}, 2);
      const auto w = random_normal({n, n}, 3);
      EXPECT_NEAR_TENSOR(paired_sums(k, v, {w}, causal).mean(), dense_mean(k, v, w, causal),
                         tolerance(at::kDouble));
      const auto left = random_normal({n, 2}, 4), right = random_normal({n, 2}, 5);
      EXPECT_NEAR_TENSOR(paired_sums(k, v, {left, right}, causal).mean(),
                         dense_mean(k, v, left.matmul(right.t()), causal), tolerance(at::kDouble));
    }
}

TEST(ChannelTiles, OutsideTheWindowNoPairHasABias) {
  for (const int64_t n : {1, 2, 17, 50, 131})
    for (const int64_t reach : {0, 1, 7, 30, 200})
      for (const int64_t rows : {int64_t{1}, n})
        for (const bool causal : {false, true}) {
          const auto k = random_normal({2, 2, n, 3}, 6), v = random_normal({2, 2, n, 3}, 7);
          const auto taps = random_normal({2, rows, 2 * reach + 1}, 8);
          EXPECT_NEAR_TENSOR(windowed_sums(k, v, taps, causal).mean(),
                             dense_mean(k, v, spread(taps, n), causal), tolerance(at::kDouble))
              << n << " tokens, reach " << reach << ", " << rows << " rows";
        }
}

// Lanes of 11 and of 7 real tokens, in pieces.
TEST(ChannelTiles, AWindowMovesOnByTheRealTokensOfEachLane) {
  constexpr int64_t kReach = 3;
  const auto k = random_normal({2, 2, 11, 1}, 9), v = random_normal({2, 2, 11, 3}, 10);
  const auto taps = random_normal({2, 1, 2 * kReach + 1}, 11);
  const auto whole = windowed_sums(k, v, taps, true).mean();
  State state;
  open_window(state, k.narrow(2, 0, 0), v.narrow(2, 0, 0), kReach);
  const auto grown = [&](const Tensor& keys, const Tensor& values, const Tensor& keep) {
    return grow_window(keys.masked_fill(keep.logical_not().view({2, 1, -1, 1}),
                                        -std::numeric_limits<double>::infinity()),
                       values, taps.expand({-1, keys.size(2), -1}), keep, state)
        .mean();
  };
  const auto first = grown(k.narrow(2, 0, 5), v.narrow(2, 0, 5),
                           at::tensor({1, 1, 1, 1, 1, 1, 0, 0, 0, 0}).view({2, 5}).to(at::kBool));
  EXPECT_NEAR_TENSOR(first[0], whole[0].narrow(1, 0, 5), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(first[1].narrow(1, 0, 1), whole[1].narrow(1, 0, 1), tolerance(at::kDouble));
  const auto next = [](const Tensor& t) {
    return at::stack({t[0].narrow(1, 5, 6), t[1].narrow(1, 1, 6)});
  };
  const auto second = grown(next(k), next(v), at::ones({2, 6}, at::kBool));
  EXPECT_NEAR_TENSOR(second, next(whole), tolerance(at::kDouble));
}

}  // namespace
}  // namespace longbow
