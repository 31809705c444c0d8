#include "longbow/ops/running_mean.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>

#include "longbow/ops/decayed_product_formula.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/running_mean_formula.h"

namespace longbow {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using ThreeGradients = std::tuple<Tensor, Tensor, Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNothing = -1e30, kSmallest = 1e-30;  // a largest key and a sum of no keys

void check(const Tensor& gate, const Tensor& k, const Tensor& v, const Optional& keep) {
  TORCH_CHECK(v.dim() == 3 && gate.sizes() == v.sizes() && k.sizes() == v.sizes() &&
                  gate.scalar_type() == v.scalar_type() && k.scalar_type() == v.scalar_type(),
              "running_mean: gate is ", gate.sizes(), " ", gate.scalar_type(), ", k ", k.sizes(),
              " ", k.scalar_type(), ", v ", v.sizes(), " ", v.scalar_type());
  TORCH_CHECK(!keep || (keep->scalar_type() == at::kBool && keep->dim() == 2 &&
                        keep->size(0) == v.size(0) && keep->size(1) == v.size(1)),
              "running_mean: v is ", v.sizes(), " but keep is ", keep->sizes());
}

// [B, N, C] as heads of one channel, [B, C, N, 1], in float32 at least; and back.
Tensor by_channel(const Tensor& x) {
  return x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat)
      .transpose(1, 2)
      .unsqueeze(-1);
}
Tensor by_token(const Tensor& x, const Tensor& like) {
  return x.squeeze(-1).transpose(1, 2).to(like.scalar_type());
}

// What fades from each token to the next, 0 at the first or, `at_end`, the last one.
Tensor fading_of(const Tensor& rising, bool at_end) {
  const auto between =
      at::constant_pad_nd(-rising.diff(1, 2), {0, 0, at_end ? 0 : 1, at_end ? 1 : 0});
  return between.narrow(2, 0, rising.size(2));  // none of no tokens
}

// What both passes need; all is [B, C, N, 1].
struct Parts {
  Tensor k, v, mean, seen, log_sum;

  Parts(const Tensor& given_k, const Tensor& given_v, const Optional& keep)
      : k(by_channel(given_k)), v(by_channel(given_v)) {
    if (keep) k = k.masked_fill(keep->logical_not().unsqueeze(1).unsqueeze(-1), -kInfinity);
    const auto most = std::get<0>(k.detach().clamp_min(kNothing).cummax(2));
    Tensor none;
    const auto sums = decayed_product_formula(at::ones_like(v), (k - most).exp(),
                                              at::cat({v, at::ones_like(v)}, -1),
                                              fading_of(most, /*at_end=*/false), {}, none);
    const auto weights = sums.narrow(-1, 1, 1);
    seen = weights > 0;
    mean = sums.narrow(-1, 0, 1) / weights.clamp_min(kSmallest);
    log_sum = (most + weights.clamp_min(kSmallest).log()).masked_fill(seen.logical_not(), kNothing);
  }
};

Two on_meta(const Tensor&, const Tensor&, const Tensor& v, const Optional&) {
  return {at::empty_like(v), at::empty({0}, v.options())};
}
ThreeGradients backward_on_meta(const Tensor&, const Tensor& gate, const Tensor& k, const Tensor& v,
                                const Optional&, const Tensor&) {
  return {at::empty_like(gate), at::empty_like(k), at::empty_like(v)};
}

Two call(const Tensor& gate, const Tensor& k, const Tensor& v, const Optional& keep) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::running_mean", "")
                             .typed<decltype(running_mean_formula)>();
  return op.call(gate, k, v, keep);
}
ThreeGradients call_backward(const Tensor& gradient, const Tensor& gate, const Tensor& k,
                             const Tensor& v, const Optional& keep, const Tensor& sums) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::running_mean_backward", "")
                             .typed<decltype(running_mean_backward_formula)>();
  return op.call(gradient, gate, k, v, keep, sums);
}

struct Gradient : Differentiable {
  explicit Gradient(const Optional& kept) : keep(kept) {}
  Optional keep;  // until the forward pass has it

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, sums] = call(inputs[0], inputs[1], inputs[2], keep);
    save({inputs[0], inputs[1], inputs[2], sums, keep.value_or(Tensor())});
    keep.reset();
    no_gradient_of({sums});
    return {out, sums};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    const auto real = kept[4].defined() ? Optional(kept[4]) : Optional();
    const auto [dgate, dk, dv] =
        call_backward(gradients[0], kept[0], kept[1], kept[2], real, kept[3]);
    return {dgate, dk, dv};
  }
};

Two with_gradient(const Tensor& gate, const Tensor& k, const Tensor& v, const Optional& keep) {
  check(gate, k, v, keep);
  if (wants_gradient(gate, k, v)) {
    const auto results = applied<Gradient>({gate, k, v}, keep);
    return {results[0], results[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(gate, k, v, keep);
}
ThreeGradients backward_with_gradient(const Tensor& gradient, const Tensor& gate, const Tensor& k,
                                      const Tensor& v, const Optional& keep, const Tensor& sums) {
  if (wants_gradient(gradient, gate, k, v))
    return running_mean_backward_formula(gradient, gate, k, v, keep, sums);
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(gradient, gate, k, v, keep, sums);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("running_mean(Tensor gate, Tensor k, Tensor v, Tensor? keep) -> (Tensor out, Tensor sums)");
  m.def(
      "running_mean_backward(Tensor gradient, Tensor gate, Tensor k, Tensor v, Tensor? keep, "
      "Tensor sums) -> (Tensor dgate, Tensor dk, Tensor dv)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("running_mean", running_mean_formula);
  m.impl("running_mean_backward", running_mean_backward_formula);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("running_mean", on_meta);
  m.impl("running_mean_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("running_mean", with_gradient);
  m.impl("running_mean_backward", backward_with_gradient);
}

}  // namespace

Two running_mean_formula(const Tensor& gate, const Tensor& k, const Tensor& v,
                         const Optional& keep) {
  const Parts parts(k, v, keep);
  return {by_token(by_channel(gate).sigmoid() * parts.mean, v), at::empty({0}, v.options())};
}

// With l the logarithm of the sum of weights and g = dout sigmoid(gate): S_j = sum_{t >= j} e^{l_j
// - l_t} g_t, R_j that of g_t mean_t; dv_j = e^{k_j - l_j} S_j, dk_j = e^{k_j - l_j} (v_j S_j -
// R_j).
ThreeGradients running_mean_backward_formula(const Tensor& gradient, const Tensor& gate,
                                             const Tensor& k, const Tensor& v, const Optional& keep,
                                             const Tensor&) {
  const Parts parts(k, v, keep);
  const auto open = by_channel(gate).sigmoid(), g = by_channel(gradient) * open;
  const auto slopes = g.masked_fill(parts.seen.logical_not(), 0);
  const auto ones = at::ones_like(slopes);
  Tensor none;
  const auto sums =
      decayed_product_formula(ones, ones, at::cat({slopes, slopes * parts.mean}, -1),
                              fading_of(parts.log_sum, /*at_end=*/true), {.reversed = true}, none);
  const auto weights = (parts.k - parts.log_sum).exp();
  const auto dv = weights * sums.narrow(-1, 0, 1);
  const auto dk = parts.v * dv - weights * sums.narrow(-1, 1, 1);
  return {by_token(g * (1 - open) * parts.mean, gate), by_token(dk, k), by_token(dv, v)};
}

Tensor running_mean(const Tensor& gate, const Tensor& k, const Tensor& v, const Tensor& keep) {
  return std::get<0>(call(gate, k, v, keep.defined() ? Optional(keep) : std::nullopt));
}

bool has_running_kernel(const Tensor& v) {
  constexpr int64_t kMost = 65535;  // blocks of a launch in all directions but one
  const bool half = v.scalar_type() == at::kBFloat16 || v.scalar_type() == at::kHalf;
  return v.is_cuda() && half && v.dim() == 3 && v.numel() > 0 && v.size(2) % 2 == 0 &&
         v.size(0) <= kMost && v.size(1) <= 64 * kMost;
}

}  // namespace longbow
