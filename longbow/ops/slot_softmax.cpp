#include "longbow/ops/slot_softmax.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "longbow/kernels/slot_softmax.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Maybe optional(const Tensor& x) {
  return x.defined() ? Maybe(x) : std::nullopt;
}
at::ScalarType sums_of(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// [B, H, N, R], in float32 at least.
Tensor weights_of(const Tensor& q, const Tensor& k, const Tensor& visible) {
  const auto scores = q.matmul(k.transpose(-2, -1)).to(sums_of(q));
  if (!visible.defined()) return scores.softmax(-1);
  const auto hidden = visible.logical_not().unsqueeze(-2);
  return at::_safe_softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()),
                           -1);
}

Tensor on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& visible) {
  return slot_softmax_formula(q, k, v, visible.value_or(Tensor()));
}
Three backward_on_cpu(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                      const Maybe& visible) {
  const auto d = slot_softmax_formula_backward(dout, q, k, v, visible.value_or(Tensor()));
  return {d.q, d.k, d.v};
}

Tensor on_meta(const Tensor& q, const Tensor&, const Tensor& v, const Maybe&) {
  return at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, v.options());
}
Three backward_on_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Maybe&) {
  return {at::empty_like(q), at::empty_like(k), at::empty_like(v)};
}

Tensor call(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& visible) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::slot_softmax", "")
                             .typed<decltype(on_cpu)>();
  return op.call(q, k, v, visible);
}
Three call_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Maybe& visible) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::slot_softmax_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(dout, q, k, v, visible);
}

struct Gradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    save(inputs);
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(inputs[0], inputs[1], inputs[2], optional(inputs[3]))};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "slot_softmax has no second derivative");
    const auto kept = saved();
    const auto [dq, dk, dv] =
        call_backward(gradients[0], kept[0], kept[1], kept[2], optional(kept[3]));
    return {dq, dk, dv, {}};
  }
};

Tensor with_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& visible) {
  if (!wants_gradient(q, k, v)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(q, k, v, visible);
  }
  return applied<Gradient>({q, k, v, visible.value_or(Tensor())})[0];
}
Three backward_with_gradient(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Maybe& visible) {
  TORCH_CHECK(!wants_gradient(dout, q, k, v), "slot_softmax has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dout, q, k, v, visible);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("slot_softmax(Tensor q, Tensor k, Tensor v, Tensor? visible) -> Tensor");
  m.def(
      "slot_softmax_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor? visible) -> "
      "(Tensor dq, Tensor dk, Tensor dv)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("slot_softmax", on_cpu);
  m.impl("slot_softmax_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("slot_softmax", on_meta);
  m.impl("slot_softmax_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("slot_softmax", with_gradient);
  m.impl("slot_softmax_backward", backward_with_gradient);
}

}  // namespace

Tensor slot_softmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
  const auto heads = q.sizes().slice(0, std::min<size_t>(q.dim(), 2));
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && k.sizes().slice(0, 2) == heads &&
                  v.sizes().slice(0, 3) == k.sizes().slice(0, 3) && q.size(3) == k.size(3),
              "slot_softmax: q is ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  if (!visible.defined()) return call(q, k, v, {});
  TORCH_CHECK(visible.dim() == 3 && visible.scalar_type() == at::kBool &&
                  at::is_expandable_to(visible.sizes(), k.sizes().slice(0, 3)),
              "slot_softmax: visible is ", visible.sizes(), " of ", visible.scalar_type(),
              ", but k is ", k.sizes());
  return call(q, k, v, visible.expand(k.sizes().slice(0, 3)));
}

Tensor slot_softmax_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                            const Tensor& visible) {
  return weights_of(q, k, visible).to(v.scalar_type()).matmul(v);
}

// With g = dout: dv = w^T g, ds = w (g v^T - sum_r w g v^T), dq = ds k, dk = ds^T q.
SlotGradients slot_softmax_formula_backward(const Tensor& dout, const Tensor& q, const Tensor& k,
                                            const Tensor& v, const Tensor& visible) {
  const auto w = weights_of(q, k, visible);
  const auto type = w.scalar_type();
  const auto g = dout.to(type);
  const auto ds = at::_softmax_backward_data(g.matmul(v.to(type).transpose(-2, -1)), w, -1, type);
  return {ds.matmul(k.to(type)).to(q.scalar_type()),
          ds.transpose(-2, -1).matmul(q.to(type)).to(k.scalar_type()),
          w.transpose(-2, -1).matmul(g).to(v.scalar_type())};
}

bool has_slot_kernel(const Tensor& q, const Tensor& k, const Tensor& v) {
  constexpr int64_t kMostQueries = int64_t{1} << 30;  // the kernels count in 32 bits
  const auto type = q.scalar_type();
  for (const auto& x : {q, k, v})
    if (!x.is_cuda() || x.scalar_type() != type || x.dim() != 4 || x.numel() == 0 ||
        x.size(3) % 8 != 0 || x.size(3) > kernels::kMostSlotWidth)
      return false;
  return (type == at::kBFloat16 || type == at::kHalf) && k.size(2) <= kernels::kMostSlots &&
         q.size(2) < kMostQueries && k.sizes().slice(0, 2) == q.sizes().slice(0, 2) &&
         v.sizes().slice(0, 3) == k.sizes().slice(0, 3);
}

}  // namespace longbow
