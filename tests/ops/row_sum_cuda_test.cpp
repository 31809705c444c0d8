#include <ATen/ATen.h>

#include "longbow/ops/row_sum.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(RowSumCuda, AddsRowsUpForAllWidthsAndTypes) {
  for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-14},
                                        {at::kFloat, 1e-6},
                                        {at::kBFloat16, 8e-3},
                                        {at::kHalf, 1e-3}})
    for (const int64_t width : {1, 3, 8, 64, 192, 768, 1024, 1100, 1536, 2048, 2056})
      for (const int64_t rows : {0, 1, 37, width > 1100 ? 600 : 5000}) {
        SCOPED_TRACE(c10::str(rows, " x ", width, " ", type));
        const auto x = random_normal({rows, 2, width}, 1).to(type);
        const double size = tolerance * std::sqrt(2.0 * static_cast<double>(rows) + 1);
        EXPECT_NEAR_TENSOR(row_sum(x.cuda()).cpu().to(at::kDouble),
                           x.to(at::kDouble).flatten(0, 1).sum(0), (Tolerance{size, tolerance}));
      }
}

TEST(RowSumCuda, TakesRowsWithGaps) {
  const auto all = random_normal({3, 40, 200}, 1).to(at::kBFloat16).cuda();
  for (const auto& x : {all.narrow(2, 8, 64), all.narrow(2, 3, 64), all.narrow(1, 1, 30),
                        all.transpose(0, 1).narrow(2, 16, 8)})
    EXPECT_NEAR_TENSOR(row_sum(x).cpu().to(at::kDouble),
                       x.cpu().to(at::kDouble).flatten(0, 1).sum(0), (Tolerance{0.1, 8e-3}));
}

}  // namespace
}  // namespace longbow
