#include "longbow/ops/mode_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

void check(const Tensor& u, const Tensor& rate, const Tensor& weight, const Tensor& skip,
           int64_t first) {
  TORCH_CHECK(u.dim() == 3 && rate.dim() == 4 && rate.size(0) >= 1 && rate.size(0) <= 2 &&
                  rate.size(1) == u.size(2) && rate.size(3) == 2 && rate.sizes() == weight.sizes(),
              "mode_convolution: u is ", u.sizes(), ", rate ", rate.sizes(), ", weight ",
              weight.sizes());
  TORCH_CHECK(skip.dim() == 1 && skip.size(0) == u.size(2), "mode_convolution: u is ", u.sizes(),
              " but skip is ", skip.sizes());
  TORCH_CHECK(first == 0 || first == 1, "mode_convolution: first is ", first,
              ", but later tokens begin at lag 0 or 1");
}

// The result; and, for the gradient of the kernels, y before the activation, what was made of rate
// and weight, and the modes before each segment.
Five by_aten(const Tensor& u, const Tensor& rate, const Tensor& weight, const Tensor& skip,
             int64_t first, int64_t activation, bool) {
  check(u, rate, weight, skip, first);
  const auto none = at::empty({0}, u.options());
  return {mode_convolution_formula(u, rate, weight, skip, static_cast<FirstLag>(first),
                                   static_cast<ModeActivation>(activation)),
          none, none, none, none};
}
Five on_meta(const Tensor& u, const Tensor& rate, const Tensor& weight, const Tensor& skip,
             int64_t first, int64_t, bool) {
  check(u, rate, weight, skip, first);
  const auto none = at::empty({0}, u.options());
  return {at::empty_like(u, {}, at::MemoryFormat::Contiguous), none, none, none, none};
}
Four backward_on_meta(const Tensor&, const Tensor& u, const Tensor& rate, const Tensor& weight,
                      const Tensor& skip, const Tensor&, const Tensor&, const Tensor&, int64_t) {
  return {at::empty_like(u, {}, at::MemoryFormat::Contiguous), at::empty_like(rate),
          at::empty_like(weight), at::empty_like(skip)};
}

Five call(const Tensor& u, const Tensor& rate, const Tensor& weight, const Tensor& skip,
          int64_t first, int64_t activation, bool keeps) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::mode_convolution", "")
                             .typed<decltype(by_aten)>();
  return op.call(u, rate, weight, skip, first, activation, keeps);
}
Four call_backward(const Tensor& dy, const Tensor& u, const Tensor& rate, const Tensor& weight,
                   const Tensor& skip, const Tensor& table, const Tensor& taps,
                   const Tensor& starts, int64_t first) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::mode_convolution_backward", "")
                             .typed<decltype(backward_on_meta)>();
  return op.call(dy, u, rate, weight, skip, table, taps, starts, first);
}

Tensor before_activation(const Tensor& gradient, const Tensor& y, ModeActivation activation) {
  switch (activation) {
    case ModeActivation::gelu:
      return at::gelu_backward(gradient, y);
    case ModeActivation::silu:
      return at::silu_backward(gradient, y);
    default:
      return gradient;
  }
}

// That of the kernels.
struct Gradient : Differentiable {
  Gradient(int64_t first_lag, int64_t curve) : first(first_lag), activation(curve) {}
  const int64_t first, activation;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, y, table, taps, starts] =
        call(inputs[0], inputs[1], inputs[2], inputs[3], first, activation, /*keeps=*/true);
    save({inputs[0], inputs[1], inputs[2], inputs[3], y, table, taps, starts});
    no_gradient_of({y, table, taps, starts});
    return {out, y, table, taps, starts};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "mode_convolution has no second derivative here");
    const auto kept = saved();
    const auto dy =
        before_activation(gradients[0], kept[4], static_cast<ModeActivation>(activation));
    const auto [du, drate, dweight, dskip] =
        call_backward(dy, kept[0], kept[1], kept[2], kept[3], kept[5], kept[6], kept[7], first);
    return {du, drate, dweight, dskip};
  }
};

// The formula is recorded as it is.
Five with_gradient(const Tensor& u, const Tensor& rate, const Tensor& weight, const Tensor& skip,
                   int64_t first, int64_t activation, bool keeps) {
  if (!has_mode_kernel(u)) return by_aten(u, rate, weight, skip, first, activation, keeps);
  if (!wants_gradient(u, rate, weight, skip)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(u, rate, weight, skip, first, activation, keeps);
  }
  const auto found = applied<Gradient>({u, rate, weight, skip}, first, activation);
  return {found[0], found[1], found[2], found[3], found[4]};
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "mode_convolution(Tensor u, Tensor rate, Tensor weight, Tensor skip, int first, int "
      "activation, bool keeps) -> (Tensor out, Tensor y, Tensor table, Tensor taps, Tensor "
      "starts)");
  m.def(
      "mode_convolution_backward(Tensor dy, Tensor u, Tensor rate, Tensor weight, Tensor skip, "
      "Tensor table, Tensor taps, Tensor starts, int first) -> (Tensor du, Tensor drate, Tensor "
      "dweight, Tensor dskip)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("mode_convolution", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("mode_convolution", on_meta);
  m.impl("mode_convolution_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("mode_convolution", with_gradient);
}

}  // namespace

Tensor mode_convolution(const Tensor& u, const Tensor& rate, const Tensor& weight,
                        const Tensor& skip, FirstLag first, ModeActivation activation) {
  check(u, rate, weight, skip, static_cast<int64_t>(first));
  return std::get<0>(call(u, rate, weight, skip, static_cast<int64_t>(first),
                          static_cast<int64_t>(activation), /*keeps=*/false));
}

bool has_mode_kernel(const Tensor& u) {
  constexpr int64_t kMostBlocks = 65535;
  return u.is_cuda() && u.scalar_type() == at::kBFloat16 && u.dim() == 3 && u.numel() > 0 &&
         u.size(2) % 8 == 0 && u.size(0) <= kMostBlocks &&
         u.size(1) <= kMostBlocks * kernels::kChannelSegment;
}

Tensor activated(const Tensor& y, ModeActivation activation) {
  switch (activation) {
    case ModeActivation::gelu:
      return at::gelu(y);
    case ModeActivation::silu:
      return at::silu(y);
    default:
      return y;
  }
}

Tensor mode_convolution_formula(const Tensor& u, const Tensor& rate, const Tensor& weight,
                                const Tensor& skip, FirstLag first, ModeActivation activation) {
  const auto type = u.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto lags = at::arange(u.size(1), u.options().dtype(type));
  const auto kernel = [&](int64_t direction) {
    if (direction == rate.size(0)) return Tensor();
    const auto complex = [&](const Tensor& pairs) {
      return at::view_as_complex(pairs[direction].to(type).contiguous()).unsqueeze(-2);
    };
    const auto powers = (complex(rate) * lags.unsqueeze(-1)).exp();  // [C, N, n]
    return at::real(complex(weight) * powers).sum(-1).t();
  };
  const auto wide = u.to(type);
  const auto y = fft_convolution(wide, kernel(0), kernel(1), first) + skip.to(type) * wide;
  return activated(y, activation).to(u.scalar_type());
}

}  // namespace longbow
