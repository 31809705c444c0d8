#include "longbow/ops/pack_softmax.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <limits>
#include <optional>
#include <tuple>

#include "longbow/kernels/pack_softmax.h"
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
// out, the same in float32, which is empty where the backward pass does not read it, and the
// logarithms of the sums [B, H, R, 1].
Three on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& keep) {
  const auto read = pack_softmax_formula(q, k, v, keep.value_or(Tensor()));
  return {read.out, at::empty({0}, q.options().dtype(at::kFloat)), read.log_sum};
}
Three backward_on_cpu(const Tensor& dout, const Tensor& dlog_sum, const Tensor& q, const Tensor& k,
                      const Tensor& v, const Maybe& keep, const Tensor&, const Tensor&) {
  const auto d = pack_softmax_formula_backward({dout, dlog_sum}, q, k, v, keep.value_or(Tensor()));
  return {d.q, d.k, d.v};
}

Three on_meta(const Tensor& q, const Tensor&, const Tensor& v, const Maybe&) {
  const auto out = at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, v.options());
  const auto sums = q.options().dtype(q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  return {out, at::empty(out.sizes(), sums), at::empty({q.size(0), q.size(1), q.size(2), 1}, sums)};
}
Three backward_on_meta(const Tensor&, const Tensor&, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Maybe&, const Tensor&, const Tensor&) {
  return {at::empty_like(q), at::empty_like(k), at::empty_like(v)};
}

Three call(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& keep) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::pack_softmax", "")
                             .typed<decltype(on_cpu)>();
  return op.call(q, k, v, keep);
}
Three call_backward(const Tensor& dout, const Tensor& dlog_sum, const Tensor& q, const Tensor& k,
                    const Tensor& v, const Maybe& keep, const Tensor& mean, const Tensor& log_sum) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::pack_softmax_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(dout, dlog_sum, q, k, v, keep, mean, log_sum);
}

struct Gradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    const auto &q = inputs[0], &k = inputs[1], &v = inputs[2], &keep = inputs[3];
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, mean, log_sum] = call(q, k, v, optional(keep));
    save({q, k, v, keep, mean, log_sum});
    no_gradient_of({mean});
    return {out, mean, log_sum};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "pack_softmax has no second derivative");
    const auto kept = saved();
    const auto [dq, dk, dv] = call_backward(gradients[0], gradients[2], kept[0], kept[1], kept[2],
                                            optional(kept[3]), kept[4], kept[5]);
    return {dq, dk, dv, {}};
  }
};

Three with_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& keep) {
  if (!wants_gradient(q, k, v)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(q, k, v, keep);
  }
  const auto found = applied<Gradient>({q, k, v, keep.value_or(Tensor())});
  return {found[0], found[1], found[2]};
}
Three backward_with_gradient(const Tensor& dout, const Tensor& dlog_sum, const Tensor& q,
                             const Tensor& k, const Tensor& v, const Maybe& keep,
                             const Tensor& mean, const Tensor& log_sum) {
  TORCH_CHECK(!wants_gradient(dout, dlog_sum, q, k, v), "pack_softmax has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dout, dlog_sum, q, k, v, keep, mean, log_sum);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "pack_softmax(Tensor q, Tensor k, Tensor v, Tensor? keep) -> (Tensor out, Tensor mean, "
      "Tensor log_sum)");
  m.def(
      "pack_softmax_backward(Tensor dout, Tensor dlog_sum, Tensor q, Tensor k, Tensor v, Tensor? "
      "keep, Tensor mean, Tensor log_sum) -> (Tensor dq, Tensor dk, Tensor dv)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("pack_softmax", on_cpu);
  m.impl("pack_softmax_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("pack_softmax", on_meta);
  m.impl("pack_softmax_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("pack_softmax", with_gradient);
  m.impl("pack_softmax_backward", backward_with_gradient);
}

}  // namespace

SoftmaxPart pack_softmax_part(const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& keep) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 &&
                  k.sizes().slice(0, 2) == q.sizes().slice(0, 2) &&
                  v.sizes().slice(0, 3) == k.sizes().slice(0, 3) && q.size(3) == k.size(3),
              "pack_softmax: q is ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  TORCH_CHECK(!keep.defined() || (keep.dim() == 2 && keep.scalar_type() == at::kBool &&
                                  keep.size(0) == k.size(0) && keep.size(1) == k.size(2)),
              "pack_softmax: keep is ", keep.sizes(), ", but k is ", k.sizes());
  const auto [out, mean, log_sum] = call(q, k, v, optional(keep));
  return {out, log_sum};
}
Tensor pack_softmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep) {
  return pack_softmax_part(q, k, v, keep).out;
}

namespace {

// [B, H, R, M], -infinity where a key is hidden.
Tensor scores_of(const Tensor& q, const Tensor& k, const Tensor& keep) {
  const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto scores = q.to(type).matmul(k.to(type).transpose(-2, -1));
  if (!keep.defined()) return scores;
  const auto hidden = keep.logical_not().unsqueeze(1).unsqueeze(1);
  return scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
}

}  // namespace

SoftmaxPart pack_softmax_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& keep) {
  const auto scores = scores_of(q, k, keep);
  return {at::_safe_softmax(scores, -1).to(v.scalar_type()).matmul(v), scores.logsumexp(-1, true)};
}

// With g = dout: dv = w^T g, ds = w (g v^T - sum_j w g v^T + dlog_sum), dq = ds k, dk = ds^T q.
PackGradients pack_softmax_formula_backward(const SoftmaxPart& gradient, const Tensor& q,
                                            const Tensor& k, const Tensor& v, const Tensor& keep) {
  const auto w = at::_safe_softmax(scores_of(q, k, keep), -1);
  const auto type = w.scalar_type();
  const auto g = gradient.out.to(type);
  const auto ds = at::_softmax_backward_data(g.matmul(v.to(type).transpose(-2, -1)), w, -1, type) +
                  w * gradient.log_sum;
  return {ds.matmul(k.to(type)).to(q.scalar_type()),
          ds.transpose(-2, -1).matmul(q.to(type)).to(k.scalar_type()),
          w.transpose(-2, -1).matmul(g).to(v.scalar_type())};
}

namespace {

bool fits(int64_t queries, int64_t keys) {
  return queries <= kernels::kMostSlots ||
         (queries <= kernels::kMostPackQueries && keys >= 8 * queries);
}

}  // namespace

bool has_pack_kernel(const Tensor& q, const Tensor& k, const Tensor& v) {
  constexpr int64_t kMostKeys = int64_t{1} << 30;  // the kernels count in 32 bits
  const auto type = q.scalar_type();
  for (const auto& x : {q, k, v})
    if (!x.is_cuda() || x.scalar_type() != type || x.dim() != 4 || x.numel() == 0 ||
        x.size(3) % 8 != 0 || x.size(3) > kernels::kMostSlotWidth)
      return false;
  return (type == at::kBFloat16 || type == at::kHalf) && fits(q.size(2), k.size(2)) &&
         k.size(2) < kMostKeys && k.sizes().slice(0, 2) == q.sizes().slice(0, 2) &&
         v.sizes().slice(0, 3) == k.sizes().slice(0, 3);
}

}  // namespace longbow
