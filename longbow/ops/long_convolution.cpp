#include "longbow/ops/long_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/channel_rows.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/fft_convolution.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Maybe optional(const Tensor& x) {
  return x.defined() ? Maybe(x) : std::nullopt;
}

void check(const Tensor& u, const Tensor& past, const Maybe& ahead, const Tensor& skip) {
  TORCH_CHECK(u.dim() == 3 && past.dim() == 2 && past.size(0) == u.size(1) &&
                  past.size(1) == u.size(2) && (!ahead || ahead->sizes() == past.sizes()),
              "long_convolution: u is ", u.sizes(), " but past is ", past.sizes(), " and ahead ",
              ahead ? ahead->sizes() : at::IntArrayRef());
  TORCH_CHECK(skip.dim() == 1 && skip.size(0) == u.size(2), "long_convolution: u is ", u.sizes(),
              " but skip is ", skip.sizes());
}

Tensor by_aten(const Tensor& u, const Tensor& past, const Maybe& ahead, const Tensor& skip) {
  check(u, past, ahead, skip);
  return long_convolution_formula(u, past, ahead.value_or(Tensor()), skip);
}
Tensor on_meta(const Tensor& u, const Tensor& past, const Maybe& ahead, const Tensor& skip) {
  check(u, past, ahead, skip);
  return at::empty_like(u, {}, at::MemoryFormat::Contiguous);
}
// The third one is empty where there is none.
Four backward_on_meta(const Tensor&, const Tensor& u, const Tensor& past, const Maybe& ahead,
                      const Tensor& skip) {
  return {at::empty_like(u, {}, at::MemoryFormat::Contiguous), at::empty_like(past),
          ahead ? at::empty_like(*ahead) : at::empty({0}, past.options()), at::empty_like(skip)};
}

Tensor call(const Tensor& u, const Tensor& past, const Maybe& ahead, const Tensor& skip) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::long_convolution", "")
                             .typed<decltype(by_aten)>();
  return op.call(u, past, ahead, skip);
}
Four call_backward(const Tensor& dy, const Tensor& u, const Tensor& past, const Maybe& ahead,
                   const Tensor& skip) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::long_convolution_backward", "")
                             .typed<decltype(backward_on_meta)>();
  return op.call(dy, u, past, ahead, skip);
}

// That of the kernels.
struct Gradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call(inputs[0], inputs[1], optional(inputs[2]), inputs[3])};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "long_convolution has no second derivative here");
    const auto kept = saved();
    const auto [du, dpast, dahead, dskip] =
        call_backward(gradients[0], kept[0], kept[1], optional(kept[2]), kept[3]);
    return {du, dpast, kept[2].defined() ? dahead : Tensor(), dskip};
  }
};

// The formula is recorded as it is.
Tensor with_gradient(const Tensor& u, const Tensor& past, const Maybe& ahead, const Tensor& skip) {
  check(u, past, ahead, skip);
  if (!has_long_kernel(u)) return by_aten(u, past, ahead, skip);
  if (wants_gradient(u, past, ahead.value_or(Tensor()), skip))
    return applied<Gradient>({u, past, ahead.value_or(Tensor()), skip})[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(u, past, ahead, skip);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("long_convolution(Tensor u, Tensor past, Tensor? ahead, Tensor skip) -> Tensor");
  m.def(
      "long_convolution_backward(Tensor dy, Tensor u, Tensor past, Tensor? ahead, Tensor skip) -> "
      "(Tensor du, Tensor dpast, Tensor dahead, Tensor dskip)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("long_convolution", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("long_convolution", on_meta);
  m.impl("long_convolution_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("long_convolution", with_gradient);
}

}  // namespace

Tensor long_convolution(const Tensor& u, const Tensor& past, const Tensor& ahead,
                        const Tensor& skip) {
  return call(u, past, optional(ahead), skip);
}

bool has_long_kernel(const Tensor& u) {
  constexpr int64_t kMostBlocks = 65535, kMostTokens = 16384;
  return u.is_cuda() && u.scalar_type() == at::kBFloat16 && u.dim() == 3 && u.numel() > 0 &&
         u.size(2) % 8 == 0 && u.size(0) <= kMostBlocks && u.size(1) <= kMostTokens;
}

Tensor long_convolution_formula(const Tensor& u, const Tensor& past, const Tensor& ahead,
                                const Tensor& skip) {
  const auto wide = u.to(at::kDouble);
  return (fft_convolution(wide, past, ahead) + skip * wide).to(u.scalar_type());
}

}  // namespace longbow
