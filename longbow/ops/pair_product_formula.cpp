#include "longbow/ops/pair_product_formula.h"

#include <ATen/ATen.h>

#include <limits>

namespace longbow {
namespace {

using at::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::ScalarType sums_of(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// q k^T in float32 at least, -infinity where a key is not seen: [B, H, N, M].
Tensor scores_of(const Tensor& q, const Tensor& k, const Maybe& keep, bool causal) {
  const auto type = sums_of(q);
  const int64_t n = q.size(2), m = k.size(2);
  auto s = q.to(type).matmul(k.to(type).transpose(-2, -1));
  if (causal)
    s = s.masked_fill(at::ones({n, m}, s.options().dtype(at::kBool)).triu(m - n + 1), -kInfinity);
  return keep ? s.masked_fill(keep->logical_not().unsqueeze(1).unsqueeze(1), -kInfinity) : s;
}

Tensor weights_of(const Tensor& s, double scale, const Maybe& top) {
  if (!top) return s.clamp_min(0) * scale;
  const auto floor = top->select(0, 0).unsqueeze(-1), last = top->select(0, 1).unsqueeze(-1);
  const auto key = at::arange(s.size(-1), s.options());
  const auto in = (s > floor).logical_or((s == floor).logical_and(key <= last));
  return at::_safe_softmax((s * scale).masked_fill(in.logical_not(), -kInfinity), -1);
}

}  // namespace

Two pair_product_by_aten(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& keep,
                         bool causal, double scale, const Maybe& top) {
  const auto w = weights_of(scores_of(q, k, keep, causal), scale, top);
  return {w.matmul(v.to(w.scalar_type())), at::empty({0}, w.options())};
}

// With g = dout: dv = w^T g; ds = g v^T where s > 0, or w (g v^T - sum_j w g v^T); dq = ds k, dk =
// ds^T q, both times the scale.
Three pair_product_backward_by_aten(const Tensor& dout, const Tensor& q, const Tensor& k,
                                    const Tensor& v, const Maybe& keep, bool causal, double scale,
                                    const Maybe& top, const Tensor&, const Tensor&) {
  const auto s = scores_of(q, k, keep, causal), w = weights_of(s, scale, top);
  const auto type = w.scalar_type();
  const auto g = dout.to(type), dw = g.matmul(v.to(type).transpose(-2, -1));
  const auto ds =
      (top ? at::_softmax_backward_data(dw, w, -1, type) : dw.masked_fill(s <= 0, 0)) * scale;
  return {ds.matmul(k.to(type)).to(q.scalar_type()),
          ds.transpose(-2, -1).matmul(q.to(type)).to(k.scalar_type()),
          w.transpose(-2, -1).matmul(g).to(v.scalar_type())};
}

Tensor top_keys_by_aten(const Tensor& q, const Tensor& k, const Maybe& keep, bool causal,
                        const Tensor& budget, bool ties) {
  const auto s = scores_of(q, k, keep, causal);
  const int64_t m = s.size(-1);
  const auto [sorted, order] = s.sort(/*stable=*/true, -1, /*descending=*/true);
  const auto place = budget.to(at::kLong)
                         .sub(1)
                         .clamp(0, m - 1)
                         .view({q.size(0), 1, q.size(2), 1})
                         .expand({-1, q.size(1), -1, -1});
  const auto fewer = (budget > m).view({q.size(0), 1, q.size(2)});
  const auto floor = sorted.gather(-1, place).squeeze(-1).masked_fill(fewer, -kInfinity);
  const auto last = ties ? at::full_like(floor, static_cast<double>(m))
                         : order.gather(-1, place).squeeze(-1).to(floor.scalar_type());
  return at::stack(
      {floor, last.masked_fill(floor.isneginf(), static_cast<double>(m)), sorted.select(-1, 0)});
}

}  // namespace longbow
