#include "longbow/attention/clustered/group_tiles.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(GroupTiles, HoldRowsOfOneGroupInTheirOrder) {
  for (const int64_t n : {1, 5, 40, 77})
    for (const int64_t groups : {1, 3, 50}) {
      const auto group = (random_normal({2, 2, n}, 1).abs() * 2 * groups)
                             .to(at::kLong)
                             .clamp_max(groups);  // the last is none
      const GroupTiles tiles(group, groups, 8);
      const auto x = at::arange(1, n + 1, at::kDouble).view({1, 1, n, 1}).expand({2, 2, n, 1});
      const auto cut = tiles.cut(x).squeeze(-1), owner = tiles.owner();  // [B, H, K, W]
      for (int64_t t = 0; t < cut.size(2); ++t)
        for (int64_t w = 0; w < cut.size(3); ++w) {
          const auto row = cut[1][1][t][w].item<int64_t>();
          if (row == 0) continue;
          EXPECT_EQ(group[1][1][row - 1].item<int64_t>(), owner[1][1][t].item<int64_t>());
          const auto before = w > 0 ? cut[1][1][t][w - 1].item<int64_t>() : 0;
          EXPECT_LT(before, row);
        }
      const auto in_some = (group < groups).unsqueeze(-1).to(at::kDouble);
      EXPECT_NEAR_TENSOR(tiles.rows(tiles.cut(x)), x * in_some, kExact);
      EXPECT_EQ((cut > 0).sum().item<int64_t>(), in_some.sum().item<int64_t>());
    }
}

TEST(GroupTiles, ThereAreFewMoreThanRowsNeed) {
  const auto group = at::zeros({1, 1, 100}, at::kLong);
  EXPECT_EQ(GroupTiles(group, 4, 10).owner().size(2), 13);
  EXPECT_EQ(GroupTiles(group.narrow(2, 0, 3), 50, 10).owner().size(2), 3);
}

}  // namespace
}  // namespace longbow
