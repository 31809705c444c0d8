#include <ATen/ATen.h>

#include "longbow/ops/orders.h"

namespace longbow {
namespace {

using at::Tensor;

at::ScalarType wide(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Rows of x [B, H, R, n, D] by an index [B, H, R, N].
Tensor rows_at(const Tensor& x, const Tensor& index) {
  return x.gather(3, index.unsqueeze(-1).expand({-1, -1, -1, -1, x.size(4)}));
}
Tensor filled_up(const Tensor& x, int64_t places) {
  return at::constant_pad_nd(x, {0, 0, 0, places - x.size(3)});
}

// What tokens read in each order, and the share of each; zero where none saw anything.
struct Read {
  Tensor out, log_sum, share;  // [B, H, R, N, D], [B, H, 1, N, 1], [B, H, R, N, 1]

  Read(const SoftmaxPart& parts, const Tensor& inverse) : out(rows_at(parts.out, inverse)) {
    const auto logs = rows_at(parts.log_sum, inverse);
    log_sum = logs.logsumexp(2, true);
    share = (logs - log_sum.masked_fill(log_sum.isneginf(), 0)).exp();
  }
};

}  // namespace

Tensor in_orders_formula(const Tensor& x, const Tensor& order, int64_t places) {
  return filled_up(rows_at(x.unsqueeze(2).expand({-1, -1, order.size(2), -1, -1}), order), places);
}

Tensor in_orders_formula_backward(const Tensor& gradient, const Tensor& inverse) {
  return rows_at(gradient, inverse).sum(2, false, wide(gradient)).to(gradient.scalar_type());
}

SoftmaxPart join_orders_formula(const SoftmaxPart& parts, const Tensor& inverse) {
  const Read read(parts, inverse);
  return {(read.share * read.out).sum(2).to(parts.out.scalar_type()), read.log_sum.squeeze(2)};
}

// With w the share of an order and g = dout: d out = w g, d log = w (g . out - g . joined +
// dlog_sum).
SoftmaxPart join_orders_formula_backward(const SoftmaxPart& gradient, const SoftmaxPart& parts,
                                         const Orders& orders) {
  const Read read(parts, orders.inverse);
  const auto g = gradient.out.to(read.share.scalar_type()).unsqueeze(2);
  const auto own = (g * read.out).sum(-1, true);
  const auto shift = gradient.log_sum.unsqueeze(2) - (read.share * own).sum(2, true);
  const auto placed = [&](const Tensor& x) {
    return filled_up(rows_at(x, orders.order), parts.out.size(3));
  };
  return {placed((read.share * g).to(parts.out.scalar_type())), placed(read.share * (own + shift))};
}

}  // namespace longbow
