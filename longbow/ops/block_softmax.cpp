#include "longbow/ops/block_softmax.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/ops/block_softmax_formula.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/packed_rule.h"
#include "longbow/ops/tile_attention.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Maybe = std::optional<Tensor>;

bool has_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const BlockRule& rule) {
  return has_tile_kernel(q, k, v) && rule.visibility.memory.tokens == 0;
}

Two on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& bias,
           const OptionalTensors& rule, at::IntArrayRef numbers, at::ArrayRef<double> factors) {
  const auto whole = unpacked(rule, numbers, factors);
  const auto added = bias.value_or(Tensor());
  return has_kernel(q, k, v, whole) ? tile_attention(q, k, v, added, whole, TileWeights::softmax)
                                    : block_softmax_formula(q, k, v, added, whole);
}

Four backward_on_cpu(const Tensor& dout, const Tensor& dlog_sum, const Tensor& q, const Tensor& k,
                     const Tensor& v, const Maybe& bias, const Tensor& out, const Tensor& log_sum,
                     bool wants_bias, const OptionalTensors& rule, at::IntArrayRef numbers,
                     at::ArrayRef<double> factors) {
  const auto whole = unpacked(rule, numbers, factors);
  const BlockSoftmaxPast past = {q,    k,        v,         bias.value_or(Tensor()), out, log_sum,
                                 dout, dlog_sum, wants_bias};
  return has_kernel(q, k, v, whole) ? tile_attention_backward(past, whole, TileWeights::softmax)
                                    : block_softmax_formula_backward(past, whole);
}

Two on_meta(const Tensor& q, const Tensor&, const Tensor& v, const Maybe&, const OptionalTensors&,
            at::IntArrayRef, at::ArrayRef<double>) {
  const auto wide = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, v.options()),
          at::empty(q.sizes().slice(0, 3), q.options().dtype(wide))};
}

Four backward_on_meta(const Tensor&, const Tensor&, const Tensor& q, const Tensor& k,
                      const Tensor& v, const Maybe& bias, const Tensor&, const Tensor&,
                      bool wants_bias, const OptionalTensors&, at::IntArrayRef,
                      at::ArrayRef<double>) {
  return {at::empty_like(q), at::empty_like(k), at::empty_like(v),
          wants_bias ? at::empty_like(*bias) : Tensor()};
}

Two call(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& bias,
         const OptionalTensors& rule, at::IntArrayRef numbers, at::ArrayRef<double> factors) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::block_softmax", "")
                             .typed<decltype(on_cpu)>();
  return op.call(q, k, v, bias, rule, numbers, factors);
}

Four call_backward(const Tensor& dout, const Tensor& dlog_sum, const Tensor& q, const Tensor& k,
                   const Tensor& v, const Maybe& bias, const Tensor& out, const Tensor& log_sum,
                   bool wants_bias, const OptionalTensors& rule, at::IntArrayRef numbers,
                   at::ArrayRef<double> factors) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::block_softmax_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(dout, dlog_sum, q, k, v, bias, out, log_sum, wants_bias, rule, numbers, factors);
}

struct Gradient : Differentiable {
  explicit Gradient(PackedRule given) : rule(std::move(given)) {}
  PackedRule rule;  // its tensors until the forward pass has them

  TensorVector forward(const TensorVector& inputs) override {
    const auto &q = inputs[0], &k = inputs[1], &v = inputs[2], &bias = inputs[3];
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, log_sum] =
        call(q, k, v, optional(bias), rule.tensors, rule.numbers, rule.factors);
    save(rule.moved_behind({q, k, v, bias, out, log_sum}));
    return {out, log_sum};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "block_softmax has no second derivative");
    const auto kept = saved();
    const auto [dq, dk, dv, dbias] = call_backward(
        gradients[0], gradients[1], kept[0], kept[1], kept[2], optional(kept[3]), kept[4], kept[5],
        wants_gradient_of(3), rule_tensors(kept, 6), rule.numbers, rule.factors);
    return {dq, dk, dv, dbias};
  }

  static Maybe optional(const Tensor& x) { return x.defined() ? Maybe(x) : std::nullopt; }
};

Two with_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& bias,
                  const OptionalTensors& rule, at::IntArrayRef numbers,
                  at::ArrayRef<double> factors) {
  const auto added = bias.value_or(Tensor());
  if (!wants_gradient(q, k, v, added)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(q, k, v, bias, rule, numbers, factors);
  }
  const auto found =
      applied<Gradient>({q, k, v, added}, PackedRule{rule, numbers.vec(), factors.vec()});
  return {found[0], found[1]};
}

Four backward_with_gradient(const Tensor& dout, const Tensor& dlog_sum, const Tensor& q,
                            const Tensor& k, const Tensor& v, const Maybe& bias, const Tensor& out,
                            const Tensor& log_sum, bool wants_bias, const OptionalTensors& rule,
                            at::IntArrayRef numbers, at::ArrayRef<double> factors) {
  TORCH_CHECK(!wants_gradient(dout, dlog_sum, q, k, v), "block_softmax has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dout, dlog_sum, q, k, v, bias, out, log_sum, wants_bias, rule, numbers,
                       factors);
}

// `rule` and `numbers` are those of ops/packed_rule.h.
TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "block_softmax(Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor?[] rule, int[] numbers, "
      "float[] factors) -> (Tensor out, Tensor log_sum)");
  m.def(
      "block_softmax_backward(Tensor dout, Tensor dlog_sum, Tensor q, Tensor k, Tensor v, "
      "Tensor? bias, Tensor out, Tensor log_sum, bool wants_bias, Tensor?[] rule, int[] numbers, "
      "float[] factors) -> (Tensor dq, Tensor dk, Tensor dv, Tensor dbias)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("block_softmax", on_cpu);
  m.impl("block_softmax_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("block_softmax", on_meta);
  m.impl("block_softmax_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("block_softmax", with_gradient);
  m.impl("block_softmax_backward", backward_with_gradient);
}

}  // namespace

BlockSoftmax block_softmax(const Tensor& q, const Tensor& k, const Tensor& v,
                           const BlockPairs& pairs, const Visibility& visibility,
                           const Tensor& bias, const DroppedWeights& dropped,
                           const Distances& distances, double scale) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(3) == k.size(3) &&
                  k.size(2) == v.size(2),
              "block_softmax: q is ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  const BlockRule whole = {pairs, visibility, dropped, distances, scale};
  check_block_rule("block_softmax", q, k, whole);
  TORCH_CHECK(
      distances.count() <= 0 || (bias.defined() && bias.dim() == 4 && bias.size(2) == q.size(2) &&
                                 bias.size(3) == distances.count()),
      "block_softmax: bias is ", bias.sizes(), " for ", q.size(2), " queries and ",
      distances.count(), " distances");
  const auto& columns = pairs.columns;
  const int64_t block = pairs.query_block, keys = columns.size(3) * pairs.key_block;
  TORCH_CHECK(!bias.defined() || distances.count() > 0 ||
                  (bias.dim() == 5 && bias.size(2) == columns.size(2) && bias.size(3) == block &&
                   bias.size(4) == keys),
              "block_softmax: bias is ", bias.sizes(), " for ", columns.size(2), " blocks of ",
              block, " queries and ", keys, " listed keys");
  if (bias.defined()) check_shared("block_softmax", "bias", bias, q);
  TORCH_CHECK(scale > 0, "block_softmax: scale is ", scale, ", not above 0");
  const auto& memory = visibility.memory;
  const bool limited = visibility.back != Visibility::kAll ||
                       visibility.ahead != Visibility::kAll || visibility.apart != 0 ||
                       visibility.query_positions.defined() || visibility.key_positions.defined() ||
                       visibility.query_groups.defined();
  TORCH_CHECK(memory.tokens == 0 || (!limited && memory.rate > 0), "block_softmax: a memory of ",
              memory.tokens, " tokens and ", memory.slots, " slots of ", memory.rate,
              " beside limits, positions or groups");
  const auto rule = packed(whole);
  const auto [out, log_sum] = call(q, k, v, bias.defined() ? Maybe(bias) : std::nullopt,
                                   rule.tensors, rule.numbers, rule.factors);
  return {out, log_sum};
}

}  // namespace longbow
