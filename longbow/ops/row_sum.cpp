#include "longbow/ops/row_sum.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <vector>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor on_any_device(const Tensor& x) {
  TORCH_CHECK(x.dim() >= 1, "row_sum: x is ", x.sizes(), ", but needs [..., width]");
  return x.dim() == 1 ? x.clone() : x.flatten(0, -2).sum(0);
}

Tensor call(const Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::row_sum", "")
                             .typed<Tensor(const Tensor&)>();
  return op.call(x);
}

// Every row has the same share in its sum.
struct Gradient : Differentiable {
  std::vector<int64_t> sizes;

  TensorVector forward(const TensorVector& inputs) override {
    sizes = inputs[0].sizes().vec();
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(inputs[0])};
  }
  TensorVector backward(const TensorVector& gradients) override {
    return {gradients[0].expand(sizes)};
  }
};

Tensor with_gradient(const Tensor& x) {
  if (wants_gradient(x)) return applied<Gradient>({x})[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(x);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("row_sum(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("row_sum", on_any_device);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("row_sum", on_any_device);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("row_sum", with_gradient);
}

}  // namespace

Tensor row_sum(const Tensor& x) {
  return call(x);
}

}  // namespace longbow
