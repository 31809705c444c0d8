#include "longbow/ops/linear_scan.h"

#include <ATen/ATen.h>

namespace longbow {
namespace {

using at::Tensor;
using Product = Tensor (*)(const Tensor&, const Tensor&);

// Every second step of the first `count`, from `start` on.
Tensor every_second(const Tensor& steps, int64_t start, int64_t count) {
  return at::slice(steps, -3, start, count, 2);
}

Tensor scan(const Tensor& a, const Tensor& b, const Tensor& first, Product product) {
  const int64_t steps = b.size(-3), paired = steps - steps % 2;
  if (steps == 0) return first.unsqueeze(-3);
  const auto left = every_second(a, 0, steps), right = every_second(a, 1, paired);
  const auto leading = every_second(b, 0, steps);
  const auto both = [&](const Tensor& t) { return t.narrow(-3, 0, paired / 2); };
  const auto even = paired == 0 ? first.unsqueeze(-3)
                                : scan(product(right, both(left)),
                                       product(right, both(leading)) + every_second(b, 1, paired),
                                       first, product);                            // S_0, S_2, …
  const auto odd = product(left, even.narrow(-3, 0, leading.size(-3))) + leading;  // S_1, S_3, …
  const auto filled = at::constant_pad_nd(odd, {0, 0, 0, 0, 0, even.size(-3) - odd.size(-3)});
  return at::stack({even, filled}, -3).flatten(-4, -3).narrow(-3, 0, steps + 1);
}

}  // namespace

Tensor decay_scan(const Tensor& factors, const Tensor& added, const Tensor& first) {
  return scan(factors, added, first, at::mul);
}

Tensor matrix_scan(const Tensor& factors, const Tensor& added, const Tensor& first) {
  return scan(factors, added, first, at::matmul);
}

}  // namespace longbow
