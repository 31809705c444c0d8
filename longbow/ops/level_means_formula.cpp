#include "longbow/ops/level_means_formula.h"

#include <ATen/ATen.h>

#include <vector>

namespace longbow {
namespace {

using at::Tensor;

at::ScalarType wide(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Rows that follow each other by twos, [B, H, ceil(n / 2), D] in each half; the second may lack its
// last row.
Tensor half(const Tensor& x, int64_t which) {
  return x.slice(2, which, std::nullopt, 2);
}

Tensor real_rows(const Tensor& x, const std::optional<Tensor>& keep) {
  return keep ? x * keep->to(x.scalar_type()).unsqueeze(1).unsqueeze(-1) : x;
}
Tensor of_level(const Tensor& factors, int64_t first, int64_t n) {
  return factors.narrow(1, first, n).unsqueeze(1).unsqueeze(-1);  // [1 or B, 1, n, 1]
}

}  // namespace

Tensor level_means_formula(const Tensor& x, const std::optional<Tensor>& keep,
                           const Tensor& factors, at::IntArrayRef rows) {
  const auto out =
      at::empty({x.size(0), factors.size(1), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
  auto sums = real_rows(x, keep);
  int64_t first = 0;
  for (const int64_t count : rows) {
    const auto even = half(sums, 0).to(wide(x), /*non_blocking=*/false, /*copy=*/true),
               odd = half(sums, 1);
    even.narrow(2, 0, odd.size(2)).add_(odd);
    sums = even;
    const int64_t n = sums.size(2);
    auto means = out.narrow(2, first, n);
    at::mul_out(means, sums, of_level(factors, first, n));
    out.narrow(2, first + n, count - n).zero_();
    first += count;
  }
  return out;
}

// What a row has is what its two halves have, and they have their own beside it.
Tensor level_means_formula_backward(const Tensor& g, const Tensor& x,
                                    const std::optional<Tensor>& keep, const Tensor& factors,
                                    at::IntArrayRef rows) {
  std::vector<int64_t> lengths;  // of the levels from 0 on
  lengths.push_back(x.size(2));
  for (size_t l = 0; l < rows.size(); ++l) lengths.push_back((lengths.back() + 1) / 2);
  int64_t first = g.size(2);
  Tensor above;
  for (size_t l = rows.size(); l > 0; --l) {
    first -= rows[l - 1];
    const int64_t n = lengths[l];
    const auto own = g.narrow(2, first, n) * of_level(factors, first, n);
    if (above.defined()) {
      half(own, 0).add_(above);
      const auto odd = half(own, 1);
      odd.add_(above.narrow(2, 0, odd.size(2)));
    }
    above = own;
  }
  const auto dx = at::empty_like(x);
  const auto odd = half(dx, 1);
  half(dx, 0).copy_(above);
  odd.copy_(above.narrow(2, 0, odd.size(2)));
  return real_rows(dx, keep);
}

}  // namespace longbow
