#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/shared_heads.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(SharedHeadsCuda, AreTheSumsForAllWidthsAndTypes) {
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const int64_t width : {8, 64, 72, 12}) {
      SCOPED_TRACE(c10::str(width, " ", type));
      const auto drawn = [&](at::IntArrayRef shape, uint64_t seed) {
        return random_normal(shape, seed).to(at::Device("cuda:0"), type);
      };
      // By heads, by tokens, and behind other columns.
      const auto a = drawn({2, 3, 7, width}, 1), b = drawn({2, 7, 3, width}, 2).transpose(1, 2),
                 c = drawn({2, 3, 7, width + 16}, 3).narrow(3, 8, width),
                 d = drawn({2, 1, 7, 8}, 4);
      const auto got = sum_heads({a, b, c, d, b, a}, {3, 1, 2});
      const auto want = sum_heads_formula({a, b, c, d, b, a}, {3, 1, 2});
      EXPECT_NEAR_TENSOR(got.to(at::kDouble), want.to(at::kDouble), (Tolerance{0, 8e-3}));
      // More terms, or more sums, than the kernel takes.
      for (const auto& terms : std::vector<std::vector<int64_t>>{{5}, {1, 1, 1, 1, 1}})
        EXPECT_TRUE(
            sum_heads({a, b, a, b, a}, terms).equal(sum_heads_formula({a, b, a, b, a}, terms)));
    }
}

TEST(SharedHeadsCuda, GradientsLieBesideEachOther) {
  const auto drawn = [&](uint64_t seed) {
    return random_normal({2, 3, 7, 16}, seed)
        .to(at::Device("cuda:0"), at::kBFloat16)
        .requires_grad_();
  };
  const auto q = drawn(1), k = drawn(2);
  const auto views = shared_heads({q, k}, {2, 1});
  EXPECT_TRUE(views[0][1].is_alias_of(q));
  const auto y = views[0][0] * views[1][0] + 3 * views[0][1];
  const auto found = torch::autograd::grad({y}, {q, k}, {at::ones_like(y)});
  EXPECT_NEAR_TENSOR(found[0].cpu().to(at::kDouble), (k.cpu().to(at::kDouble) + 3),
                     (Tolerance{0, 8e-3}));
  EXPECT_TRUE(found[1].equal(q));
  EXPECT_TRUE(found[1].is_alias_of(found[0]));
  EXPECT_EQ(found[1].storage_offset(), found[0].storage_offset() + 3 * 16);
}

}  // namespace
}  // namespace longbow
