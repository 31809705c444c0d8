#include "longbow/ops/skip_norm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/skip_norm.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

void check(const Tensor& o, const Tensor& x, const Tensor& skip, const Tensor& gate,
           const Tensor& weight, int64_t groups) {
  TORCH_CHECK(x.sizes() == o.sizes() && gate.sizes() == o.sizes(), "skip_norm: o is ", o.sizes(),
              " but x is ", x.sizes(), " and gate ", gate.sizes());
  TORCH_CHECK(skip.dim() == 1 && skip.size(0) == o.size(-1) && skip.sizes() == weight.sizes(),
              "skip_norm: o is ", o.sizes(), " but skip is ", skip.sizes(), " and weight ",
              weight.sizes());
  TORCH_CHECK(groups > 0 && o.size(-1) % groups == 0, "skip_norm: ", o.size(-1), " channels in ",
              groups, " groups");
}

Tensor by_aten(const Tensor& o, const Tensor& x, const Tensor& skip, const Tensor& gate,
               const Tensor& weight, int64_t groups, double epsilon) {
  check(o, x, skip, gate, weight, groups);
  return skip_norm_formula(o, x, skip, gate, weight, groups, epsilon);
}

Tensor on_meta(const Tensor& o, const Tensor& x, const Tensor& skip, const Tensor& gate,
               const Tensor& weight, int64_t groups, double) {
  check(o, x, skip, gate, weight, groups);
  return at::empty_like(o, {}, at::MemoryFormat::Contiguous);
}
Five backward_on_meta(const Tensor&, const Tensor& o, const Tensor& x, const Tensor& skip,
                      const Tensor& gate, const Tensor& weight, int64_t, double) {
  return {at::empty_like(o), at::empty_like(x), at::empty_like(skip), at::empty_like(gate),
          at::empty_like(weight)};
}

Tensor call(const Tensor& o, const Tensor& x, const Tensor& skip, const Tensor& gate,
            const Tensor& weight, int64_t groups, double epsilon) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::skip_norm", "")
                             .typed<decltype(by_aten)>();
  return op.call(o, x, skip, gate, weight, groups, epsilon);
}
Five call_backward(const Tensor& dy, const Tensor& o, const Tensor& x, const Tensor& skip,
                   const Tensor& gate, const Tensor& weight, int64_t groups, double epsilon) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::skip_norm_backward", "")
                             .typed<decltype(backward_on_meta)>();
  return op.call(dy, o, x, skip, gate, weight, groups, epsilon);
}

// That of the kernels.
struct Gradient : Differentiable {
  Gradient(int64_t parts, double added) : groups(parts), epsilon(added) {}
  const int64_t groups;
  const double epsilon;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call(inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], groups, epsilon)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "skip_norm has no second derivative here");
    const auto kept = saved();
    const auto [d_o, dx, dskip, dgate, dweight] =
        call_backward(gradients[0], kept[0], kept[1], kept[2], kept[3], kept[4], groups, epsilon);
    return {d_o, dx, dskip, dgate, dweight};
  }
};

// The formula is recorded as it is.
Tensor with_gradient(const Tensor& o, const Tensor& x, const Tensor& skip, const Tensor& gate,
                     const Tensor& weight, int64_t groups, double epsilon) {
  check(o, x, skip, gate, weight, groups);
  if (!has_skip_norm_kernel(o, x, gate, groups))
    return by_aten(o, x, skip, gate, weight, groups, epsilon);
  if (!wants_gradient(o, x, skip, gate, weight)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(o, x, skip, gate, weight, groups, epsilon);
  }
  return applied<Gradient>({o, x, skip, gate, weight}, groups, epsilon)[0];
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "skip_norm(Tensor o, Tensor x, Tensor skip, Tensor gate, Tensor weight, int groups, "
      "float epsilon) -> Tensor");
  m.def(
      "skip_norm_backward(Tensor dy, Tensor o, Tensor x, Tensor skip, Tensor gate, Tensor weight, "
      "int groups, float epsilon) -> "
      "(Tensor d_o, Tensor dx, Tensor dskip, Tensor dgate, Tensor dweight)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("skip_norm", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("skip_norm", on_meta);
  m.impl("skip_norm_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("skip_norm", with_gradient);
}

}  // namespace

Tensor skip_norm(const Tensor& o, const Tensor& x, const Tensor& skip, const Tensor& gate,
                 const Tensor& weight, int64_t groups, double epsilon) {
  return call(o, x, skip, gate, weight, groups, epsilon);
}

bool has_skip_norm_kernel(const Tensor& o, const Tensor& x, const Tensor& gate, int64_t groups) {
  constexpr int64_t kMostGroups = 65535;
  for (const auto& t : {o, x, gate})
    if (!t.is_cuda() || t.scalar_type() != at::kBFloat16 || t.numel() == 0) return false;
  return groups <= kMostGroups && kernels::skip_norm_fits(o.size(-1) / groups);
}

Tensor skip_norm_formula(const Tensor& o, const Tensor& x, const Tensor& skip, const Tensor& gate,
                         const Tensor& weight, int64_t groups, double epsilon) {
  const auto type = o.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto u = (o.to(type) + skip.to(type) * x.to(type)) * at::silu(gate.to(type));
  const auto rows = u.unflatten(-1, {groups, -1});
  const auto normed = rows * (rows.square().mean(-1, true) + epsilon).rsqrt();
  return (normed.flatten(-2) * weight.to(type)).to(o.scalar_type());
}

}  // namespace longbow
