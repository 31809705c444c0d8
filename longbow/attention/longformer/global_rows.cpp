// With t the global tokens, q = scale (t W_q^T + b_q), k = q W_k, w = softmax(k x^T), r = w x and
// y = r W_v^T + b_v, each of a head:
//   dW_v = dy^T r,   dr = dy W_v,   ds = w * (dp - sum_j w dp) where dp = dr x^T,
//   dx = ds^T k + w^T dr,   dk = ds x,   dW_k = q^T dk,   dq = scale dk W_k^T,
//   dW_q = dq^T t,   dt = dq W_q, which is added to the rows of dx.
#include "longbow/attention/longformer/global_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "longbow/nn/softmax/softmax.h"
#include "longbow/ops/differentiable.h"

namespace longbow {
namespace {

// Rows of all heads of a sequence, or of all sequences of a head: [B, H G, E] <-> [H, B G, E].
Tensor turned(const Tensor& x, int64_t lines) {
  return x.unflatten(1, {lines, -1}).transpose(0, 1).flatten(1, 2);
}
// [B, G] -> [B, G, C]
Tensor index_of(const Tensor& places, const Tensor& x) {
  return places.unsqueeze(-1).expand({x.size(0), -1, x.size(2)});
}

struct Reading : Differentiable {
  Reading(int64_t all, double of_scores) : heads(all), scale(of_scores) {}
  const int64_t heads;
  const double scale;

  // [H D, C] -> [H, D, C]
  Tensor of_heads(const Tensor& weight) const { return weight.unflatten(0, {heads, -1}); }

  // x, places, visible, W_q, b_q, W_k, W_v, b_v
  TensorVector forward(const TensorVector& inputs) override {
    const auto &x = inputs[0], &places = inputs[1], &key = inputs[5], &value = inputs[6];
    const int64_t batch = x.size(0);
    const auto tokens = x.gather(1, index_of(places, x)).flatten(0, 1);  // [B G, C]
    const auto q = at::linear(tokens, inputs[3], inputs[4])
                       .mul_(scale)
                       .unflatten(1, {heads, -1})
                       .transpose(0, 1);                    // [H, B G, D]
    const auto keys = turned(q.bmm(of_heads(key)), batch);  // [B, H G, C]
    const auto scores = keys.bmm(x.transpose(1, 2)).unflatten(1, {heads, -1});
    const auto weights = masked_softmax(scores, inputs[2]).flatten(1, 2);  // [B, H G, N]
    const auto read = turned(weights.to(x.scalar_type()).bmm(x), heads);   // [H, B G, C]
    auto y = read.bmm(of_heads(value).transpose(1, 2));                    // [H, B G, D]
    if (inputs[7].defined()) y.add_(inputs[7].unflatten(0, {heads, 1, -1}));
    save({x, places, inputs[3], key, value, tokens, q, keys, weights, read});
    return {y.unflatten(1, {batch, -1}).transpose(0, 1)};
  }

  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "rows of global tokens have no second derivative");
    const auto kept = saved();
    const auto &x = kept[0], &places = kept[1], &key = kept[3], &value = kept[4], &tokens = kept[5],
               &q = kept[6], &keys = kept[7], &weights = kept[8], &read = kept[9];
    const auto dy = gradients[0].transpose(0, 1).flatten(1, 2);     // [H, B G, D]
    const auto dread = turned(dy.bmm(of_heads(value)), x.size(0));  // [B, H G, C]
    const auto dweights = dread.bmm(x.transpose(1, 2)).to(weights.scalar_type());
    const auto dscores = at::_softmax_backward_data(dweights, weights, -1, weights.scalar_type())
                             .to(x.scalar_type());
    const auto dx = at::cat({dscores, weights.to(x.scalar_type())}, 1)
                        .transpose(1, 2)
                        .bmm(at::cat({keys, dread}, 1));
    const auto dkeys = turned(dscores.bmm(x), heads);  // [H, B G, C]
    const auto dq = dkeys.bmm(of_heads(key).transpose(1, 2)).mul_(scale).transpose(0, 1).flatten(1);
    // At most one global token that is real has a place, the others add zeros: the order is of no
    // consequence.
    dx.scatter_add_(1, index_of(places, x), dq.mm(kept[2]).view({x.size(0), -1, x.size(2)}));
    return {dx,
            Tensor(),
            Tensor(),
            dq.t().mm(tokens),
            wants_gradient_of(4) ? dq.sum(0) : Tensor(),
            q.transpose(1, 2).bmm(dkeys).flatten(0, 1),
            dy.transpose(1, 2).bmm(read).flatten(0, 1),
            wants_gradient_of(7) ? dy.sum(1).flatten() : Tensor()};
  }
};

}  // namespace

Tensor global_rows(const Tensor& x, const Tensor& places, const Tensor& visible,
                   const GlobalProjections& by) {
  return applied<Reading>({x, places, visible, by.query.weight, by.query.bias, by.key.weight,
                           by.value.weight, by.value.bias},
                          by.heads, by.scale)[0];
}

}  // namespace longbow
