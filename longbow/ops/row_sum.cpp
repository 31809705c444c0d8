#include "longbow/ops/row_sum.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext, torch::autograd::variable_list;

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
struct Gradient : torch::autograd::Function<Gradient> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    context->saved_data["sizes"] = x.sizes();
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0].expand(context->saved_data["sizes"].toIntVector())};
  }
};

Tensor with_gradient(const Tensor& x) {
  if (wants_gradient(x)) return Gradient::apply(x);
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
