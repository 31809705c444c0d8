#include <ATen/ATen.h>

#include "longbow/ops/token_gates.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// Results and gradients of numbers that were rounded; gates are parts of wider rows.
std::vector<Tensor> results(at::ScalarType type, int64_t tokens, int64_t width,
                            const at::TensorOptions& options, bool formula) {
  const auto given = [&](int64_t channels, uint64_t seed) {
    return random_normal({2, tokens, channels}, seed).to(type).to(options).requires_grad_();
  };
  const auto x = given(width, 1), gates = given(2 * width + 8, 2), added = given(width, 3);
  const auto update = gates.narrow(-1, 0, width), candidate = gates.narrow(-1, width + 8, width);
  const auto product = (formula ? silu_product_formula : silu_product)(x, update),
             step = (formula ? gated_step_formula : gated_step)(x, update, candidate, added);
  at::stack({product, step}).backward(random_normal({2, 2, tokens, width}, 4).to(type).to(options));
  std::vector<Tensor> found = {product.detach(), step.detach(), x.grad(), gates.grad(),
                               added.grad()};
  for (auto& t : found) t = t.cpu().to(at::kDouble);
  return found;
}

TEST(TokenGatesCuda, AreTheFormulasForAllShapesAndTypes) {
  for (const auto& [type, rounding] : {std::pair{at::kBFloat16, 4e-3}, {at::kHalf, 5e-4}})
    for (const int64_t tokens : {1, 7, 200})
      for (const int64_t width : {8, 72, 520, 12}) {
        SCOPED_TRACE(c10::str(tokens, " x ", width, " ", type));
        const auto want = results(type, tokens, width, at::kDouble, true),
                   got =
                       results(type, tokens, width, at::TensorOptions("cuda:0").dtype(type), false);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_LT(((got[i] - want[i]).norm() / want[i].norm()).item<double>(), 1.5 * rounding)
              << i;
      }
}

}  // namespace
}  // namespace longbow
