#include "longbow/ops/token_taps.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

#include "longbow/kernels/token_taps.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

// The neighbours of every token, by heads: [B, H, N, L / H, K].
Tensor neighbours(const Tensor& z, const Tensor& taps, int64_t left) {
  const int64_t k = taps.size(3);
  return at::constant_pad_nd(z.to(taps.scalar_type()), {0, 0, left, k - 1 - left})
      .unflatten(2, {taps.size(1), -1})
      .unfold(1, k, 1)
      .transpose(1, 2);
}

Two backward_on_cpu(const Tensor& dout, const Tensor& z, const Tensor& taps, int64_t left) {
  const auto d = token_taps_formula_backward(dout, z, taps, left);
  return {d.z, d.taps};
}
Tensor on_meta(const Tensor& z, const Tensor& taps, int64_t) {
  return at::empty(z.sizes(), taps.options());
}
Two backward_on_meta(const Tensor&, const Tensor& z, const Tensor& taps, int64_t) {
  return {at::empty_like(z), at::empty_like(taps)};
}

Tensor call(const Tensor& z, const Tensor& taps, int64_t left) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::token_taps", "")
                             .typed<decltype(on_meta)>();
  return op.call(z, taps, left);
}
Two call_backward(const Tensor& dout, const Tensor& z, const Tensor& taps, int64_t left) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::token_taps_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(dout, z, taps, left);
}

struct Gradient : Differentiable {
  explicit Gradient(int64_t before) : left(before) {}
  const int64_t left;

  TensorVector forward(const TensorVector& inputs) override {
    save(inputs);
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(inputs[0], inputs[1], left)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "token_taps has no second derivative");
    const auto kept = saved();
    const auto [dz, dtaps] = call_backward(gradients[0], kept[0], kept[1], left);
    return {dz, dtaps};
  }
};

Tensor with_gradient(const Tensor& z, const Tensor& taps, int64_t left) {
  if (!wants_gradient(z, taps)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(z, taps, left);
  }
  return applied<Gradient>({z, taps}, left)[0];
}
Two backward_with_gradient(const Tensor& dout, const Tensor& z, const Tensor& taps, int64_t left) {
  TORCH_CHECK(!wants_gradient(dout, z, taps), "token_taps has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dout, z, taps, left);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("token_taps(Tensor z, Tensor taps, int left) -> Tensor");
  m.def(
      "token_taps_backward(Tensor dout, Tensor z, Tensor taps, int left) -> (Tensor dz, Tensor "
      "dtaps)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("token_taps", token_taps_formula);
  m.impl("token_taps_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("token_taps", on_meta);
  m.impl("token_taps_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("token_taps", with_gradient);
  m.impl("token_taps_backward", backward_with_gradient);
}

}  // namespace

Tensor token_taps(const Tensor& z, const Tensor& taps, int64_t left) {
  TORCH_CHECK(z.dim() == 3 && taps.dim() == 4 && taps.size(0) == z.size(0) &&
                  taps.size(2) == z.size(1) && taps.size(1) > 0 && z.size(2) % taps.size(1) == 0,
              "token_taps: z is ", z.sizes(), ", the taps ", taps.sizes());
  TORCH_CHECK(left >= 0 && left < taps.size(3), "token_taps: left is ", left, " of ", taps.size(3),
              " taps");
  return call(z, taps, left);
}

Tensor token_taps_formula(const Tensor& z, const Tensor& taps, int64_t left) {
  return neighbours(z, taps, left)
      .matmul(taps.unsqueeze(-1))
      .squeeze(-1)
      .transpose(1, 2)
      .flatten(2);
}

// With g = dout: da_tj = g_t . z_{t + j - left}, and dz are the sums of a_tj g_t by where they
// fall, which is the same sum with the taps of tap j moved by j - left tokens and turned round.
TapGradients token_taps_formula_backward(const Tensor& dout, const Tensor& z, const Tensor& taps,
                                         int64_t left) {
  const int64_t n = z.size(1), k = taps.size(3);
  const auto g = dout.unflatten(2, {taps.size(1), -1}).transpose(1, 2).unsqueeze(-2);
  const auto dtaps = g.matmul(neighbours(z, taps, left)).squeeze(-2);
  const auto around = at::constant_pad_nd(taps, {0, 0, k - 1 - left, left});
  std::vector<Tensor> turned;
  for (int64_t j = k - 1; j >= 0; --j)
    turned.push_back(around.select(3, j).narrow(2, k - 1 - j, n));
  const auto dz = token_taps_formula(dout, at::stack(turned, -1), k - 1 - left);
  return {dz.to(z.scalar_type()), dtaps};
}

bool has_token_taps_kernel(const Tensor& z, const Tensor& taps) {
  const auto type = z.scalar_type();
  return z.is_cuda() && (type == at::kBFloat16 || type == at::kHalf || type == at::kFloat) &&
         taps.scalar_type() == at::kFloat && z.dim() == 3 && taps.dim() == 4 &&
         taps.size(0) == z.size(0) && z.numel() > 0 && taps.numel() > 0 &&
         kernels::token_taps_fit(z.size(2), taps.size(1));
}

}  // namespace longbow
