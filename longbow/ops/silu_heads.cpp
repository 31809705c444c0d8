#include "longbow/ops/silu_heads.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;

TensorVector on_meta(const Tensor& z, const Tensor& gain, const Tensor&) {
  TensorVector found;
  for (int64_t r = 0; r < gain.size(0); ++r)
    found.push_back(at::empty_like(z, {}, at::MemoryFormat::Contiguous));
  return found;
}
Three backward_on_meta(at::TensorList, const Tensor& z, const Tensor& gain) {
  return {at::empty_like(z, {}, at::MemoryFormat::Contiguous), at::empty_like(gain),
          at::empty_like(gain)};
}

TensorVector call(const Tensor& z, const Tensor& gain, const Tensor& offset) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::silu_heads", "")
                             .typed<decltype(silu_heads_formula)>();
  return op.call(z, gain, offset);
}
Three call_backward(at::TensorList dy, const Tensor& z, const Tensor& gain) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::silu_heads_backward", "")
                             .typed<decltype(silu_heads_formula_backward)>();
  return op.call(dy, z, gain);
}

struct Gradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    save({inputs[0], inputs[1]});
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(inputs[0], inputs[1], inputs[2]);
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "silu_heads has no second derivative");
    const auto kept = saved();
    const auto [dz, dgain, doffset] = call_backward(gradients, kept[0], kept[1]);
    return {dz, dgain, doffset};
  }
};

TensorVector with_gradient(const Tensor& z, const Tensor& gain, const Tensor& offset) {
  if (wants_gradient(z, gain, offset)) return applied<Gradient>({z, gain, offset});
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(z, gain, offset);
}
Three backward_with_gradient(at::TensorList dy, const Tensor& z, const Tensor& gain) {
  TORCH_CHECK(!wants_gradient(z, gain) &&
                  !std::ranges::any_of(dy, [](const Tensor& x) { return wants_gradient(x); }),
              "silu_heads has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dy, z, gain);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("silu_heads(Tensor z, Tensor gain, Tensor offset) -> Tensor[]");
  m.def(
      "silu_heads_backward(Tensor[] dy, Tensor z, Tensor gain) -> (Tensor dz, Tensor dgain, Tensor "
      "doffset)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("silu_heads", silu_heads_formula);
  m.impl("silu_heads_backward", silu_heads_formula_backward);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("silu_heads", on_meta);
  m.impl("silu_heads_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("silu_heads", with_gradient);
  m.impl("silu_heads_backward", backward_with_gradient);
}

Tensor wide(const Tensor& x) {
  return at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x;
}

}  // namespace

std::vector<Tensor> silu_heads(const Tensor& z, const Tensor& gain, const Tensor& offset) {
  const auto type = z.scalar_type();
  TORCH_CHECK(z.dim() == 3 && gain.dim() == 2 && gain.size(1) == z.size(2) &&
                  offset.sizes() == gain.sizes() && gain.scalar_type() == type &&
                  offset.scalar_type() == type,
              "silu_heads: z is ", z.sizes(), " ", type, ", gain ", gain.sizes(), " ",
              gain.scalar_type(), ", offset ", offset.sizes(), " ", offset.scalar_type());
  return call(z, gain, offset);
}

std::vector<Tensor> silu_heads_formula(const Tensor& z, const Tensor& gain, const Tensor& offset) {
  const auto s = at::silu(wide(z));
  TensorVector found;
  for (int64_t r = 0; r < gain.size(0); ++r)
    found.push_back((s * gain[r] + offset[r]).to(z.scalar_type()));
  return found;
}

Three silu_heads_formula_backward(at::TensorList dy, const Tensor& z, const Tensor& gain) {
  const auto x = wide(z), s = at::silu(x);
  auto ds = at::zeros_like(x);
  TensorVector dgain, doffset;
  for (size_t r = 0; r < dy.size(); ++r) {
    const auto g = wide(dy[r]);
    ds = ds + g * gain[static_cast<int64_t>(r)];
    dgain.push_back((g * s).sum(at::IntArrayRef({0, 1})));
    doffset.push_back(g.sum(at::IntArrayRef({0, 1})));
  }
  const auto type = z.scalar_type();
  return {at::silu_backward(ds, x).to(type), at::stack(dgain).to(type),
          at::stack(doffset).to(type)};
}

}  // namespace longbow
