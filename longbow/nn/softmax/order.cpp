#include "longbow/nn/softmax/order.h"

#include <ATen/ATen.h>

#include "longbow/ops/differentiable.h"

namespace longbow {
namespace {

Tensor gathered(const Tensor& x, const Tensor& index) {
  return x.gather(-2, index.unsqueeze(-1).expand_as(x));
}

struct Permuted : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    const auto &x = inputs[0], &index = inputs[1], &inverse = inputs[2];
    save({inverse});
    return {gathered(x, index)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    return {gathered(gradients[0], saved()[0]), Tensor(), Tensor()};
  }
};

Tensor permuted(const Tensor& x, const Tensor& index, const Tensor& inverse) {
  if (x.dim() == index.dim()) {
    const auto sizes = at::infer_size(x.sizes(), index.sizes());
    return x.expand(sizes).gather(-1, index.expand(sizes));
  }
  const auto lead = at::infer_size(x.sizes().slice(0, x.dim() - 1), index.sizes());
  auto sizes = lead;
  sizes.push_back(x.size(-1));
  return applied<Permuted>({x.expand(sizes), index.expand(lead), inverse.expand(lead)})[0];
}

}  // namespace

Order Order::by(const Tensor& keys) {
  const auto order = at::argsort(keys, /*stable=*/true, /*dim=*/-1, /*descending=*/false);
  const auto place = at::arange(keys.size(-1), order.options()).expand_as(order);
  return {order, at::empty_like(order).scatter_(-1, order, place)};
}

Tensor Order::sorted(const Tensor& x) const {
  return permuted(x, order, inverse);
}
Tensor Order::in_time(const Tensor& x) const {
  return permuted(x, inverse, order);
}

}  // namespace longbow
