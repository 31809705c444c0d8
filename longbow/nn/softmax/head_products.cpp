#include "longbow/nn/softmax/head_products.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/row_sum.h"

namespace longbow {
namespace {

// [B, H, N, D] -> [H, B N, D]: a view of tensors whose heads of a token lie beside each other.
Tensor by_head(const Tensor& x) {
  return x.transpose(1, 2).contiguous().flatten(0, 1).transpose(0, 1);
}
// Such a tensor, [B, H, N, width].
Tensor empty_heads(const Tensor& like, int64_t width) {
  return at::empty({like.size(0), like.size(2), like.size(1), width}, like.options())
      .transpose(1, 2);
}

// The sum of the products x^T y of many rows, [H, R, D]^T [H, R, E]: in parts, each of which has
// every `parts`-th row, since one product for each head would leave most of a GPU idle.
Tensor summed_products(const Tensor& x, const Tensor& y) {
  constexpr int64_t kMostParts = 32, kLeastRows = 256;
  const int64_t heads = x.size(0), rows = x.size(1);
  int64_t parts = 1;
  while (parts < kMostParts && rows % (2 * parts) == 0 && rows / (2 * parts) >= kLeastRows)
    parts *= 2;
  const auto cut = [&](const Tensor& t) {  // [parts H, R / parts, D]
    return t.transpose(0, 1).reshape({rows / parts, parts * heads, t.size(2)}).transpose(0, 1);
  };
  const auto found = cut(x).transpose(1, 2).bmm(cut(y));
  return parts == 1 ? found : found.unflatten(0, {parts, heads}).sum(0);
}

// On a GPU. Results and gradients lie as projections make them and read them.
struct Products : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    const auto &q = inputs[0], &weight = inputs[1], &added = inputs[2];
    save({q, weight});
    const auto y = empty_heads(q, weight.size(2));
    auto rows = by_head(y);
    if (added.defined())
      at::baddbmm_out(rows, added, by_head(q), weight);
    else
      at::bmm_out(rows, by_head(q), weight);
    return {y};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "head_products has no second derivative");
    const auto kept = saved();
    const auto &q = kept[0], &weight = kept[1];
    const auto g = by_head(gradients[0]);
    Tensor dq, dweight, dadded;
    if (wants_gradient_of(0)) {
      dq = empty_heads(q, q.size(3));
      auto rows = by_head(dq);
      at::bmm_out(rows, g, weight.transpose(1, 2));
    }
    if (wants_gradient_of(1)) dweight = summed_products(by_head(q), g);
    if (wants_gradient_of(2))
      dadded = row_sum(g.transpose(0, 1).flatten(1)).view({g.size(0), 1, g.size(2)});
    return {dq, dweight, dadded};
  }
};

}  // namespace

Tensor head_products(const Tensor& q, const Tensor& weight, const Tensor& added) {
  if (q.is_cuda() && q.dim() == 4) return applied<Products>({q, weight, added})[0];
  const auto flat = q.flatten(2, -2);
  auto y = flat.matmul(weight);
  if (added.defined()) y = y + added;
  return y.unflatten(2, q.sizes().slice(2, q.dim() - 3));
}

}  // namespace longbow
