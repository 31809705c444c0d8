#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/centroids.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(CentroidsCuda, AreTheFormulaForAllWidthsAndTypes) {
  for (const auto& [type, error] : {std::pair{at::kBFloat16, 8e-3}, {at::kHalf, 1e-3}})
    for (const int64_t width : {8, 64, 128, 24})
      for (const int64_t clusters : {1, 16, 21, 40}) {
        const double least = clusters == 21 ? 8 : 1e-12;  // some rows are shorter than 8
        SCOPED_TRACE(c10::str(clusters, " of ", width, " ", type, ", at least ", least));
        const at::Device device("cuda:0");
        const auto x = random_normal({2, 300, 3, width}, 1).to(type).transpose(1, 2),
                   centroids = random_normal({3, clusters, width}, 2).to(type);
        const auto found = [&](const at::TensorOptions& options) {
          const auto rows = x.to(options).requires_grad_();
          const auto near = centroid_cosines(rows, centroids.to(options), least);
          const auto slopes = random_normal(near.cosines.sizes(), 3).to(near.cosines.options());
          const auto nearest = at::arange(300).remainder(clusters + 1).sub(1).expand({2, 3, 300});
          std::vector<Tensor> all = {
              near.cosines.detach(), near.inverse,
              torch::autograd::grad({near.cosines}, {rows}, {slopes})[0],
              centroid_sums(rows.detach(), near.inverse, nearest.to(options.device()), clusters)};
          for (auto& one : all) one = one.cpu().to(at::kDouble);
          return all;
        };
        const auto got = found(at::TensorOptions(type).device(device)), want = found(at::kDouble);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_NEAR_TENSOR(got[i], want[i], (Tolerance{4 * error, error})) << i;
        const auto near = centroid_cosines(x.to(device), centroids.to(device), least);
        EXPECT_TRUE(near.cosines.gather(3, near.nearest.unsqueeze(-1))
                        .squeeze(-1)
                        .equal(near.cosines.amax(-1)));
      }
}

}  // namespace
}  // namespace longbow
