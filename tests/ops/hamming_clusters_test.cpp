#include "longbow/ops/hamming_clusters.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor codes(int64_t batch, int64_t rows, int64_t bits, uint64_t seed) {
  return (random_normal({batch, 2, rows, bits}, seed) > 0).to(at::kDouble) * 2 - 1;
}

// Hashes of which bit b is set where column b is above 0.
Tensor clusters_of(const Tensor& codes, const Tensor& keep, int64_t clusters, int64_t iterations) {
  const auto planes = at::constant_pad_nd(at::eye(codes.size(3), codes.options()), {0, 1});
  return hamming_clusters(codes, planes, keep, clusters, iterations);
}

// The definition, row by row.
std::vector<int64_t> by_loops(const Tensor& code, int64_t rows, int64_t clusters,
                              int64_t iterations) {
  const int64_t bits = code.size(1);
  const auto bit = [&](int64_t i, int64_t b) { return code[i][b].item<double>() > 0; };
  std::vector<std::vector<bool>> centre(clusters, std::vector<bool>(bits));
  for (int64_t c = 0; c < clusters; ++c)
    for (int64_t b = 0; b < bits; ++b) centre[c][b] = bit((2 * c + 1) * rows / (2 * clusters), b);
  std::vector<int64_t> z(rows);
  const auto assign = [&] {
    for (int64_t i = 0; i < rows; ++i) {
      int64_t least = bits + 1;
      for (int64_t c = 0; c < clusters; ++c) {
        int64_t distance = 0;
        for (int64_t b = 0; b < bits; ++b) distance += bit(i, b) != centre[c][b];
        if (distance < least) least = distance, z[i] = c;
      }
    }
  };
  assign();
  for (int64_t t = 0; t < iterations; ++t) {
    for (int64_t c = 0; c < clusters; ++c) {
      if (std::find(z.begin(), z.end(), c) == z.end()) continue;
      for (int64_t b = 0; b < bits; ++b) {
        int64_t ones = 0;
        for (int64_t i = 0; i < rows; ++i) ones += z[i] == c ? (bit(i, b) ? 1 : -1) : 0;
        centre[c][b] = ones > 0;
      }
    }
    assign();
  }
  return z;
}

TEST(HammingClusters, AreThoseOfTheDefinition) {
  for (const int64_t rows : {1, 3, 20, 61})
    for (const int64_t iterations : {0, 1, 6}) {
      const auto all = codes(2, rows, 7, 10 + rows);
      const auto got = clusters_of(all, {}, 4, iterations);
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t h = 0; h < 2; ++h)
          EXPECT_NEAR_TENSOR(got[b][h], at::tensor(by_loops(all[b][h], rows, 4, iterations)),
                             kExact);
    }
}

TEST(HammingClusters, HiddenRowsAreInNoneAndChangeNothing) {
  const auto all = codes(2, 20, 7, 1);
  const auto keep = at::arange(20).unsqueeze(0) < at::tensor({13, 0}).unsqueeze(1);
  const auto got = clusters_of(all, keep, 4, 5);
  EXPECT_NEAR_TENSOR(got[0].narrow(1, 0, 13),
                     clusters_of(all.narrow(0, 0, 1).narrow(2, 0, 13), {}, 4, 5)[0], kExact);
  EXPECT_TRUE((got[0].narrow(1, 13, 7) == 4).all().item<bool>());
  EXPECT_TRUE((got[1] == 4).all().item<bool>());
  EXPECT_NEAR_TENSOR(memberships(got, 4, at::kDouble).sum(-1),
                     keep.unsqueeze(1).expand({2, 2, 20}).to(at::kDouble), kExact);
}

TEST(HammingClusters, ABitIsSetWhereAProductExceedsItsThreshold) {
  const auto q = at::tensor({1.0, 2.0, 3.0}, at::kDouble).view({1, 1, 3, 1});
  const auto planes = at::tensor({1.0, 2.5}, at::kDouble).view({1, 2});
  EXPECT_TRUE(
      at::equal(hamming_clusters(q, planes, {}, 2, 1).flatten(), at::tensor({0, 0, 1}, at::kLong)));
}

TEST(HammingClusters, IsRegistered) {
  EXPECT_EQ(missing_kernels("hamming_clusters", /*differentiable=*/false), "");
}

TEST(HammingClusters, NamesWhatDoesNotFit) {
  const auto q = at::zeros({1, 2, 5, 3}), planes = at::zeros({7, 4});
  const auto error = [&](const Tensor& p, const Tensor& keep, int64_t clusters) {
    return error_of([&] { hamming_clusters(q, p, keep, clusters, 2); });
  };
  EXPECT_NE(
      error(at::zeros({7, 3}), {}, 2).find("hamming_clusters: q is [1, 2, 5, 3], planes [7, 3]"),
      std::string::npos);
  EXPECT_NE(error(planes, at::ones({1, 4}, at::kBool), 2)
                .find("hamming_clusters: keep is [1, 4], but q is [1, 2, 5, 3]"),
            std::string::npos);
  EXPECT_NE(error(planes, {}, 0).find("hamming_clusters: 0 clusters, 2 iterations"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow
