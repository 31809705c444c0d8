#include "longbow/nn/softmax/exact_attention.h"

#include <ATen/ATen.h>

#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(ExactAttention, IsSoftmaxWhetherFusedTiledOrLookedAt) {
  const Site site = {.shape = {.width = 8, .heads = 2}, .path = "layer"};
  ExactAttention plain(site, 0);
  const auto q = random_normal({2, 2, 9, 4}, 1), k = random_normal({2, 2, 9, 4}, 2),
             v = random_normal({2, 2, 9, 4}, 3), x = random_normal({2, 9, 8}, 4);
  for (const bool causal : {false, true}) {
    Mask mask = Mask::from_lengths(at::tensor({9, 5}), 9);
    mask.causal = causal;
    Context context = {.mask = mask};
    const auto want = oracle::softmax(q, k, v, oracle::visible(context, 2, 9, 9));
    const auto real = mask.keep.unsqueeze(1).unsqueeze(-1).to(at::kDouble);
    EXPECT_NEAR_TENSOR(plain.attend({q, k, v, x, x}, context) * real, want * real,
                       tolerance(at::kDouble));
    Tensors maps;
    context.maps = &maps;
    EXPECT_NEAR_TENSOR(plain.attend({q, k, v, x, x}, context) * real, want * real,
                       tolerance(at::kDouble));
    EXPECT_EQ(maps.count("layer"), 1u);
  }
}

TEST(ExactAttention, DropsTheSameWeightsInTilesAsTheFormula) {
  const Site site = {.shape = {.width = 8, .heads = 2}, .path = "layer"};
  ExactAttention attention(site, 0.4);
  const auto q = random_normal({1, 2, 9, 4}, 1), x = random_normal({1, 9, 8}, 4);
  Context context = {.random = Random::from_seed(3)};
  const auto tiled = attention.attend({q, q, q, x, x}, context);
  Tensors maps;
  context.maps = &maps;
  EXPECT_NEAR_TENSOR(attention.attend({q, q, q, x, x}, context), tiled, tolerance(at::kDouble));
  attention.eval();
  EXPECT_FALSE(at::allclose(attention.attend({q, q, q, x, x}, context), tiled));
}

}  // namespace
}  // namespace longbow
