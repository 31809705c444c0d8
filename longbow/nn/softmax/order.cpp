#include "longbow/nn/softmax/order.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace longbow {
namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;

Tensor gathered(const Tensor& x, const Tensor& index) {
  return x.gather(-2, index.unsqueeze(-1).expand_as(x));
}

struct Permuted : torch::autograd::Function<Permuted> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& index,
                        const Tensor& inverse) {
    context->save_for_backward({inverse});
    return gathered(x, index);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gathered(gradients[0], context->get_saved_variables()[0]), Tensor(), Tensor()};
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
  return Permuted::apply(x.expand(sizes), index.expand(lead), inverse.expand(lead));
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
