#include "longbow/ops/centroids.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(Centroids, CosinesAreThoseOfUnitRows) {
  const auto x = random_normal({2, 3, 5, 4}, 1), centroids = random_normal({3, 6, 4}, 2);
  x[0][0][0].zero_();
  const auto found = centroid_cosines(x, centroids, 1e-12);
  const auto norm = x.norm(2, -1).clamp_min(1e-12);
  EXPECT_NEAR_TENSOR(found.cosines,
                     at::einsum("bhnd,hkd->bhnk", {x / norm.unsqueeze(-1), centroids}),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(found.inverse, 1 / norm, tolerance(at::kDouble));
  EXPECT_TRUE(found.nearest.equal(found.cosines.argmax(-1)));
}

TEST(Centroids, SumsAreThoseOfTheRowsOfACluster) {
  const auto x = random_normal({2, 3, 300, 4}, 1), inverse = random_normal({2, 3, 300}, 2);
  const auto nearest = at::arange(300).remainder(4).sub(1).expand({2, 3, 300});
  const auto got = centroid_sums(x, inverse, nearest, 3);
  const auto rows = x * inverse.unsqueeze(-1);
  for (const int64_t k : {0, 1, 2})
    EXPECT_NEAR_TENSOR(got.select(1, k),
                       rows.slice(2, k + 1, std::nullopt, 4).sum(at::IntArrayRef({0, 2})),
                       tolerance(at::kDouble));
}

TEST(Centroids, GradientsAreThoseOfDifferences) {
  const auto x = random_normal({2, 2, 3, 4}, 1).requires_grad_();
  const auto centroids = random_normal({2, 5, 4}, 2);
  EXPECT_TRUE(
      gradcheck([&] { return centroid_cosines(x, centroids, 1e-12).cosines.exp(); }, {{"x", x}}));
  EXPECT_TRUE(
      gradcheck([&] { return centroid_cosines(x, centroids, 100).cosines.exp(); }, {{"x", x}}));
  // 49 (1 / 49) is less than 1.
  EXPECT_TRUE(
      gradcheck([&] { return centroid_cosines(x, centroids, 49).cosines.exp(); }, {{"x", x}}));
}

TEST(Centroids, AreRegistered) {
  for (const char* name : {"centroid_cosines", "centroid_cosines_backward", "centroid_sums"})
    EXPECT_EQ(missing_kernels(name), "") << name;
}

TEST(Centroids, NameWhatDoesNotFit) {
  const auto x = at::zeros({2, 3, 5, 4});
  EXPECT_NE(error_of([&] {
              centroid_cosines(x, at::zeros({3, 6, 5}), 1);
            }).find("centroid_cosines: x is [2, 3, 5, 4] but centroids are [3, 6, 5]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              centroid_sums(x, at::zeros({2, 3, 5}), at::zeros({2, 3, 4}), 6);
            }).find("centroid_sums: x is [2, 3, 5, 4] but there are [2, 3, 5] and [2, 3, 4] rows"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
