#include "longbow/nn/contract/grid.h"

#include <c10/util/StringUtil.h>

#include <cmath>

#include "longbow/core/option_error.h"

namespace longbow {

int64_t grid_columns(int64_t given, const Shape& shape) {
  if (given > 0) return given;
  if (!shape.grid.empty()) return shape.grid.back();
  return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(shape.max_length))));
}

void check_grid(int64_t columns, const Shape& shape) {
  require_option(
      columns > 0 || shape.grid.empty() || shape.grid.size() == 2, "columns",
      c10::str("is not given, and the tokens are an image with ", shape.grid.size(), " sides"),
      "give the tokens in a row");
}

}  // namespace longbow
