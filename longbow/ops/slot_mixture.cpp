#include "longbow/ops/slot_mixture.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>

#include "longbow/kernels/slot_mixture.h"
#include "longbow/ops/block_memory.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/philox.h"
#include "longbow/ops/slot_mixture_formula.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = MaybeTensor;
using Two = std::tuple<Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Maybe optional(const Tensor& x) {
  return x.defined() ? Maybe(x) : std::nullopt;
}
at::ScalarType sums_of(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// [B, L, H, N, R], in float32 at least.
Tensor scores_of(const Tensor& x, const Tensor& keys, const Maybe& bias) {
  const auto scores = x.unsqueeze(2).matmul(keys.transpose(-2, -1)).to(sums_of(x));
  return bias ? scores + bias->unsqueeze(3) : scores;
}

// Where weights are dropped, [B, L, H, N, R]; undefined: nowhere.
Tensor dropped_of(const Tensor& x, const Tensor& keys, const Maybe& key, int64_t site,
                  double rate) {
  if (!key) return {};
  const auto noise = philox_uniform(*key, static_cast<uint64_t>(site),
                                    {x.size(0), x.size(1), x.size(2), keys.size(2), keys.size(3)});
  return noise.lt(rate).transpose(2, 3);
}
Tensor without(const Tensor& x, const Tensor& dropped) {
  return dropped.defined() ? x.masked_fill(dropped, 0) : x;
}

Two on_meta(const Tensor& x, const Tensor& keys, const Tensor& values, const Maybe&, const Maybe&,
            int64_t, double) {
  const auto sums = x.options().dtype(sums_of(x));
  return {at::empty({x.size(0), x.size(1), x.size(2), values.size(4)}, x.options()),
          at::empty({x.size(0), x.size(1), keys.size(2), x.size(2)}, sums)};
}
Four backward_on_meta(const Tensor&, const Tensor& x, const Tensor& keys, const Tensor& values,
                      const Maybe& bias, const Tensor&, const Maybe&, int64_t, double) {
  return {at::empty_like(x), at::empty_like(keys), at::empty_like(values),
          bias ? at::empty_like(*bias) : at::empty({0}, x.options())};
}

Two call(const Tensor& x, const Tensor& keys, const Tensor& values, const Maybe& bias,
         const Maybe& key, int64_t site, double rate) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::slot_mixture", "")
                             .typed<decltype(slot_mixture_by_aten)>();
  return op.call(x, keys, values, bias, key, site, rate);
}
Four call_backward(const Tensor& dy, const Tensor& x, const Tensor& keys, const Tensor& values,
                   const Maybe& bias, const Tensor& log_sum, const Maybe& key, int64_t site,
                   double rate) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::slot_mixture_backward", "")
                             .typed<decltype(slot_mixture_backward_by_aten)>();
  return op.call(dy, x, keys, values, bias, log_sum, key, site, rate);
}

struct Gradient : Differentiable {
  Gradient(int64_t number, double share) : site(number), rate(share) {}
  const int64_t site;
  const double rate;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, log_sum] =
        call(inputs[0], inputs[1], inputs[2], optional(inputs[3]), optional(inputs[4]), site, rate);
    auto kept = inputs;
    kept.push_back(log_sum);
    save(kept);
    no_gradient_of({log_sum});
    return {y, log_sum};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "slot_mixture has no second derivative");
    const auto kept = saved();
    const auto bias = optional(kept[3]);
    const auto [dx, dkeys, dvalues, dbias] = call_backward(
        gradients[0], kept[0], kept[1], kept[2], bias, kept[5], optional(kept[4]), site, rate);
    return {dx, dkeys, dvalues, bias ? dbias : Tensor(), {}};
  }
};

Two with_gradient(const Tensor& x, const Tensor& keys, const Tensor& values, const Maybe& bias,
                  const Maybe& key, int64_t site, double rate) {
  const auto added = bias.value_or(Tensor());
  if (!wants_gradient(x, keys, values, added)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(x, keys, values, bias, key, site, rate);
  }
  const auto found =
      applied<Gradient>({x, keys, values, added, key.value_or(Tensor())}, site, rate);
  return {found[0], found[1]};
}
Four backward_with_gradient(const Tensor& dy, const Tensor& x, const Tensor& keys,
                            const Tensor& values, const Maybe& bias, const Tensor& log_sum,
                            const Maybe& key, int64_t site, double rate) {
  TORCH_CHECK(!wants_gradient(dy, x, keys, values), "slot_mixture has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dy, x, keys, values, bias, log_sum, key, site, rate);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "slot_mixture(Tensor x, Tensor keys, Tensor values, Tensor? bias, Tensor? key, int site, "
      "float rate) -> (Tensor y, Tensor log_sum)");
  m.def(
      "slot_mixture_backward(Tensor dy, Tensor x, Tensor keys, Tensor values, Tensor? bias, "
      "Tensor log_sum, Tensor? key, int site, float rate) -> (Tensor dx, Tensor dkeys, Tensor "
      "dvalues, Tensor dbias)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("slot_mixture", slot_mixture_by_aten);
  m.impl("slot_mixture_backward", slot_mixture_backward_by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("slot_mixture", on_meta);
  m.impl("slot_mixture_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("slot_mixture", with_gradient);
  m.impl("slot_mixture_backward", backward_with_gradient);
}

Maybe key_of(const Drop& drop) {
  return drop.rate > 0 ? Maybe(drop.key) : std::nullopt;
}

}  // namespace

Two slot_mixture_by_aten(const Tensor& x, const Tensor& keys, const Tensor& values,
                         const Maybe& bias, const Maybe& key, int64_t site, double rate) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto scores = scores_of(x, keys, bias);
  const auto w = without(at::_safe_softmax(scores, -1), dropped_of(x, keys, key, site, rate));
  const auto log_sum = scores.detach().logsumexp(-1);
  return {w.to(x.scalar_type()).matmul(values).sum(2),
          log_sum.masked_fill(log_sum.isneginf(), kInfinity)};
}

// With g = dy and m: dv = (m w)^T g, ds = w (m g v^T - sum_r w m g v^T), dk = ds^T x, dx = sum_h ds
// k.
Four slot_mixture_backward_by_aten(const Tensor& dy, const Tensor& x, const Tensor& keys,
                                   const Tensor& values, const Maybe& bias, const Tensor&,
                                   const Maybe& key, int64_t site, double rate) {
  const auto dropped = dropped_of(x, keys, key, site, rate);
  const auto w = at::_safe_softmax(scores_of(x, keys, bias), -1);
  const auto type = w.scalar_type();
  const auto g = dy.unsqueeze(2).to(type);
  const auto dp = without(g.matmul(values.to(type).transpose(-2, -1)), dropped);
  const auto ds = at::_softmax_backward_data(dp, w, -1, type), turned = ds.transpose(-2, -1);
  return {ds.matmul(keys.to(type)).sum(2).to(x.scalar_type()),
          turned.matmul(x.unsqueeze(2).to(type)).to(keys.scalar_type()),
          without(w, dropped).transpose(-2, -1).matmul(g).to(values.scalar_type()),
          bias ? ds.sum(3).to(bias->scalar_type()) : at::empty({0}, x.options())};
}

Tensor slot_mixture(const Tensor& x, const Tensor& keys, const Tensor& values, const Tensor& bias,
                    const Drop& drop) {
  const bool fits = x.dim() == 4 && keys.dim() == 5 && values.dim() == 5 &&
                    keys.sizes().slice(0, 2) == x.sizes().slice(0, 2) &&
                    values.sizes().slice(0, 4) == keys.sizes().slice(0, 4) &&
                    x.size(3) == keys.size(4);
  TORCH_CHECK(fits, "slot_mixture: x is ", x.sizes(), ", keys ", keys.sizes(), ", values ",
              values.sizes());
  TORCH_CHECK(!bias.defined() || bias.sizes() == keys.sizes().slice(0, 4),
              "slot_mixture: keys are ", keys.sizes(), " but bias is ", bias.sizes());
  return std::get<0>(call(x, keys, values, optional(bias), key_of(drop),
                          static_cast<int64_t>(drop.site), drop.rate));
}

Tensor slot_mixture_formula(const Tensor& x, const Tensor& keys, const Tensor& values,
                            const Tensor& bias, const Drop& drop) {
  return std::get<0>(slot_mixture_by_aten(x, keys, values, optional(bias), key_of(drop),
                                          static_cast<int64_t>(drop.site), drop.rate));
}

bool has_mixture_kernel(const Tensor& x, const Tensor& keys, const Tensor& values, bool drops) {
  const auto fits = [](const Tensor& t) {
    return t.scalar_type() == at::kFloat && t.numel() > 0 && t.size(-1) % 4 == 0;
  };
  if (!x.is_cuda() || !fits(x) || !fits(keys) || !fits(values)) return false;
  const int64_t slots = keys.size(-2);
  const int64_t memory = kernels::mixture_memory(slots, std::max(keys.size(-1), values.size(-1)));
  return memory > 0 && memory <= block_memory(x) && (!drops || slots % 4 == 0);
}

}  // namespace longbow
