#include "longbow/attention/h1d/sibling_blocks.h"

#include <ATen/ATen.h>

#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

Heads random_heads(int64_t tokens) {
  const auto make = [&](uint64_t seed) { return random_normal({1, 2, tokens, 3}, seed); };
  const auto x = random_normal({1, tokens, 1}, 4);
  return {.q = make(1), .k = make(2), .v = make(3), .x = x, .source = x};
}

Tensor softmax(const Heads& heads, const Tensor& visible) {
  return oracle::weighted_mean(heads.q.matmul(heads.k.transpose(-2, -1)).exp(), heads.v, visible);
}

TEST(SiblingBlocks, OneBlockIsSoftmax) {
  for (const int64_t n : {1, 3, 4}) {
    const auto heads = random_heads(n);
    const auto all = at::ones({n, n}, at::kDouble);
    EXPECT_NEAR_TENSOR(sibling_attention(heads, {}, 4, 0), softmax(heads, all),
                       tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(sibling_attention(heads, {.causal = true}, 4, 0), softmax(heads, all.tril()),
                       tolerance(at::kDouble));
  }
}

// Each part is relative to its own largest score, and a cluster of two tokens counts as one.
TEST(SiblingBlocks, PartsAreAddedAsTheyStand) {
  auto heads = random_heads(16);
  heads.q = at::zeros_like(heads.q);  // every weight is one
  const auto y = sibling_attention(heads, {}, 2, 0);
  const auto sum = [&](int64_t first, int64_t count) {
    return heads.v.narrow(2, first, count).sum(2);
  };
  // Token 0: tokens 0 and 1; its sibling 2 and 3; at level 1 the two clusters of 4 to 7.
  EXPECT_NEAR_TENSOR(y.select(2, 0), sum(0, 8) / 6, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(sibling_attention(heads, {}, 2, 0.5).select(2, 0), sum(0, 8) / 6.5,
                     tolerance(at::kDouble));
  // Token 7 is the last of its clusters of 2 tokens: at level 1 it reads the clusters of 0 to 3.
  const auto causal = sibling_attention(heads, {.causal = true}, 2, 0);
  EXPECT_NEAR_TENSOR(causal.select(2, 7), (sum(6, 2) + sum(0, 4)) / 4, tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(causal.select(2, 6), sum(6, 1), tolerance(at::kDouble));
}

TEST(SiblingBlocks, AWhollyPaddedSiblingStillCounts) {
  auto heads = random_heads(8);
  heads.q = at::zeros_like(heads.q);
  const Mask mask = {.keep = (at::arange(8) < 2).unsqueeze(0)};
  const auto y = sibling_attention(heads, mask, 2, 0);
  EXPECT_NEAR_TENSOR(y.select(2, 0), heads.v.narrow(2, 0, 2).sum(2) / 4, tolerance(at::kDouble));
}

}  // namespace
}  // namespace longbow
