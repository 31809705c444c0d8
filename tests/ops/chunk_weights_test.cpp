#include "longbow/ops/chunk_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(ChunkWeights, AreASoftmaxWithinTheChunk) {
  const auto q = random_normal({2, 6, 4}, 1), k = random_normal({2, 6, 4}, 2),
             bias = random_normal({5}, 3);
  for (const bool causal : {false, true}) {
    const auto got = chunk_weights(q, k, bias, 3, 0.5, causal);
    ASSERT_EQ(got.sizes(), at::IntArrayRef({2, 2, 3, 3}));
    for (const int64_t c : {0, 1})
      for (const int64_t i : {0, 1, 2}) {
        const int64_t keys = causal ? i + 1 : 3;
        const auto scores =
            at::einsum("be,bje->bj", {q.select(1, 3 * c + i), k.narrow(1, 3 * c, keys)}) / 2 +
            bias.narrow(0, 2 - i, keys);
        const auto row = got.select(1, c).select(1, i);
        EXPECT_NEAR_TENSOR(row.narrow(1, 0, keys), scores.softmax(-1), tolerance(at::kDouble));
        EXPECT_EQ(row.narrow(1, keys, 3 - keys).abs().sum().item<double>(), 0);
      }
  }
}

TEST(ChunkWeights, GradientsAreThoseOfDifferences) {
  const auto q = random_normal({2, 6, 4}, 1).requires_grad_(),
             k = random_normal({2, 6, 4}, 2).requires_grad_(),
             bias = random_normal({5}, 3).requires_grad_();
  for (const bool causal : {false, true})
    EXPECT_TRUE(gradcheck([&] { return chunk_weights(q, k, bias, 3, 0.5, causal).exp(); },
                          {{"q", q}, {"k", k}, {"bias", bias}}));
}

TEST(ChunkWeights, AreRegistered) {
  EXPECT_EQ(missing_kernels("chunk_weights"), "");
  EXPECT_EQ(missing_kernels("chunk_weights_backward"), "");
}

TEST(ChunkWeights, NameWhatDoesNotFit) {
  const auto q = at::zeros({2, 6, 4});
  EXPECT_NE(error_of([&] {
              chunk_weights(q, q, at::zeros({5}), 4, 1, false);
            }).find("chunk_weights: q is [2, 6, 4], k [2, 6, 4], bias [5], for chunks of 4"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
