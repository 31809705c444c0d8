#include "longbow/ops/delta_product.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/delta_product.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Six = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Maybe maybe(const Tensor& x) {
  return x.defined() ? Maybe(x) : Maybe();
}

// out, the sums after the last token and, in a form of the device's own, what is written and the
// sums before each chunk.
Four by_aten(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
             const Maybe& log_decay, const Maybe& sums, bool reversed, double scale) {
  auto after = sums.value_or(Tensor());
  const auto out = delta_product_formula(q, k, v, beta, log_decay.value_or(Tensor()),
                                         {.scale = scale, .reversed = reversed}, after);
  return {out, after, at::empty({0}, v.options()), at::empty({0}, v.options())};
}

Four on_meta(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
             const Maybe& log_decay, const Maybe& sums, bool, double) {
  check_delta_product(q, k, v, beta, log_decay.value_or(Tensor()));
  auto sizes = v.sizes().vec();
  sizes[sizes.size() - 2] = q.size(-1);
  return {at::empty_like(v), sums ? at::empty_like(*sums) : at::empty(sizes, beta.options()),
          at::empty({0}, v.options()), at::empty({0}, v.options())};
}
Six backward_on_meta(const Tensor&, const Tensor& dsums, const Tensor& q, const Tensor& k,
                     const Tensor& v, const Tensor& beta, const Maybe& log_decay, const Tensor&,
                     const Tensor&, bool, double) {
  return {at::empty_like(q),
          at::empty_like(k),
          at::empty_like(v),
          at::empty_like(beta),
          log_decay ? at::empty_like(*log_decay) : Tensor(),
          at::empty_like(dsums)};
}

Four call(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
          const Maybe& log_decay, const Maybe& sums, bool reversed, double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::delta_product", "")
                             .typed<decltype(by_aten)>();
  return op.call(q, k, v, beta, log_decay, sums, reversed, scale);
}
Six call_backward(const Tensor& dout, const Tensor& dsums, const Tensor& q, const Tensor& k,
                  const Tensor& v, const Tensor& beta, const Maybe& log_decay,
                  const Tensor& written, const Tensor& before, bool reversed, double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::delta_product_backward", "")
                             .typed<decltype(backward_on_meta)>();
  return op.call(dout, dsums, q, k, v, beta, log_decay, written, before, reversed, scale);
}

// That of the kernels.
struct Gradient : Differentiable {
  Gradient(bool from_behind, double factor) : reversed(from_behind), scale(factor) {}
  const bool reversed;
  const double scale;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto &q = inputs[0], &k = inputs[1], &v = inputs[2], &beta = inputs[3],
               &log_decay = inputs[4];
    const auto [out, after, written, before] =
        call(q, k, v, beta, maybe(log_decay), maybe(inputs[5]), reversed, scale);
    save({q, k, v, beta, log_decay, written, before});
    no_gradient_of({written, before});
    return {out, after, written, before};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "delta_product has no second derivative here");
    const auto kept = saved();
    const auto [dq, dk, dv, dbeta, dlog_decay, dsums] =
        call_backward(gradients[0], gradients[1], kept[0], kept[1], kept[2], kept[3],
                      maybe(kept[4]), kept[5], kept[6], reversed, scale);
    return {dq, dk, dv, dbeta, dlog_decay, dsums};
  }
};

// The formula is recorded as it is.
Four with_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
                   const Maybe& log_decay, const Maybe& sums, bool reversed, double scale) {
  const auto decay = log_decay.value_or(Tensor()), before = sums.value_or(Tensor());
  if (!has_delta_kernel(q, k, v, beta, decay))
    return by_aten(q, k, v, beta, log_decay, sums, reversed, scale);
  if (!wants_gradient(q, k, v, beta, decay, before)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(q, k, v, beta, log_decay, sums, reversed, scale);
  }
  const auto found = applied<Gradient>({q, k, v, beta, decay, before}, reversed, scale);
  return {found[0], found[1], found[2], found[3]};
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "delta_product(Tensor q, Tensor k, Tensor v, Tensor beta, Tensor? log_decay, Tensor? sums, "
      "bool reversed, float scale) -> (Tensor out, Tensor sums, Tensor written, Tensor before)");
  m.def(
      "delta_product_backward(Tensor dout, Tensor dsums, Tensor q, Tensor k, Tensor v, Tensor "
      "beta, "
      "Tensor? log_decay, Tensor written, Tensor before, bool reversed, float scale) -> "
      "(Tensor dq, Tensor dk, Tensor dv, Tensor dbeta, Tensor dlog_decay, Tensor dsums)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("delta_product", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("delta_product", on_meta);
  m.impl("delta_product_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("delta_product", with_gradient);
}

}  // namespace

Tensor delta_product(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
                     const Tensor& log_decay, const DeltaProduct& how, Tensor& sums) {
  const auto found = call(q, k, v, beta, maybe(log_decay), maybe(sums), how.reversed, how.scale);
  sums = std::get<1>(found);
  return std::get<0>(found);
}

bool has_delta_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
                      const Tensor& log_decay) {
  for (const auto& t : {q, k, v})
    if (!t.is_cuda() || t.scalar_type() != at::kBFloat16 || t.dim() != 4 || t.numel() == 0 ||
        t.size(3) % 8 != 0 || t.size(3) > kernels::kDeltaWidth)
      return false;
  const auto tokens = q.sizes().slice(0, 3);
  for (const auto& t : {beta, log_decay})
    if (t.defined() && (t.scalar_type() != at::kFloat || t.dim() != 4 ||
                        t.sizes().slice(0, 3) != tokens || t.size(3) != 1))
      return false;
  constexpr int64_t kMostHeads = 65535;  // of all sequences
  // The keys of a chunk, 64 of them, are no longer independent in few channels: the system that
  // they set up then loses more digits than bfloat16 can.
  constexpr int64_t kLeastKeys = 24;
  return q.size(3) >= kLeastKeys && q.sizes() == k.sizes() && v.sizes().slice(0, 3) == tokens &&
         q.size(0) * q.size(1) <= kMostHeads;
}

}  // namespace longbow
