#include "longbow/nn/softmax/blocks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(Blocks, ABlockIsNearItsNeighbours) {
  const auto pairs = near_blocks(13, 4, 1, 2, at::kCPU);
  EXPECT_EQ(pairs.query_block, 4);
  EXPECT_EQ(pairs.key_block, 4);
  const auto want = at::tensor({-1, 0, 1, 2, 0, 1, 2, 3, 1, 2, 3, -1, 2, 3, -1, -1}, at::kLong);
  EXPECT_TRUE(at::equal(pairs.columns, want.view({1, 1, 4, 4}))) << pairs.columns;
  EXPECT_EQ(near_blocks(4, 4, 3, 3, at::kCPU).columns.sizes(), at::IntArrayRef({1, 1, 1, 1}));
}

TEST(Blocks, ABlockHasTokensAroundIt) {
  const auto pairs = blocks_around(11, 4, 2, at::kCPU);
  EXPECT_EQ(pairs.query_block, 4);
  EXPECT_EQ(pairs.key_block, 2);
  const auto want = at::tensor({-1, 0, 1, 2, 1, 2, 3, 4, 3, 4, 5, -1}, at::kLong);
  EXPECT_TRUE(at::equal(pairs.columns, want.view({1, 1, 3, 4}))) << pairs.columns;
  EXPECT_EQ(blocks_around(9, 3, 1, at::kCPU).key_block, 1);
  EXPECT_TRUE(
      at::equal(blocks_around(9, 3, 0, at::kCPU).columns, at::arange(3).view({1, 1, 3, 1})));
}

TEST(Blocks, PartsOverOtherKeysAddUp) {
  const auto q = random_normal({2, 2, 11, 3}, 1), k = random_normal({2, 2, 11, 3}, 2),
             v = random_normal({2, 2, 11, 3}, 3);
  const auto keep = random_normal({2, 11}, 4) > -1;
  const Visibility real = {.keep = kept_keys(keep)};
  const auto read = [&](Visibility visibility) {
    visibility.keep = real.keep;
    return read_blocks(q, k, v, one_block(11, 11, at::kCPU), visibility, {}, {});
  };
  const auto want = masked_softmax(q.matmul(k.transpose(-2, -1)), visible_keys(keep)).matmul(v);
  EXPECT_NEAR_TENSOR(
      (read({.back = 2, .ahead = 3}) + read({.ahead = -3}) + read({.back = -4})).mean, want,
      tolerance(at::kDouble));
}

Heads random_heads(int64_t tokens) {
  const auto make = [&](uint64_t seed) { return random_normal({2, 3, tokens, 4}, seed); };
  return {.q = make(1), .k = make(2), .v = make(3)};
}
// visible [N, N] bool.
Tensor dense(const Heads& heads, const Tensor& visible, const Tensor& keep) {
  const auto seen = visible.logical_and(keep.unsqueeze(1).unsqueeze(1));
  return oracle::weighted_mean(heads.q.matmul(heads.k.transpose(-2, -1)).exp(), heads.v,
                               seen.to(at::kDouble));
}

TEST(Blocks, AWindowIsTheDenseSoftmax) {
  for (const int64_t n : {1, 7, 32, 33, 101})
    for (const int64_t back : {0, 2, 31, 33, 70})
      for (const int64_t ahead : {0, 3, 40}) {
        const auto heads = random_heads(n);
        const Context context = {.mask = Mask::from_lengths(at::tensor({n, n / 2}), n)};
        const auto apart = at::arange(n).unsqueeze(1) - at::arange(n);
        EXPECT_NEAR_TENSOR(
            read_window(heads, back, ahead, {}, context).mean,
            dense(heads, (apart <= back).logical_and(apart >= -ahead), context.mask.keep),
            tolerance(at::kDouble))
            << n << " tokens, " << back << " back, " << ahead << " ahead";
      }
}

TEST(Blocks, DroppingNeedsARandomKey) {
  const auto x = random_normal({1, 1, 4, 2}, 1);
  const Weighing weighing = {.dropout = 0.5, .training = true, .path = "here"};
  EXPECT_NE(error_of([&] {
              read_blocks(x, x, x, near_blocks(4, 2, 0, 0, at::kCPU), {}, weighing, {});
            }).find("here.dropout: random numbers wanted, but the context has no random key"),
            std::string::npos);
  const Context context = {.random = Random::from_seed(3)};
  const auto y = read_blocks(x, x, x, near_blocks(4, 2, 0, 0, at::kCPU), {}, weighing, context);
  EXPECT_FALSE(
      at::equal(y.mean, read_blocks(x, x, x, near_blocks(4, 2, 0, 0, at::kCPU), {}, {}, {}).mean));
}

}  // namespace
}  // namespace longbow
