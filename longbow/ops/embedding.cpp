#include "longbow/ops/embedding.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <optional>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

Tensor on_cpu(const Tensor& words, const Tensor& tokens, int64_t padding, const Maybe& positions) {
  check_embed(words, tokens, positions.value_or(Tensor()));
  return embed_formula(words, tokens, padding, positions.value_or(Tensor()));
}

at::ScalarType wide(const Tensor& x) {
  return at::isReducedFloatingType(x.scalar_type()) ? at::kFloat : x.scalar_type();
}

Tensor backward_on_cpu(const Tensor& dy, const Tensor& tokens, int64_t words, int64_t padding) {
  return at::embedding_dense_backward(dy.to(wide(dy)), tokens, words, padding, false)
      .to(dy.scalar_type());
}

Tensor on_meta(const Tensor& words, const Tensor& tokens, int64_t, const Maybe& positions) {
  check_embed(words, tokens, positions.value_or(Tensor()));
  return at::empty({tokens.size(0), tokens.size(1), words.size(1)}, words.options());
}
Tensor backward_on_meta(const Tensor& dy, const Tensor&, int64_t words, int64_t) {
  return at::empty({words, dy.size(-1)}, dy.options());
}

Tensor call(const Tensor& words, const Tensor& tokens, int64_t padding, const Maybe& positions) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::embed", "")
                             .typed<decltype(on_meta)>();
  return op.call(words, tokens, padding, positions);
}
Tensor call_backward(const Tensor& dy, const Tensor& tokens, int64_t words, int64_t padding) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::embed_backward", "")
                             .typed<decltype(backward_on_meta)>();
  return op.call(dy, tokens, words, padding);
}

// A word's row is the sum of dy over the tokens that are this word, a position's that over the
// batch.
struct Gradient : Differentiable {
  explicit Gradient(int64_t row) : padding(row) {}
  const int64_t padding;
  int64_t words = 0, positions = 0;

  TensorVector forward(const TensorVector& inputs) override {
    words = inputs[0].size(0);
    if (inputs[2].defined()) positions = inputs[2].size(0);
    save({inputs[1]});
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(inputs[0], inputs[1], padding, inputs[2])};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto& dy = gradients[0];
    TensorVector found(3);
    if (wants_gradient_of(0)) found[0] = call_backward(dy, saved()[0], words, padding);
    if (!wants_gradient_of(2)) return found;
    found[2] = dy.sum(0, false, wide(dy)).to(dy.scalar_type());
    if (positions > dy.size(1))
      found[2] = at::constant_pad_nd(found[2], {0, 0, 0, positions - dy.size(1)});
    return found;
  }
};

Tensor with_gradient(const Tensor& words, const Tensor& tokens, int64_t padding,
                     const Maybe& positions) {
  const auto given = positions.value_or(Tensor());
  if (wants_gradient(words, given)) return applied<Gradient>({words, tokens, given}, padding)[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(words, tokens, padding, positions);
}

// LibTorch's own is differentiable, so it serves whoever wants a second derivative.
Tensor backward_with_gradient(const Tensor& dy, const Tensor& tokens, int64_t words,
                              int64_t padding) {
  if (wants_gradient(dy)) return backward_on_cpu(dy, tokens, words, padding);
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dy, tokens, words, padding);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("embed(Tensor words, Tensor tokens, int padding, Tensor? positions) -> Tensor");
  m.def("embed_backward(Tensor dy, Tensor tokens, int words, int padding) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("embed", on_cpu);
  m.impl("embed_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("embed", on_meta);
  m.impl("embed_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("embed", with_gradient);
  m.impl("embed_backward", backward_with_gradient);
}

}  // namespace

void check_embed(const Tensor& words, const Tensor& tokens, const Tensor& positions) {
  TORCH_CHECK(words.dim() == 2, "embed: words are ", words.sizes(), ", but need [V, C]");
  TORCH_CHECK(tokens.dim() == 2 && tokens.scalar_type() == at::kLong, "embed: tokens are ",
              tokens.scalar_type(), " ", tokens.sizes(), ", but need Long [B, N]");
  if (!positions.defined()) return;
  TORCH_CHECK(positions.dim() == 2 && positions.size(1) == words.size(1) &&
                  positions.scalar_type() == words.scalar_type(),
              "embed: words are ", words.scalar_type(), " ", words.sizes(), ", but positions are ",
              positions.scalar_type(), " ", positions.sizes());
  TORCH_CHECK(positions.size(0) >= tokens.size(1), "embed: ", tokens.size(1), " tokens, but ",
              positions.size(0), " positions");
}

Tensor embed_formula(const Tensor& words, const Tensor& tokens, int64_t padding,
                     const Tensor& positions) {
  const auto x = at::embedding(words, tokens, padding);
  return positions.defined() ? x + positions.narrow(0, 0, tokens.size(1)) : x;
}

Tensor embed(const Tensor& words, const Tensor& tokens, int64_t padding, const Tensor& positions) {
  return call(words, tokens, padding, positions.defined() ? Maybe(positions) : std::nullopt);
}

}  // namespace longbow
