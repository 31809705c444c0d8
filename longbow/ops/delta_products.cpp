#include "longbow/ops/delta_products.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

#include "longbow/ops/delta_product.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Reads = std::tuple<Tensor, Tensor, std::vector<Tensor>>;
using Eight = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Maybe maybe(const Tensor& x) {
  return x.defined() ? Maybe(x) : Maybe();
}

// What is read forth and back, and what a device keeps of both for the way back.
Reads by_product(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& other_q,
                 const Tensor& other_k, const Tensor& other_v, const Tensor& beta,
                 const Maybe& log_decay, double scale) {
  Tensor sums, others;
  const auto decay = log_decay.value_or(Tensor());
  return {delta_product(q, k, v, beta, decay, {.scale = scale}, sums),
          delta_product(other_q, other_k, other_v, beta, decay, {.scale = scale, .reversed = true},
                        others),
          {}};
}

Reads on_meta(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& other_q,
              const Tensor& other_k, const Tensor& other_v, const Tensor& beta,
              const Maybe& log_decay, double) {
  const auto decay = log_decay.value_or(Tensor());
  check_delta_product(q, k, v, beta, decay);
  check_delta_product(other_q, other_k, other_v, beta, decay);
  return {at::empty_like(v), at::empty_like(other_v), {}};
}
Eight backward_on_meta(const Tensor&, const Tensor&, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor& other_q, const Tensor& other_k,
                       const Tensor& other_v, const Tensor& beta, const Maybe& log_decay,
                       at::TensorList, double) {
  return {at::empty_like(q),       at::empty_like(k),
          at::empty_like(v),       at::empty_like(other_q),
          at::empty_like(other_k), at::empty_like(other_v),
          at::empty_like(beta),    log_decay ? at::empty_like(*log_decay) : Tensor()};
}

Reads call(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& other_q,
           const Tensor& other_k, const Tensor& other_v, const Tensor& beta, const Maybe& log_decay,
           double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::delta_products", "")
                             .typed<decltype(by_product)>();
  return op.call(q, k, v, other_q, other_k, other_v, beta, log_decay, scale);
}

// That of the kernels.
struct Gradient : Differentiable {
  explicit Gradient(double factor) : scale(factor) {}
  static constexpr size_t kInputs = 8;
  const double scale;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [forth, back, own] = call(inputs[0], inputs[1], inputs[2], inputs[3], inputs[4],
                                         inputs[5], inputs[6], maybe(inputs[7]), scale);
    auto kept = inputs;
    kept.insert(kept.end(), own.begin(), own.end());
    save(kept);
    return {forth, back};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "delta_products has no second derivative here");
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("longbow::delta_products_backward", "")
                               .typed<decltype(backward_on_meta)>();
    const auto k = saved();
    const auto [dq, dk, dv, dother_q, dother_k, dother_v, dbeta, dlog_decay] =
        op.call(gradients[0], gradients[1], k[0], k[1], k[2], k[3], k[4], k[5], k[6], maybe(k[7]),
                at::TensorList(k).slice(kInputs), scale);
    return {dq, dk, dv, dother_q, dother_k, dother_v, dbeta, dlog_decay};
  }
};

// What has no kernels is recorded as two products.
Reads with_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& other_q,
                    const Tensor& other_k, const Tensor& other_v, const Tensor& beta,
                    const Maybe& log_decay, double scale) {
  const auto decay = log_decay.value_or(Tensor());
  if (!has_delta_kernels({q, k, v}, {other_q, other_k, other_v}, beta, decay))
    return by_product(q, k, v, other_q, other_k, other_v, beta, log_decay, scale);
  if (!wants_gradient(q, k, v, other_q, other_k, other_v, beta, decay)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(q, k, v, other_q, other_k, other_v, beta, log_decay, scale);
  }
  const auto found = applied<Gradient>({q, k, v, other_q, other_k, other_v, beta, decay}, scale);
  return {found[0], found[1], {}};
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "delta_products(Tensor q, Tensor k, Tensor v, Tensor other_q, Tensor other_k, "
      "Tensor other_v, Tensor beta, Tensor? log_decay, float scale) -> "
      "(Tensor forth, Tensor back, Tensor[] kept)");
  m.def(
      "delta_products_backward(Tensor dforth, Tensor dback, Tensor q, Tensor k, Tensor v, "
      "Tensor other_q, Tensor other_k, Tensor other_v, Tensor beta, Tensor? log_decay, "
      "Tensor[] kept, float scale) -> "
      "(Tensor dq, Tensor dk, Tensor dv, Tensor dother_q, Tensor dother_k, Tensor dother_v, "
      "Tensor dbeta, Tensor dlog_decay)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("delta_products", by_product);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("delta_products", on_meta);
  m.impl("delta_products_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("delta_products", with_gradient);
}

}  // namespace

DeltaReads delta_products(const DeltaRows& forth, const DeltaRows& back, const Tensor& beta,
                          const Tensor& log_decay, double scale) {
  const auto found =
      call(forth.q, forth.k, forth.v, back.q, back.k, back.v, beta, maybe(log_decay), scale);
  return {std::get<0>(found), std::get<1>(found)};
}

bool has_delta_kernels(const DeltaRows& forth, const DeltaRows& back, const Tensor& beta,
                       const Tensor& log_decay) {
  return forth.q.sizes() == back.q.sizes() && forth.v.sizes() == back.v.sizes() &&
         has_delta_kernel(forth.q, forth.k, forth.v, beta, log_decay) &&
         has_delta_kernel(back.q, back.k, back.v, beta, log_decay);
}

}  // namespace longbow
