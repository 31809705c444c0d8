#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// Axis 0 runs along a column, axis 1 along a row.
void check_axial(const Case& c) {
  const int64_t axis = c.integer("dim_index") < 0 ? 3 : c.integer("dim_index");
  const auto as_tokens = [&](const Tensor& t) { return t.movedim(axis, 3).flatten(1, 2); };
  const auto grid = c.at("x").movedim(axis, 3);
  const auto x = c.at("x").requires_grad_();
  Layer layer("axial",
              {.shape = {.width = grid.size(3),
                         .heads = c.integer("heads"),
                         .head_width = c.integer("dim_head"),
                         .grid = {grid.size(1), grid.size(2)}}},
              c.flag("sum") ? "{combine: sum}" : "{combine: sequential}");
  for (const std::string line : {"column", "row"}) {
    const std::string s = line == "column" ? "0" : "1";
    for (const std::string name : {"query", "key", "value", "output"})
      layer.set_projection(c, line + "." + name, name.substr(0, 1) + s);
  }
  const auto y = layer(as_tokens(x), {});
  expect_output(c, y.unflatten(1, {grid.size(1), grid.size(2)}).movedim(3, axis), {});
  expect_gradient(c, "x", x.grad());
  layer.expect_gradients(c);
}

const Reader axial("axial", {check_axial});

}  // namespace
}  // namespace longbow::parity
