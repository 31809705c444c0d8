#include "longbow/ops/diagonal_scan.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace longbow {
namespace {

using at::Tensor;

// exp(rate (i - j)) for j <= i, else 0: [P, K, K]. No exponent is positive.
Tensor decays_between(const Tensor& rate, int64_t size) {
  const auto i = at::arange(size, rate.options().dtype(at::kLong));
  const auto lag = (i.unsqueeze(1) - i).clamp_min(0);
  return (rate.view({-1, 1, 1}) * lag).exp().tril();
}

}  // namespace

Tensor diagonal_scan(const Tensor& b, const Tensor& rate) {
  TORCH_CHECK(b.dim() == 3 && rate.dim() == 1 && b.size(2) == rate.size(0), "diagonal_scan: b is ",
              b.sizes(), " but rate is ", rate.sizes());
  constexpr int64_t kChunk = 32;
  const int64_t batch = b.size(0), length = b.size(1);
  if (length == 0) return b;
  const int64_t chunk = std::min(length, kChunk), chunks = (length + chunk - 1) / chunk;
  const auto cut = at::constant_pad_nd(b, {0, 0, 0, chunks * chunk - length})
                       .unflatten(1, {chunks, chunk});  // [B, A, K, P]
  const auto inside = decays_between(rate, chunk)
                          .matmul(cut.permute({3, 2, 0, 1}).flatten(2))  // [P, K, B A]
                          .unflatten(2, {batch, chunks})
                          .permute({2, 3, 1, 0});
  const auto joined = [&](const Tensor& x) { return x.flatten(1, 2).narrow(1, 0, length); };
  if (chunks == 1) return joined(inside);
  const auto ends = diagonal_scan(inside.select(2, chunk - 1), rate * chunk);
  const auto before = at::constant_pad_nd(ends.narrow(1, 0, chunks - 1), {0, 0, 1, 0});
  const auto steps = at::arange(1, chunk + 1, rate.options().dtype(at::kLong)).unsqueeze(1);
  return joined(inside + (rate * steps).exp() * before.unsqueeze(2));
}

}  // namespace longbow
