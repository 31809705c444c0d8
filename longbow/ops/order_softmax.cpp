#include "longbow/ops/order_softmax.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/block_softmax.h"
#include "longbow/ops/block_memory.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/packed_rule.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Two on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& order,
           const Tensor& inverse, bool itself, const OptionalTensors& rule, at::IntArrayRef numbers,
           at::ArrayRef<double> factors) {
  const auto read =
      order_softmax_formula(q, k, v, {order, inverse}, unpacked(rule, numbers, factors), itself);
  return {read.out, read.log_sum};
}
Three backward_on_cpu(const Tensor& dout, const Tensor& dlog_sum, const Tensor& q, const Tensor& k,
                      const Tensor& v, const Tensor& order, const Tensor& inverse, const Tensor&,
                      const Tensor&, bool itself, const OptionalTensors& rule,
                      at::IntArrayRef numbers, at::ArrayRef<double> factors) {
  const auto d = order_softmax_formula_backward({dout, dlog_sum}, q, k, v, {order, inverse},
                                                unpacked(rule, numbers, factors), itself);
  return {d.q, d.k, d.v};
}

Two on_meta(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, const Tensor&, bool,
            const OptionalTensors&, at::IntArrayRef, at::ArrayRef<double>) {
  const auto wide = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {at::empty_like(v),
          at::empty({q.size(0), q.size(1), q.size(2), 1}, q.options().dtype(wide))};
}
Three backward_on_meta(const Tensor&, const Tensor&, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                       bool, const OptionalTensors&, at::IntArrayRef, at::ArrayRef<double>) {
  return {at::empty_like(q), at::empty_like(k), at::empty_like(v)};
}

Two call(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& order,
         const Tensor& inverse, bool itself, const OptionalTensors& rule, at::IntArrayRef numbers,
         at::ArrayRef<double> factors) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::order_softmax", "")
                             .typed<decltype(on_cpu)>();
  return op.call(q, k, v, order, inverse, itself, rule, numbers, factors);
}
Three call_backward(const Tensor& dout, const Tensor& dlog_sum, const Tensor& q, const Tensor& k,
                    const Tensor& v, const Tensor& order, const Tensor& inverse, const Tensor& out,
                    const Tensor& log_sum, bool itself, const OptionalTensors& rule,
                    at::IntArrayRef numbers, at::ArrayRef<double> factors) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::order_softmax_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(dout, dlog_sum, q, k, v, order, inverse, out, log_sum, itself, rule, numbers,
                 factors);
}

// Weights of all orders are relative to the sum of all, so that the parts of the orders need not be
// kept.
struct Gradient : Differentiable {
  Gradient(PackedRule given, bool self) : rule(std::move(given)), itself(self) {}
  PackedRule rule;  // its tensors until the forward pass has them
  const bool itself;

  TensorVector forward(const TensorVector& inputs) override {
    const auto &q = inputs[0], &k = inputs[1], &v = inputs[2], &order = inputs[3],
               &inverse = inputs[4];
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, log_sum] =
        call(q, k, v, order, inverse, itself, rule.tensors, rule.numbers, rule.factors);
    save(rule.moved_behind({q, k, v, order, inverse, out, log_sum}));
    return {out, log_sum};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "order_softmax has no second derivative");
    const auto kept = saved();
    const auto [dq, dk, dv] =
        call_backward(gradients[0], gradients[1], kept[0], kept[1], kept[2], kept[3], kept[4],
                      kept[5], kept[6], itself, rule_tensors(kept, 7), rule.numbers, rule.factors);
    return {dq, dk, dv, Tensor(), Tensor()};
  }
};

Two with_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& order,
                  const Tensor& inverse, bool itself, const OptionalTensors& rule,
                  at::IntArrayRef numbers, at::ArrayRef<double> factors) {
  if (!wants_gradient(q, k, v)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(q, k, v, order, inverse, itself, rule, numbers, factors);
  }
  const auto found = applied<Gradient>({q, k, v, order, inverse},
                                       PackedRule{rule, numbers.vec(), factors.vec()}, itself);
  return {found[0], found[1]};
}
Three backward_with_gradient(const Tensor& dout, const Tensor& dlog_sum, const Tensor& q,
                             const Tensor& k, const Tensor& v, const Tensor& order,
                             const Tensor& inverse, const Tensor& out, const Tensor& log_sum,
                             bool itself, const OptionalTensors& rule, at::IntArrayRef numbers,
                             at::ArrayRef<double> factors) {
  TORCH_CHECK(!wants_gradient(dout, dlog_sum, q, k, v), "order_softmax has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dout, dlog_sum, q, k, v, order, inverse, out, log_sum, itself, rule, numbers,
                       factors);
}

// `rule` and `numbers` are those of ops/packed_rule.h.
TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "order_softmax(Tensor q, Tensor k, Tensor v, Tensor order, Tensor inverse, bool itself, "
      "Tensor?[] rule, int[] numbers, float[] factors) -> (Tensor out, Tensor log_sum)");
  m.def(
      "order_softmax_backward(Tensor dout, Tensor dlog_sum, Tensor q, Tensor k, Tensor v, Tensor "
      "order, Tensor inverse, Tensor out, Tensor log_sum, bool itself, Tensor?[] rule, int[] "
      "numbers, float[] factors) -> (Tensor dq, Tensor dk, Tensor dv)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("order_softmax", on_cpu);
  m.impl("order_softmax_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("order_softmax", on_meta);
  m.impl("order_softmax_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("order_softmax", with_gradient);
  m.impl("order_softmax_backward", backward_with_gradient);
}

void check(const Orders& orders, const BlockRule& rule) {
  const auto& order = orders.order;
  const auto& seen = rule.visibility;
  TORCH_CHECK(order.dim() == 4 && orders.inverse.dim() == 4 &&
                  order.sizes().slice(0, 3) == orders.inverse.sizes().slice(0, 3),
              "order_softmax: orders are ", order.sizes(), ", inverse ", orders.inverse.sizes());
  const int64_t places = order.size(3), block = rule.pairs.query_block;
  TORCH_CHECK(block > 0 && rule.pairs.key_block > 0 && rule.pairs.columns.dim() == 4 &&
                  rule.pairs.columns.size(2) == (places + block - 1) / block,
              "order_softmax: columns are ", rule.pairs.columns.sizes(), " for ", places,
              " places in blocks of ", block);
  const auto& groups = seen.key_groups;
  TORCH_CHECK(
      seen.query_groups.defined() == groups.defined() &&
          (!groups.defined() || (seen.query_groups.dim() == 3 && groups.dim() == 3 &&
                                 seen.query_groups.size(2) == places && groups.size(2) == places)),
      "order_softmax: groups are ", seen.query_groups.sizes(), " and ", groups.sizes(), " for ",
      places, " places");
  TORCH_CHECK(!seen.query_positions.defined() && !seen.key_positions.defined() &&
                  !seen.key_bias.defined() && seen.memory.tokens == 0 && rule.dropped.rate == 0 &&
                  rule.distances.count() <= 0,
              "order_softmax: positions are those of the orders, and nothing is added or dropped");
  TORCH_CHECK(rule.scale > 0, "order_softmax: scale is ", rule.scale, ", not above 0");
}

}  // namespace

SoftmaxPart order_softmax(const Tensor& q, const Tensor& k, const Tensor& v, const Orders& orders,
                          const BlockRule& rule, bool itself) {
  check(orders, rule);
  const auto& inverse = orders.inverse;
  TORCH_CHECK(q.dim() == 4 && k.sizes() == q.sizes() && v.dim() == 4 &&
                  v.sizes().slice(0, 3) == q.sizes().slice(0, 3) && q.size(0) == inverse.size(0) &&
                  q.size(1) == inverse.size(1) && q.size(2) == inverse.size(3),
              "order_softmax: q is ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes(),
              ", inverse orders ", inverse.sizes());
  const auto& keep = rule.visibility.keep;
  TORCH_CHECK(
      !keep.defined() || (keep.dim() == 3 && keep.size(1) == 1 && keep.size(2) == q.size(2)),
      "order_softmax: keep is ", keep.sizes(), " for ", q.size(2), " tokens");
  const auto given = packed(rule);
  const auto [out, log_sum] =
      call(q, k, v, orders.order, inverse, itself, given.tensors, given.numbers, given.factors);
  return {out, log_sum};
}

bool has_order_kernel(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto type = q.scalar_type();
  const auto fits = [&](const Tensor& x) {
    return x.is_cuda() && x.scalar_type() == type && x.dim() == 4 && x.numel() > 0 &&
           x.size(3) % 8 == 0 && x.size(3) <= 128;
  };
  return (type == at::kBFloat16 || type == at::kHalf) && fits(q) && fits(k) && fits(v) &&
         kernels::block_softmax_memory(std::max(q.size(3), v.size(3))) <= block_memory(q);
}

}  // namespace longbow
