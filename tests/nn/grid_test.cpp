#include "longbow/nn/contract/grid.h"

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(Grid, IsGivenOrThatOfTheImageOrTheRootOfTheLength) {
  EXPECT_EQ(grid_columns(5, {.max_length = 64, .grid = {4, 10}}), 5);
  EXPECT_EQ(grid_columns(0, {.max_length = 64, .grid = {4, 10}}), 10);
  EXPECT_EQ(grid_columns(0, {.max_length = 64}), 8);
  EXPECT_EQ(grid_columns(0, {.max_length = 65}), 9);
  EXPECT_EQ(grid_columns(0, {}), 0);
}

TEST(Grid, AnImageHasTwoSides) {
  check_grid(0, {.grid = {4, 10}});
  check_grid(0, {});
  check_grid(6, {.grid = {2, 3, 4}});
  EXPECT_EQ(error_of([] {
              check_grid(0, {.grid = {2, 3, 4}});
            }),
            "columns is not given, and the tokens are an image with 3 sides; give the tokens in a "
            "row");
}

}  // namespace
}  // namespace longbow
