#include "longbow/ops/chunk_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <limits>

#include "longbow/kernels/chunk_weights.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor on_meta(const Tensor& q, const Tensor&, const Tensor&, int64_t tokens, double, bool) {
  return at::empty({q.size(0), q.size(1) / tokens, tokens, tokens}, q.options());
}
Three backward_on_meta(const Tensor&, const Tensor&, const Tensor& q, const Tensor& k,
                       const Tensor& bias, int64_t, double, bool) {
  return {at::empty_like(q), at::empty_like(k), at::empty_like(bias)};
}

Tensor call(const Tensor& q, const Tensor& k, const Tensor& bias, int64_t tokens, double scale,
            bool causal) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::chunk_weights", "")
                             .typed<decltype(chunk_weights_formula)>();
  return op.call(q, k, bias, tokens, scale, causal);
}
Three call_backward(const Tensor& dweights, const Tensor& weights, const Tensor& q, const Tensor& k,
                    const Tensor& bias, int64_t tokens, double scale, bool causal) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::chunk_weights_backward", "")
                             .typed<decltype(chunk_weights_formula_backward)>();
  return op.call(dweights, weights, q, k, bias, tokens, scale, causal);
}

struct Gradient : Differentiable {
  Gradient(int64_t length, double factor, bool masked)
      : tokens(length), scale(factor), causal(masked) {}
  const int64_t tokens;
  const double scale;
  const bool causal;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto weights = call(inputs[0], inputs[1], inputs[2], tokens, scale, causal);
    save({weights, inputs[0], inputs[1], inputs[2]});
    return {weights};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "chunk_weights has no second derivative");
    const auto kept = saved();
    const auto [dq, dk, dbias] =
        call_backward(gradients[0], kept[0], kept[1], kept[2], kept[3], tokens, scale, causal);
    return {dq, dk, dbias};
  }
};

Tensor with_gradient(const Tensor& q, const Tensor& k, const Tensor& bias, int64_t tokens,
                     double scale, bool causal) {
  if (wants_gradient(q, k, bias)) return applied<Gradient>({q, k, bias}, tokens, scale, causal)[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(q, k, bias, tokens, scale, causal);
}
Three backward_with_gradient(const Tensor& dweights, const Tensor& weights, const Tensor& q,
                             const Tensor& k, const Tensor& bias, int64_t tokens, double scale,
                             bool causal) {
  TORCH_CHECK(!wants_gradient(dweights, weights, q, k, bias),
              "chunk_weights has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dweights, weights, q, k, bias, tokens, scale, causal);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "chunk_weights(Tensor q, Tensor k, Tensor bias, int tokens, float scale, bool causal) -> "
      "Tensor");
  m.def(
      "chunk_weights_backward(Tensor dweights, Tensor weights, Tensor q, Tensor k, Tensor bias, "
      "int tokens, float scale, bool causal) -> (Tensor dq, Tensor dk, Tensor dbias)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("chunk_weights", chunk_weights_formula);
  m.impl("chunk_weights_backward", chunk_weights_formula_backward);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("chunk_weights", on_meta);
  m.impl("chunk_weights_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("chunk_weights", with_gradient);
  m.impl("chunk_weights_backward", backward_with_gradient);
}

Tensor in_chunks(const Tensor& x, int64_t tokens, const Tensor& like) {
  return x.to(like.scalar_type()).unflatten(1, {-1, tokens});
}
// j - i + T - 1, [T, T].
Tensor distances(int64_t tokens, const Tensor& like) {
  const auto place = at::arange(tokens, like.options().dtype(at::kLong));
  return place - place.unsqueeze(1) + (tokens - 1);
}

}  // namespace

Tensor chunk_weights(const Tensor& q, const Tensor& k, const Tensor& bias, int64_t tokens,
                     double scale, bool causal) {
  TORCH_CHECK(q.dim() == 3 && k.sizes() == q.sizes() && tokens > 0 && q.size(1) % tokens == 0 &&
                  bias.dim() == 1 && bias.size(0) == 2 * tokens - 1,
              "chunk_weights: q is ", q.sizes(), ", k ", k.sizes(), ", bias ", bias.sizes(),
              ", for chunks of ", tokens);
  return call(q, k, bias, tokens, scale, causal);
}

bool has_chunk_kernel(const Tensor& q, int64_t tokens) {
  const auto type = q.scalar_type();
  const int64_t width = q.size(2);
  return q.is_cuda() && (type == at::kBFloat16 || type == at::kHalf) && q.numel() > 0 &&
         tokens % 16 == 0 && tokens <= kernels::ChunkWeights::kMostTokens && width % 16 == 0 &&
         width <= kernels::ChunkWeights::kMostWidth;
}

Tensor chunk_weights_formula(const Tensor& q, const Tensor& k, const Tensor& bias, int64_t tokens,
                             double scale, bool causal) {
  auto scores =
      in_chunks(q, tokens, bias).matmul(in_chunks(k, tokens, bias).transpose(-2, -1)) * scale +
      bias.index({distances(tokens, q)});
  if (causal)
    scores = scores.masked_fill(distances(tokens, q) > tokens - 1,
                                -std::numeric_limits<double>::infinity());
  return scores.softmax(-1).to(q.scalar_type());
}

Three chunk_weights_formula_backward(const Tensor& dweights, const Tensor& weights, const Tensor& q,
                                     const Tensor& k, const Tensor& bias, int64_t tokens,
                                     double scale, bool) {
  const auto w = weights.to(bias.scalar_type()), dw = dweights.to(bias.scalar_type());
  const auto ds = w * (dw - (w * dw).sum(-1, true));
  const auto dq = ds.matmul(in_chunks(k, tokens, bias)) * scale,
             dk = ds.transpose(-2, -1).matmul(in_chunks(q, tokens, bias)) * scale;
  const auto dbias = at::zeros_like(bias).scatter_add(0, distances(tokens, q).flatten(),
                                                      ds.sum(at::IntArrayRef({0, 1})).flatten());
  return {dq.flatten(1, 2).to(q.scalar_type()), dk.flatten(1, 2).to(k.scalar_type()), dbias};
}

}  // namespace longbow
