#include "longbow/nn/softmax/band.h"

#include <ATen/ATen.h>

#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kWidth = 4;

Heads random_heads(int64_t tokens) {
  const auto make = [&](uint64_t seed) {
    return random_normal({kBatch, kHeads, tokens, kWidth}, seed);
  };
  const auto x = random_normal({kBatch, tokens, 1}, 4);
  return {.q = make(1), .k = make(2), .v = make(3), .x = x, .source = x};
}

// From two tokens before the query to one after it, or to itself.
Reach near(bool causal) {
  return [=](const Tensor& i, const Tensor& j) {
    return (i - j <= 2).logical_and(j - i <= (causal ? 0 : 1));
  };
}

Tensor dense(const Heads& heads, bool causal, const Tensor& keep = {}) {
  const auto index = at::arange(heads.q.size(2));
  auto visible = near(causal)(index.unsqueeze(1), index).unsqueeze(0).unsqueeze(0);
  if (keep.defined()) visible = visible.logical_and(keep.unsqueeze(1).unsqueeze(1));
  const auto scores = heads.q.matmul(heads.k.transpose(-2, -1));
  return oracle::weighted_mean(scores.exp(), heads.v, visible.to(at::kDouble));
}

TEST(Band, IsTheDenseSoftmaxWhateverTheTiles) {
  for (const int64_t n : {1, 2, 7, 16, 17})
    for (const int64_t tile : {1, 3, 4, 20})
      for (const bool causal : {false, true}) {
        const auto heads = random_heads(n);
        Context context = {.mask = Mask::from_lengths(at::tensor({n, n / 2}), n)};
        const Band band = {.tokens = n, .tile = tile, .back = 2, .ahead = causal ? 0 : 1};
        const auto visible = band.visible(near(causal), context.mask.keep, at::kCPU);
        const auto read = softmax_read(band.queries(heads.q), band.keys(heads.k),
                                       band.keys(heads.v), visible, {}, context);
        EXPECT_NEAR_TENSOR(band.together(read), dense(heads, causal, context.mask.keep),
                           tolerance(at::kDouble))
            << n << " tokens in tiles of " << tile;
      }
}

TEST(Band, TilesStandBesideTheirHalo) {
  const Band band = {.tokens = 5, .tile = 2, .back = 1, .ahead = 2};
  const auto x = at::arange(1, 6).view({1, 1, 5, 1});
  EXPECT_NEAR_TENSOR(band.queries(x).flatten(), at::tensor({1, 2, 3, 4, 5, 0}), kExact);
  EXPECT_NEAR_TENSOR(band.keys(x).view({3, 5}),
                     at::tensor({0, 1, 2, 3, 4, 2, 3, 4, 5, 0, 4, 5, 0, 0, 0}).view({3, 5}),
                     kExact);
  EXPECT_NEAR_TENSOR(band.together(band.queries(x)), x, kExact);
}

TEST(Band, ARingReadsWhatTheBandReads) {
  constexpr int64_t n = 13;
  const auto heads = random_heads(n);
  const auto want = dense(heads, true);
  for (const int64_t size : {2, 3, 5, 20}) {
    State state;
    open_ring(state, heads, size);
    int64_t first = 0;
    for (const int64_t count : {1, 7, 1, 4}) {
      const auto part = [&](const Tensor& t, int64_t dim) { return t.narrow(dim, first, count); };
      Context context = {.positions =
                             at::arange(first, first + count).unsqueeze(0).expand({kBatch, count})};
      const auto y = grow_ring({part(heads.q, 2), part(heads.k, 2), part(heads.v, 2),
                                part(heads.x, 1), part(heads.source, 1)},
                               state, near(true), {}, context);
      EXPECT_NEAR_TENSOR(y, part(want, 2), tolerance(at::kDouble)) << "a ring of " << size;
      first += count;
    }
  }
}

TEST(Band, PaddedTokensDoNotEnterTheRing) {
  const auto heads = random_heads(3);
  State state;
  open_ring(state, heads, 4);
  const auto keep = at::tensor({1, 1, 0, 1, 0, 0}).view({2, 3}).to(at::kBool);
  Context context = {.mask = {.keep = keep},
                     .positions = positions_of(heads.x, {.mask = {.keep = keep}})};
  (void)grow_ring(heads, state, near(true), {}, context);
  const auto positions = state.lane.at("positions").view({2, 5}).narrow(1, 0, 4);
  EXPECT_NEAR_TENSOR(positions, at::tensor({0, 1, -1, -1, 0, -1, -1, -1}).view({2, 4}), kExact);
}

}  // namespace
}  // namespace longbow
