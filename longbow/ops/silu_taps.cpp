#include "longbow/ops/silu_taps.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/silu_taps.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;

void check(const Tensor& z, const Tensor& taps, const Tensor& bias) {
  TORCH_CHECK(z.dim() == 3 && taps.dim() == 2 && taps.size(0) == z.size(2), "silu_taps: z is ",
              z.sizes(), " but taps are ", taps.sizes());
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == taps.size(0), "silu_taps: taps are ", taps.sizes(),
              " but bias is ", bias.sizes());
}

Tensor by_aten(const Tensor& z, const Tensor& taps, const Tensor& bias, bool reversed) {
  check(z, taps, bias);
  return silu_taps_formula(z, taps, bias, reversed);
}

Tensor on_meta(const Tensor& z, const Tensor& taps, const Tensor& bias, bool) {
  check(z, taps, bias);
  return at::empty_like(z, {}, at::MemoryFormat::Contiguous);
}
Three backward_on_meta(const Tensor&, const Tensor& z, const Tensor& taps, const Tensor& bias,
                       bool) {
  return {at::empty_like(z, {}, at::MemoryFormat::Contiguous), at::empty_like(taps),
          at::empty_like(bias)};
}

Tensor call(const Tensor& z, const Tensor& taps, const Tensor& bias, bool reversed) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::silu_taps", "")
                             .typed<decltype(by_aten)>();
  return op.call(z, taps, bias, reversed);
}
Three call_backward(const Tensor& dy, const Tensor& z, const Tensor& taps, const Tensor& bias,
                    bool reversed) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::silu_taps_backward", "")
                             .typed<decltype(backward_on_meta)>();
  return op.call(dy, z, taps, bias, reversed);
}

// That of the kernels.
struct Gradient : Differentiable {
  explicit Gradient(bool from_behind) : reversed(from_behind) {}
  const bool reversed;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call(inputs[0], inputs[1], inputs[2], reversed)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "silu_taps has no second derivative here");
    const auto kept = saved();
    const auto [dz, dtaps, dbias] =
        call_backward(gradients[0], kept[0], kept[1], kept[2], reversed);
    return {dz, dtaps, dbias};
  }
};

// The formula is recorded as it is.
Tensor with_gradient(const Tensor& z, const Tensor& taps, const Tensor& bias, bool reversed) {
  check(z, taps, bias);
  if (!has_taps_kernel(z, taps)) return by_aten(z, taps, bias, reversed);
  if (!wants_gradient(z, taps, bias)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(z, taps, bias, reversed);
  }
  return applied<Gradient>({z, taps, bias}, reversed)[0];
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("silu_taps(Tensor z, Tensor taps, Tensor bias, bool reversed) -> Tensor");
  m.def(
      "silu_taps_backward(Tensor dy, Tensor z, Tensor taps, Tensor bias, bool reversed) -> "
      "(Tensor dz, Tensor dtaps, Tensor dbias)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("silu_taps", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("silu_taps", on_meta);
  m.impl("silu_taps_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("silu_taps", with_gradient);
}

}  // namespace

Tensor silu_taps(const Tensor& z, const Tensor& taps, const Tensor& bias, bool reversed) {
  return call(z, taps, bias, reversed);
}

bool has_taps_kernel(const Tensor& z, const Tensor& taps) {
  constexpr int64_t kMostBlocks = 65535;
  return z.is_cuda() && z.scalar_type() == at::kBFloat16 && z.dim() == 3 && z.numel() > 0 &&
         z.size(2) % 8 == 0 && taps.size(1) <= kernels::kMostTaps && z.size(0) <= kMostBlocks &&
         z.size(1) <= kMostBlocks * kernels::kTapSpan;
}

Tensor silu_taps_formula(const Tensor& z, const Tensor& taps, const Tensor& bias, bool reversed) {
  const auto type = z.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const int64_t n = z.size(1), others = taps.size(1) - 1;
  const auto padded =
      at::constant_pad_nd(z.to(type), {0, 0, reversed ? 0 : others, reversed ? others : 0});
  auto sum = bias.to(type).expand(z.sizes());
  for (int64_t j = 0; j <= others; ++j)
    sum = sum + padded.narrow(1, reversed ? others - j : j, n) * taps.select(1, j).to(type);
  return at::silu(sum).to(z.scalar_type());
}

}  // namespace longbow
