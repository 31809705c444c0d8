#include "longbow/ops/pair_product.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/pair_product.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/pair_product_formula.h"

namespace longbow {
namespace {

using at::Tensor;

Maybe optional(const Tensor& x) {
  return x.defined() ? Maybe(x) : std::nullopt;
}

Two on_meta(const Tensor& q, const Tensor&, const Tensor& v, const Maybe&, bool, double,
            const Maybe&) {
  const auto wide = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, v.options().dtype(wide)),
          at::empty({0}, q.options().dtype(wide))};
}
Three backward_on_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Maybe&, bool, double, const Maybe&, const Tensor&, const Tensor&) {
  return {at::empty_like(q), at::empty_like(k), at::empty_like(v)};
}
Tensor top_on_meta(const Tensor& q, const Tensor&, const Maybe&, bool, const Tensor&, bool) {
  const auto wide = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::empty({3, q.size(0), q.size(1), q.size(2)}, q.options().dtype(wide));
}

template <class Function>
auto operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}
Two call(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& keep, bool causal,
         double scale, const Maybe& top) {
  static const auto op = operator_named<decltype(pair_product_by_aten)>("longbow::pair_product");
  return op.call(q, k, v, keep, causal, scale, top);
}
Three call_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Maybe& keep, bool causal, double scale, const Maybe& top,
                    const Tensor& out, const Tensor& log_sum) {
  static const auto op =
      operator_named<decltype(pair_product_backward_by_aten)>("longbow::pair_product_backward");
  return op.call(dout, q, k, v, keep, causal, scale, top, out, log_sum);
}
Tensor call_top(const Tensor& q, const Tensor& k, const Maybe& keep, bool causal,
                const Tensor& budget, bool ties) {
  static const auto op = operator_named<decltype(top_keys_by_aten)>("longbow::top_keys");
  return op.call(q, k, keep, causal, budget, ties);
}

struct Gradient : Differentiable {
  Gradient(bool is_causal, double factor) : causal(is_causal), scale(factor) {}
  const bool causal;
  const double scale;

  TensorVector forward(const TensorVector& inputs) override {
    const auto &q = inputs[0], &k = inputs[1], &v = inputs[2], &keep = inputs[3], &top = inputs[4];
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, log_sum] = call(q, k, v, optional(keep), causal, scale, optional(top));
    save({q, k, v, keep, top, top.defined() ? out : Tensor(), log_sum});
    no_gradient_of({log_sum});
    return {out, log_sum};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "pair_product has no second derivative");
    const auto kept = saved();
    const auto& out = kept[5].defined() ? kept[5] : kept[6];
    const auto [dq, dk, dv] =
        call_backward(gradients[0], kept[0], kept[1], kept[2], optional(kept[3]), causal, scale,
                      optional(kept[4]), out, kept[6]);
    return {dq, dk, dv, {}, {}};
  }
};

Two with_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& keep, bool causal,
                  double scale, const Maybe& top) {
  if (!wants_gradient(q, k, v)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(q, k, v, keep, causal, scale, top);
  }
  const auto found =
      applied<Gradient>({q, k, v, keep.value_or(Tensor()), top.value_or(Tensor())}, causal, scale);
  return {found[0], found[1]};
}
Three backward_with_gradient(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Maybe& keep, bool causal, double scale, const Maybe& top,
                             const Tensor& out, const Tensor& log_sum) {
  TORCH_CHECK(!wants_gradient(dout, q, k, v), "pair_product has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dout, q, k, v, keep, causal, scale, top, out, log_sum);
}
Tensor top_without_gradient(const Tensor& q, const Tensor& k, const Maybe& keep, bool causal,
                            const Tensor& budget, bool ties) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const at::NoGradGuard constant;
  return call_top(q, k, keep, causal, budget, ties);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "pair_product(Tensor q, Tensor k, Tensor v, Tensor? keep, bool causal, float scale, Tensor? "
      "top) -> (Tensor out, Tensor log_sum)");
  m.def(
      "pair_product_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor? keep, bool causal, "
      "float scale, Tensor? top, Tensor out, Tensor log_sum) -> (Tensor dq, Tensor dk, Tensor dv)");
  m.def(
      "top_keys(Tensor q, Tensor k, Tensor? keep, bool causal, Tensor budget, bool ties) -> "
      "Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("pair_product", pair_product_by_aten);
  m.impl("pair_product_backward", pair_product_backward_by_aten);
  m.impl("top_keys", top_keys_by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("pair_product", on_meta);
  m.impl("pair_product_backward", backward_on_meta);
  m.impl("top_keys", top_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("pair_product", with_gradient);
  m.impl("pair_product_backward", backward_with_gradient);
  m.impl("top_keys", top_without_gradient);
}

void check(const char* who, const Tensor& q, const Tensor& k, const Tensor& v,
           const PairSight& sight) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 &&
                  k.sizes().slice(0, 2) == q.sizes().slice(0, 2) &&
                  v.sizes().slice(0, 3) == k.sizes().slice(0, 3) && q.size(3) == k.size(3),
              who, ": q is ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  const auto& keep = sight.keep;
  TORCH_CHECK(!keep.defined() || (keep.dim() == 2 && keep.scalar_type() == at::kBool &&
                                  keep.size(0) == k.size(0) && keep.size(1) == k.size(2)),
              who, ": keep is ", keep.sizes(), ", but k is ", k.sizes());
  TORCH_CHECK(sight.scale > 0, who, ": scale is ", sight.scale);
}

}  // namespace

Tensor relu_product(const Tensor& q, const Tensor& k, const Tensor& v, const PairSight& sight) {
  check("relu_product", q, k, v, sight);
  return std::get<0>(call(q, k, v, optional(sight.keep), sight.causal, sight.scale, {}));
}

Tensor top_keys(const Tensor& q, const Tensor& k, const PairSight& sight, const Tensor& budget,
                bool ties) {
  check("top_keys", q, k, k, sight);
  TORCH_CHECK(budget.dim() == 2 && budget.scalar_type() == at::kInt &&
                  at::is_expandable_to(budget.sizes(), {q.size(0), q.size(2)}),
              "top_keys: budget is ", budget.sizes(), " of ", budget.scalar_type(), ", but q is ",
              q.sizes());
  return call_top(q, k, optional(sight.keep), sight.causal, budget.expand({q.size(0), q.size(2)}),
                  ties);
}

Tensor top_product(const Tensor& q, const Tensor& k, const Tensor& v, const PairSight& sight,
                   const Tensor& top) {
  check("top_product", q, k, v, sight);
  TORCH_CHECK(top.dim() == 4 && top.size(0) == 3 && top.sizes().slice(1) == q.sizes().slice(0, 3),
              "top_product: top is ", top.sizes(), ", but q is ", q.sizes());
  return std::get<0>(call(q, k, v, optional(sight.keep), sight.causal, sight.scale, top));
}

bool has_pair_kernel(const Tensor& q, const Tensor& k, const Tensor& v) {
  constexpr int64_t kMost = int64_t{1} << 24;  // key numbers are float32 beside the floors
  const auto type = q.scalar_type();
  for (const auto& x : {q, k, v})
    if (!x.is_cuda() || x.scalar_type() != type || x.dim() != 4 || x.numel() == 0 ||
        x.size(3) % 8 != 0 || x.size(3) > kernels::kMostPairWidth || x.size(2) > kMost)
      return false;
  return (type == at::kBFloat16 || type == at::kHalf) &&
         k.sizes().slice(0, 2) == q.sizes().slice(0, 2) &&
         v.sizes().slice(0, 3) == k.sizes().slice(0, 3);
}

}  // namespace longbow
