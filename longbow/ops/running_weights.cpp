#include "longbow/ops/running_weights.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <utility>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/running_weights_formula.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;

Tensor widened(const Tensor& x) {
  return x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

// Zeros in the rows of tokens that are not kept, whatever they hold.
Tensor hidden(const Tensor& x, const Maybe& keep) {
  return keep ? x.masked_fill(keep->logical_not().unsqueeze(-1), 0) : x;
}

Two on_meta(const Tensor& logits, const Maybe&, double) {
  return {at::empty_like(logits), at::empty_like(logits)};
}
Tensor backward_on_meta(const Tensor&, const Tensor&, const Tensor&, const Tensor& logits,
                        const Maybe&, double) {
  return at::empty_like(logits);
}

Two call(const Tensor& logits, const Maybe& keep, double clip) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::running_weights", "")
                             .typed<decltype(running_weights_formula)>();
  return op.call(logits, keep, clip);
}
Tensor call_backward(const Tensor& dweights, const Tensor& dagain, const Tensor& dsums,
                     const Tensor& logits, const Maybe& keep, double clip) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::running_weights_backward", "")
                             .typed<decltype(running_weights_backward_formula)>();
  return op.call(dweights, dagain, dsums, logits, keep, clip);
}

struct Gradient : Differentiable {
  Gradient(const Maybe& kept, double most) : keep(kept), clip(most) {}
  Maybe keep;  // until the forward pass has it
  const double clip;

  TensorVector forward(const TensorVector& inputs) override {
    save({inputs[0], keep.value_or(Tensor())});
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [weights, sums] = call(inputs[0], std::exchange(keep, {}), clip);
    return {weights, weights.alias(), sums};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    const auto real = kept[1].defined() ? Maybe(kept[1]) : Maybe();
    return {call_backward(gradients[0], gradients[1], gradients[2], kept[0], real, clip)};
  }
};

Two with_gradient(const Tensor& logits, const Maybe& keep, double clip) {
  if (wants_gradient(logits)) {
    const auto found = applied<Gradient>({logits}, keep, clip);
    return {found[0], found[2]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(logits, keep, clip);
}
Tensor backward_with_gradient(const Tensor& dweights, const Tensor& dagain, const Tensor& dsums,
                              const Tensor& logits, const Maybe& keep, double clip) {
  if (wants_gradient(dweights, dagain, dsums, logits))
    return running_weights_backward_formula(dweights, dagain, dsums, logits, keep, clip);
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dweights, dagain, dsums, logits, keep, clip);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "running_weights(Tensor logits, Tensor? keep, float clip) -> (Tensor weights, Tensor sums)");
  m.def(
      "running_weights_backward(Tensor dweights, Tensor dagain, Tensor dsums, Tensor logits, "
      "Tensor? keep, float clip) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("running_weights", running_weights_formula);
  m.impl("running_weights_backward", running_weights_backward_formula);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("running_weights", on_meta);
  m.impl("running_weights_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("running_weights", with_gradient);
  m.impl("running_weights_backward", backward_with_gradient);
}

}  // namespace

Two running_weights_formula(const Tensor& logits, const Maybe& keep, double clip) {
  const auto weights =
      hidden(widened(logits).clamp(-clip, clip).exp(), keep).to(logits.scalar_type());
  return {weights, widened(weights).cumsum(1).to(logits.scalar_type())};
}

Tensor running_weights_backward_formula(const Tensor& dweights, const Tensor& dagain,
                                        const Tensor& dsums, const Tensor& logits,
                                        const Maybe& keep, double clip) {
  const auto a = widened(logits);
  const auto later = widened(dsums).flip(1).cumsum(1).flip(1);
  const auto all = widened(dweights) + widened(dagain) + later;
  const auto slopes = (all * a.clamp(-clip, clip).exp()).masked_fill(a.abs() > clip, 0);
  return hidden(slopes, keep).to(logits.scalar_type());
}

RunningWeights running_weights(const Tensor& logits, const Tensor& keep, double clip) {
  TORCH_CHECK(logits.dim() == 3 && logits.is_floating_point(), "running_weights: logits are ",
              logits.sizes(), " ", logits.scalar_type());
  TORCH_CHECK(!keep.defined() ||
                  (keep.scalar_type() == at::kBool && keep.sizes() == logits.sizes().slice(0, 2)),
              "running_weights: logits are ", logits.sizes(), " but keep is ", keep.sizes());
  const auto kept = keep.defined() ? Maybe(keep) : Maybe();
  if (wants_gradient(logits)) {
    const auto found = applied<Gradient>({logits}, kept, clip);
    return {found[0], found[1], found[2]};
  }
  const auto [weights, sums] = call(logits, kept, clip);
  return {weights, weights, sums};
}

bool has_running_weights_kernel(const Tensor& logits) {
  constexpr int64_t kMostSequences = 65535;
  return logits.is_cuda() && logits.scalar_type() == at::kBFloat16 && logits.dim() == 3 &&
         logits.numel() > 0 && logits.size(2) % 2 == 0 && logits.size(0) <= kMostSequences;
}

}  // namespace longbow
