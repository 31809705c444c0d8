#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/ops/hamming_clusters.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

const at::Device kDevice("cuda:0");

// Small whole numbers, whose products are exact in every order.
Tensor whole(at::IntArrayRef sizes, uint64_t seed) {
  return random_normal(sizes, seed).mul(3).round();
}

TEST(HammingClustersCuda, AreThoseOfTheFormula) {
  struct Size {
    int64_t rows, width, bits, clusters, iterations;
  };
  for (const auto& [rows, width, bits, clusters, iterations] : {Size{1, 8, 1, 1, 1},
                                                                {33, 16, 7, 5, 3},
                                                                {200, 64, 32, 100, 10},
                                                                {700, 64, 32, 9, 4},
                                                                {300, 24, 33, 20, 5},
                                                                {150, 40, 63, 256, 2},
                                                                {150, 64, 64, 7, 0},
                                                                {90, 64, 70, 7, 2}})
    for (const bool padded : {false, true}) {
      SCOPED_TRACE(c10::str(rows, " x ", width, " ", bits, " ", clusters, " ", padded));
      const auto q = whole({2, 3, rows, width}, 1).to(at::kBFloat16);
      const auto planes = whole({bits, width + 1}, 2) + 0.5;
      const auto keep = at::arange(rows).unsqueeze(0) < at::tensor({rows, rows / 3}).unsqueeze(1);
      const auto want = hamming_clusters(q, planes, padded ? keep : Tensor(), clusters, iterations);
      for (const auto type : {at::kBFloat16, at::kHalf})
        EXPECT_TRUE(at::equal(
            want, hamming_clusters(q.to(kDevice, type), planes.to(kDevice),
                                   padded ? keep.to(kDevice) : Tensor(), clusters, iterations)
                      .cpu()));
    }
}

TEST(HammingClustersCuda, ReadsViewsAsTheyLie) {
  const auto all = whole({2, 50, 3, 5, 16}, 3).to(at::kBFloat16);
  const auto planes = whole({20, 17}, 4) + 0.5;
  const auto q = all.select(2, 1).transpose(1, 2);
  EXPECT_TRUE(at::equal(
      hamming_clusters(q, planes, {}, 6, 3),
      hamming_clusters(all.to(kDevice).select(2, 1).transpose(1, 2), planes.to(kDevice), {}, 6, 3)
          .cpu()));
}

}  // namespace
}  // namespace longbow
