#pragma once
#include "longbow/nn/contract/site.h"

namespace longbow {

// Columns of the grid that tokens stand on: `given` where that is not 0; else those of the image
// that the tokens are; else the root of the longest sequence, rounded up, and 0 where that is not
// known. The number does not depend on the length of a batch, so padding does not move tokens.
int64_t grid_columns(int64_t given, const Shape& shape);

// OptionError for `columns` where an image has other than two sides and columns are not given.
void check_grid(int64_t columns, const Shape& shape);

}  // namespace longbow
