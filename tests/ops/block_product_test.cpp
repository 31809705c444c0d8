#include "longbow/ops/block_product.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// Windows of 5 keys before and 3 after, over blocks of 16 with their neighbours.
struct Window {
  int64_t tokens = 70;
  Tensor q = random_normal({2, 3, tokens, 5}, 1), k = random_normal({2, 3, tokens, 5}, 2),
         v = random_normal({2, 3, tokens, 4}, 3);
  Tensor keep = random_normal({2, tokens}, 4) > -1;

  Tensor product() const {
    const auto columns = at::arange(5).unsqueeze(1) + at::arange(-1, 2);
    const BlockPairs pairs = {16, 16, columns.masked_fill(columns > 4, -1).view({1, 1, 5, 3})};
    return block_product(q, k, v, pairs, {.back = 5, .ahead = 3, .keep = keep.unsqueeze(1)});
  }
  Tensor definition() const {
    const auto t = at::arange(tokens), distance = t.unsqueeze(1) - t;
    const auto seen =
        (distance <= 5).logical_and(distance >= -3).logical_and(keep.unsqueeze(1).unsqueeze(1));
    return q.matmul(k.transpose(-2, -1)).masked_fill(seen.logical_not(), 0).matmul(v);
  }
};

TEST(BlockProduct, WeighsByScores) {
  const Window w;
  EXPECT_NEAR_TENSOR(w.product(), w.definition(), tolerance(at::kDouble));
}

TEST(BlockProduct, HasTheGradientsOfDifferences) {
  Window w;
  for (auto* x : {&w.q, &w.k, &w.v}) x->requires_grad_();
  EXPECT_TRUE(gradcheck([&] { return w.product(); }, {{"q", w.q}, {"k", w.k}, {"v", w.v}}));
}

TEST(BlockProduct, NamesWhatDoesNotFit) {
  const auto x = at::zeros({1, 1, 4, 3});
  const BlockPairs pairs = {4, 4, at::zeros({1, 1, 1, 1}, at::kLong)};
  EXPECT_NE(error_of([&] {
              block_product(x, at::zeros({1, 1, 4, 2}), x, pairs, {});
            }).find("block_product: q is [1, 1, 4, 3], k [1, 1, 4, 2], v [1, 1, 4, 3] on cpu"),
            std::string::npos);
  EXPECT_EQ(error_of([&] {
              block_product(x, x, x, {0, 4, pairs.columns}, {});
            }),
            "block_product: blocks of 0 queries and 4 keys");
  EXPECT_EQ(error_of([&] {
              block_product(x, x, x, pairs, {.keep = at::ones({1, 1, 3}, at::kBool)});
            }),
            "block_product: keep is Bool [1, 1, 3], not Bool [.., .., 4]");
}

}  // namespace
}  // namespace longbow
