#include "longbow/nn/layers/past_rows.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(PastRows, PaddedRowsAreNotRemembered) {
  const auto z = random_normal({2, 3, 1}, 6);
  State state;
  open_past_rows(state, "rows", 2, 2, 1, z.options());
  const auto keep = at::tensor({1, 1, 1, 1, 0, 0}).view({2, 3}).to(at::kBool);
  (void)grow_past_rows(state, "rows", z, {.mask = {.keep = keep}, .positions = at::arange(3)});
  const auto& rows = state.lane.at("rows");
  EXPECT_NEAR_TENSOR(rows[0], z[0].narrow(0, 1, 2), kExact);
  EXPECT_NEAR_TENSOR(rows[1], at::cat({at::zeros({1, 1}, at::kDouble), z[1].narrow(0, 0, 1)}),
                     kExact);
}

}  // namespace
}  // namespace longbow
