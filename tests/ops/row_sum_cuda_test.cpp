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
    for (const int64_t width : {1, 3, 8, 64, 192, 768, 1024, 1100})
      for (const int64_t rows : {0, 1, 37, 5000}) {
        SCOPED_TRACE(c10::str(rows, " x ", width, " ", type));
        const auto x = random_normal({rows, 2, width}, 1).to(type);
        const double size = tolerance * std::sqrt(2.0 * static_cast<double>(rows) + 1);
        EXPECT_NEAR_TENSOR(row_sum(x.cuda()).cpu().to(at::kDouble),
                           x.to(at::kDouble).flatten(0, 1).sum(0), (Tolerance{size, tolerance}));
      }
}

}  // namespace
}  // namespace longbow
