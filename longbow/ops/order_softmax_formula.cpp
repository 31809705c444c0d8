#include <ATen/ATen.h>

#include <tuple>

#include "longbow/ops/block_softmax_formula.h"
#include "longbow/ops/order_softmax.h"

namespace longbow {
namespace {

using at::Tensor;

// How tokens and places belong together.
struct Standing {
  const Orders& orders;
  Tensor token, there;  // [B, H, R, places]

  explicit Standing(const Orders& given)
      : orders(given),
        token(given.order.clamp(0, given.inverse.size(3) - 1)),
        there(given.order == token) {}

  // [B, H, N, D] or, of each order its own, [B, H, R, N, D] -> [B, H R, places, D].
  Tensor placed(const Tensor& x) const {
    const auto each = x.dim() == 5 ? x : x.unsqueeze(2).expand({-1, -1, token.size(2), -1, -1});
    const auto index = token.unsqueeze(-1).expand({-1, -1, -1, -1, x.size(-1)});
    return each.gather(3, index).masked_fill(there.logical_not().unsqueeze(-1), 0).flatten(1, 2);
  }
  // [B, H R, places, D] -> [B, H, R, N, D].
  Tensor in_time(const Tensor& x) const {
    const auto& inverse = orders.inverse;
    const auto index = inverse.unsqueeze(-1).expand({-1, -1, -1, -1, x.size(3)});
    return x.unflatten(1, {inverse.size(1), inverse.size(2)}).gather(3, index);
  }
  BlockRule of_places(BlockRule rule) const {
    auto& seen = rule.visibility;
    seen.query_positions = seen.key_positions = token.flatten(1, 2);
    auto keep = there;
    if (seen.keep.defined())
      keep = keep.logical_and(seen.keep.unsqueeze(1)
                                  .expand({token.size(0), token.size(1), token.size(2), -1})
                                  .gather(3, token));
    seen.keep = keep.flatten(1, 2);
    return rule;
  }
};

// What places and tokens have read; the share of each order is zero where none saw anything.
struct Reading {
  Tensor place_out, place_sum;  // [B, H R, places, D], [B, H R, places]
  Tensor out, log_sum, share;   // [B, H, R, N, D], [B, H, 1, N, 1], [B, H, R, N, 1]

  Reading(const Standing& at, const Tensor& q, const Tensor& k, const Tensor& v,
          const BlockRule& rule) {
    std::tie(place_out, place_sum) =
        block_softmax_formula(at.placed(q), at.placed(k), at.placed(v), {}, at.of_places(rule));
    out = at.in_time(place_out);
    const auto logs = at.in_time(place_sum.unsqueeze(-1));
    log_sum = logs.logsumexp(2, true);
    share = (logs - log_sum.masked_fill(log_sum.isneginf(), 0)).exp();
  }
  SoftmaxPart joined() const { return {(share * out).sum(2), log_sum.squeeze(2)}; }
};

}  // namespace

SoftmaxPart order_softmax_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const Orders& orders, const BlockRule& rule, bool itself) {
  auto all = Reading(Standing(orders), q, k, v, rule).joined();
  all.out = all.out.to(v.scalar_type());
  if (itself) all.out = at::where(all.log_sum.isneginf(), v, all.out);
  return all;
}

// As join_orders, block_softmax and in_orders have them.
OrderGradients order_softmax_formula_backward(const SoftmaxPart& gradient, const Tensor& q,
                                              const Tensor& k, const Tensor& v,
                                              const Orders& orders, const BlockRule& rule,
                                              bool itself) {
  const Standing at(orders);
  const Reading read(at, q, k, v, rule);
  const auto g = gradient.out.to(read.share.scalar_type()).unsqueeze(2);
  const auto own = (g * read.out).sum(-1, true);
  const auto shift = gradient.log_sum.unsqueeze(2) - (read.share * own).sum(2, true);
  const auto dout = at.placed(read.share * g).to(v.scalar_type()),
             dlog_sum = at.placed(read.share * (own + shift)).squeeze(-1);
  const auto [dq, dk, dv, none] = block_softmax_formula_backward({at.placed(q),
                                                                  at.placed(k),
                                                                  at.placed(v),
                                                                  {},
                                                                  read.place_out,
                                                                  read.place_sum,
                                                                  dout,
                                                                  dlog_sum,
                                                                  false},
                                                                 at.of_places(rule));
  const auto summed = [&](const Tensor& x) {
    return at.in_time(x).sum(2, false, read.share.scalar_type()).to(x.scalar_type());
  };
  auto value = summed(dv);
  if (itself) {
    const auto saw = read.log_sum.squeeze(2).isneginf().logical_not();
    value = value + gradient.out.masked_fill(saw, 0);
  }
  return {summed(dq), summed(dk), value};
}

}  // namespace longbow
