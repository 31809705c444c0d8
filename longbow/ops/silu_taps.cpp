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
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

void check(const Tensor& z, const Tensor& taps, const Tensor& bias, int64_t channels,
           int64_t width) {
  TORCH_CHECK(z.dim() == 3 && taps.dim() == 2 && taps.size(0) == z.size(2), "silu_taps: z is ",
              z.sizes(), " but taps are ", taps.sizes());
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == taps.size(0), "silu_taps: taps are ", taps.sizes(),
              " but bias is ", bias.sizes());
  TORCH_CHECK(width > 0 && channels >= 0 && channels <= z.size(2) && channels % width == 0,
              "silu_taps: z is ", z.sizes(), " but ", channels, " channels stand in parts of ",
              width);
}

Tensor by_aten(const Tensor& z, const Tensor& taps, const Tensor& bias, bool reversed,
               int64_t channels, int64_t width) {
  check(z, taps, bias, channels, width);
  return silu_taps_formula(z, taps, bias, reversed, {channels, width});
}
Two both_by_aten(const Tensor& z, const Tensor& taps, const Tensor& bias, int64_t channels,
                 int64_t width) {
  return {by_aten(z, taps, bias, false, channels, width),
          by_aten(z, taps, bias, true, channels, width)};
}

Tensor on_meta(const Tensor& z, const Tensor& taps, const Tensor& bias, bool, int64_t channels,
               int64_t width) {
  check(z, taps, bias, channels, width);
  return at::empty_like(z, {}, at::MemoryFormat::Contiguous);
}
Two both_on_meta(const Tensor& z, const Tensor& taps, const Tensor& bias, int64_t channels,
                 int64_t width) {
  return {on_meta(z, taps, bias, false, channels, width),
          on_meta(z, taps, bias, true, channels, width)};
}
Three backward_on_meta(const Tensor&, const Tensor& z, const Tensor& taps, const Tensor& bias, bool,
                       int64_t, int64_t) {
  return {at::empty_like(z, {}, at::MemoryFormat::Contiguous), at::empty_like(taps),
          at::empty_like(bias)};
}
Three both_backward_on_meta(const Tensor& dforth, const Tensor&, const Tensor& z,
                            const Tensor& taps, const Tensor& bias, int64_t channels,
                            int64_t width) {
  return backward_on_meta(dforth, z, taps, bias, false, channels, width);
}

Tensor call(const Tensor& z, const Tensor& taps, const Tensor& bias, bool reversed,
            const UnitParts& unit) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::silu_taps", "")
                             .typed<decltype(by_aten)>();
  return op.call(z, taps, bias, reversed, unit.channels, unit.width);
}
Two call_both(const Tensor& z, const Tensor& taps, const Tensor& bias, const UnitParts& unit) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::silu_taps_both", "")
                             .typed<decltype(both_by_aten)>();
  return op.call(z, taps, bias, unit.channels, unit.width);
}

// That of the kernels.
struct Gradient : Differentiable {
  Gradient(bool from_behind, const UnitParts& parts) : reversed(from_behind), unit(parts) {}
  const bool reversed;
  const UnitParts unit;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call(inputs[0], inputs[1], inputs[2], reversed, unit)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "silu_taps has no second derivative here");
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("longbow::silu_taps_backward", "")
                               .typed<decltype(backward_on_meta)>();
    const auto kept = saved();
    const auto [dz, dtaps, dbias] =
        op.call(gradients[0], kept[0], kept[1], kept[2], reversed, unit.channels, unit.width);
    return {dz, dtaps, dbias};
  }
};

// Of both directions, added as it is formed.
struct BothGradient : Differentiable {
  explicit BothGradient(const UnitParts& parts) : unit(parts) {}
  const UnitParts unit;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    const auto [forth, back] = call_both(inputs[0], inputs[1], inputs[2], unit);
    return {forth, back};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "silu_taps has no second derivative here");
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("longbow::silu_taps_both_backward", "")
                               .typed<decltype(both_backward_on_meta)>();
    const auto kept = saved();
    const auto [dz, dtaps, dbias] =
        op.call(gradients[0], gradients[1], kept[0], kept[1], kept[2], unit.channels, unit.width);
    return {dz, dtaps, dbias};
  }
};

// The formula is recorded as it is.
Tensor with_gradient(const Tensor& z, const Tensor& taps, const Tensor& bias, bool reversed,
                     int64_t channels, int64_t width) {
  check(z, taps, bias, channels, width);
  const UnitParts unit = {channels, width};
  if (!has_taps_kernel(z, taps, unit)) return by_aten(z, taps, bias, reversed, channels, width);
  if (!wants_gradient(z, taps, bias)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(z, taps, bias, reversed, unit);
  }
  return applied<Gradient>({z, taps, bias}, reversed, unit)[0];
}
Two both_with_gradient(const Tensor& z, const Tensor& taps, const Tensor& bias, int64_t channels,
                       int64_t width) {
  check(z, taps, bias, channels, width);
  const UnitParts unit = {channels, width};
  if (!has_taps_kernel(z, taps, unit)) return both_by_aten(z, taps, bias, channels, width);
  if (!wants_gradient(z, taps, bias)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call_both(z, taps, bias, unit);
  }
  const auto found = applied<BothGradient>({z, taps, bias}, unit);
  return {found[0], found[1]};
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "silu_taps(Tensor z, Tensor taps, Tensor bias, bool reversed, int unit_channels, "
      "int unit_width) -> Tensor");
  m.def(
      "silu_taps_backward(Tensor dy, Tensor z, Tensor taps, Tensor bias, bool reversed, "
      "int unit_channels, int unit_width) -> (Tensor dz, Tensor dtaps, Tensor dbias)");
  m.def(
      "silu_taps_both(Tensor z, Tensor taps, Tensor bias, int unit_channels, int unit_width) -> "
      "(Tensor forth, Tensor back)");
  m.def(
      "silu_taps_both_backward(Tensor dforth, Tensor dback, Tensor z, Tensor taps, Tensor bias, "
      "int unit_channels, int unit_width) -> (Tensor dz, Tensor dtaps, Tensor dbias)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("silu_taps", by_aten);
  m.impl("silu_taps_both", both_by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("silu_taps", on_meta);
  m.impl("silu_taps_backward", backward_on_meta);
  m.impl("silu_taps_both", both_on_meta);
  m.impl("silu_taps_both_backward", both_backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("silu_taps", with_gradient);
  m.impl("silu_taps_both", both_with_gradient);
}

}  // namespace

Tensor silu_taps(const Tensor& z, const Tensor& taps, const Tensor& bias, bool reversed,
                 const UnitParts& unit) {
  return call(z, taps, bias, reversed, unit);
}

BothTaps silu_taps_both(const Tensor& z, const Tensor& taps, const Tensor& bias,
                        const UnitParts& unit) {
  const auto [forth, back] = call_both(z, taps, bias, unit);
  return {forth, back};
}

bool has_taps_kernel(const Tensor& z, const Tensor& taps, const UnitParts& unit) {
  constexpr int64_t kMostBlocks = 65535;
  return z.is_cuda() && z.scalar_type() == at::kBFloat16 && z.dim() == 3 && z.numel() > 0 &&
         z.size(2) % 8 == 0 && taps.size(1) <= kernels::kMostTaps && z.size(0) <= kMostBlocks &&
         z.size(1) <= kMostBlocks * kernels::kTapSpan &&
         (unit.channels == 0 || kernels::unit_fits(unit.width));
}

Tensor silu_taps_formula(const Tensor& z, const Tensor& taps, const Tensor& bias, bool reversed,
                         const UnitParts& unit) {
  const auto type = z.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const int64_t n = z.size(1), others = taps.size(1) - 1;
  const auto padded =
      at::constant_pad_nd(z.to(type), {0, 0, reversed ? 0 : others, reversed ? others : 0});
  auto sum = bias.to(type).expand(z.sizes());
  for (int64_t j = 0; j <= others; ++j)
    sum = sum + padded.narrow(1, reversed ? others - j : j, n) * taps.select(1, j).to(type);
  auto y = at::silu(sum);
  if (unit.channels > 0) {
    const auto parts = y.narrow(2, 0, unit.channels).unflatten(2, {-1, unit.width});
    const auto scaled = parts * (parts.square().sum(-1, true) + kernels::kUnitEpsilon).rsqrt();
    y = at::cat({scaled.flatten(2), y.narrow(2, unit.channels, y.size(2) - unit.channels)}, 2);
  }
  return y.to(z.scalar_type());
}

}  // namespace longbow
