#include "longbow/attention/h1d/clusters.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kBatch = 2, kHeads = 2, kWidth = 3, kLevels = 3, kSlots = 5;

Heads random_heads(int64_t tokens) {
  const auto make = [&](uint64_t seed) {
    return random_normal({kBatch, kHeads, tokens, kWidth}, seed);
  };
  const auto x = random_normal({kBatch, tokens, 1}, 4);
  return {.q = make(1), .k = make(2), .v = make(3), .x = x, .source = x};
}

Heads part(const Heads& heads, int64_t first, int64_t count) {
  return {heads.q.narrow(2, first, count), heads.k.narrow(2, first, count),
          heads.v.narrow(2, first, count), heads.x.narrow(1, first, count),
          heads.source.narrow(1, first, count)};
}

TEST(CoarseLevels, AreMeansOverTheRealTokensOfEachCluster) {
  const auto heads = random_heads(7);
  const auto mask = Mask::from_lengths(at::tensor({7, 3}), 7);
  const auto coarse = coarse_levels(heads, mask, 3, 2);
  // Clusters of 2 in two blocks and an empty one; clusters of 4 in one block and an empty one.
  ASSERT_EQ(coarse.rows, (std::vector<int64_t>{6, 4}));
  EXPECT_NEAR_TENSOR(coarse.count,
                     at::tensor({2, 2, 2, 1, 0, 0, 4, 3, 0, 0, 2, 1, 0, 0, 0, 0, 3, 0, 0, 0})
                         .view({2, 10})
                         .to(at::kDouble),
                     kExact);
  EXPECT_NEAR_TENSOR(coarse.k[0].select(1, 7), heads.k[0].narrow(1, 4, 3).mean(1),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(coarse.q[1].select(1, 6), heads.q[1].narrow(1, 0, 3).mean(1),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(coarse_levels(heads, {}, 3, 2).count, coarse.count.narrow(0, 0, 1), kExact);
  const auto causal = coarse_levels(heads, {.causal = true}, 3, 2);
  EXPECT_NEAR_TENSOR(causal.q.select(2, 7), heads.q.select(2, 4), kExact);
}

// Every complete cluster that a slot claims to hold, and the first query of each token's cluster.
void expect_means(const Clusters& clusters, const Heads& whole, int64_t seen, int64_t tokens,
                  int64_t lane) {
  for (int64_t l = 0; l < kLevels; ++l) {
    const int64_t size = int64_t{1} << l;
    for (int64_t s = 0; s < kSlots; ++s) {
      const auto c = clusters.index[lane][l][s].item<int64_t>();
      if (c < 0 || (c + 1) * size > seen) continue;
      const auto mean = [&](const Tensor& x) { return x[lane].narrow(1, c * size, size).mean(1); };
      EXPECT_NEAR_TENSOR(clusters.k[lane].select(1, l).select(1, s), mean(whole.k),
                         tolerance(at::kDouble));
      EXPECT_NEAR_TENSOR(clusters.v[lane].select(1, l).select(1, s), mean(whole.v),
                         tolerance(at::kDouble));
    }
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t place = seen - tokens + t;
      EXPECT_EQ(clusters.own[lane][l][t].item<int64_t>(), place / size);
      EXPECT_NEAR_TENSOR(clusters.q[lane].select(1, l).select(1, t),
                         whole.q[lane].select(1, place / size * size), kExact);
    }
  }
}

TEST(Clusters, HoldTheMeansOfTheLastOnes) {
  constexpr int64_t kTokens = 23;
  const auto heads = random_heads(kTokens);
  State state;
  open_clusters(state, part(heads, 0, 0), kLevels, kSlots);
  int64_t seen = 0;
  for (const int64_t count : {1, 5, 2, 1, 1, 4, 3, 5, 1}) {
    const Context context = {
        .positions = at::arange(seen, seen + count).unsqueeze(0).expand({kBatch, count})};
    const auto clusters = grow_clusters(part(heads, seen, count), state, context);
    seen += count;
    for (int64_t l = 0; l < kLevels; ++l) {  // the last S clusters, each once
      const int64_t last = (seen - 1) >> l;
      EXPECT_NEAR_TENSOR(std::get<0>(clusters.index[0][l].sort()),
                         at::arange(last - kSlots + 1, last + 1), kExact);
    }
    for (int64_t lane = 0; lane < kBatch; ++lane) expect_means(clusters, heads, seen, count, lane);
  }
  EXPECT_EQ(seen, kTokens);
}

TEST(Clusters, PaddedTokensEnterNone) {
  const auto heads = random_heads(8);
  State state;
  open_clusters(state, part(heads, 0, 0), kLevels, kSlots);
  // Lane 0 takes three tokens and one more later; lane 1 nothing at first, then two.
  const auto grow = [&](int64_t first, const Tensor& keep, const Tensor& positions) {
    const Context context = {.mask = {.keep = keep.to(at::kBool)}, .positions = positions};
    return grow_clusters(part(heads, first, 4), state, context);
  };
  (void)grow(0, at::tensor({1, 1, 1, 0, 0, 0, 0, 0}).view({2, 4}),
             at::tensor({0, 1, 2, 2, 0, 0, 0, 0}).view({2, 4}));
  const auto clusters = grow(4, at::tensor({1, 0, 0, 0, 1, 1, 0, 0}).view({2, 4}),
                             at::tensor({3, 3, 3, 3, 0, 1, 1, 1}).view({2, 4}));
  const auto joined = [](const Tensor& x) {
    return at::cat({x[0].narrow(1, 0, 3), x[0].narrow(1, 4, 1)}, 1);  // [H, 4, D]
  };
  EXPECT_NEAR_TENSOR(clusters.k[0].select(1, 2).select(1, 0), joined(heads.k).mean(1),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(clusters.q[0].select(1, 2).select(1, 0), heads.q[0].select(1, 0), kExact);
  EXPECT_NEAR_TENSOR(clusters.q[0].select(1, 1).select(1, 0), heads.q[0].select(1, 2), kExact);
  EXPECT_NEAR_TENSOR(clusters.v[1].select(1, 1).select(1, 0), heads.v[1].narrow(1, 4, 2).mean(1),
                     tolerance(at::kDouble));
}

TEST(Clusters, AnEmptyExtensionChangesNothing) {
  const auto heads = random_heads(3);
  State state;
  open_clusters(state, part(heads, 0, 0), kLevels, kSlots);
  const auto grow = [&](int64_t first, bool keep, int64_t position) {
    const Context context = {.mask = {.keep = at::full({kBatch, 1}, keep)},
                             .positions = at::full({kBatch, 1}, position)};
    return grow_clusters(part(heads, first, 1), state, context);
  };
  (void)grow(0, true, 0);
  (void)grow(1, false, 0);
  const auto clusters = grow(2, true, 1);
  EXPECT_NEAR_TENSOR(clusters.q.select(2, 1).select(2, 0), heads.q.select(2, 0), kExact);
  EXPECT_NEAR_TENSOR(clusters.k.select(2, 1).select(2, 0),
                     (heads.k.select(2, 0) + heads.k.select(2, 2)) / 2, tolerance(at::kDouble));
}

}  // namespace
}  // namespace longbow
