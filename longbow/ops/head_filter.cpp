#include "longbow/ops/head_filter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <array>
#include <tuple>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

at::ScalarType sums_of(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}
// As the heads' filters of an image [B, H, N, D]: [H, 1, taps, 1].
Tensor of_image(const Tensor& filter, at::ScalarType type) {
  return filter.to(type).unsqueeze(1).unsqueeze(-1);
}

Two backward_on_cpu(const Tensor& dout, const Tensor& x, const Tensor& filter) {
  const auto d = head_filter_formula_backward(dout, x, filter);
  return {d.x, d.filter};
}

Tensor on_meta(const Tensor& x, const Tensor&) {
  return at::empty_like(x);
}
Two backward_on_meta(const Tensor&, const Tensor& x, const Tensor& filter) {
  return {at::empty_like(x), at::empty_like(filter)};
}

Tensor call(const Tensor& x, const Tensor& filter) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::head_filter", "")
                             .typed<decltype(on_meta)>();
  return op.call(x, filter);
}
Two call_backward(const Tensor& dout, const Tensor& x, const Tensor& filter) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::head_filter_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(dout, x, filter);
}

struct Gradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    save(inputs);
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(inputs[0], inputs[1])};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "head_filter has no second derivative");
    const auto kept = saved();
    const auto [dx, dfilter] = call_backward(gradients[0], kept[0], kept[1]);
    return {dx, dfilter};
  }
};

Tensor with_gradient(const Tensor& x, const Tensor& filter) {
  if (!wants_gradient(x, filter)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(x, filter);
  }
  return applied<Gradient>({x, filter})[0];
}
Two backward_with_gradient(const Tensor& dout, const Tensor& x, const Tensor& filter) {
  TORCH_CHECK(!wants_gradient(dout, x, filter), "head_filter has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dout, x, filter);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("head_filter(Tensor x, Tensor filter) -> Tensor");
  m.def(
      "head_filter_backward(Tensor dout, Tensor x, Tensor filter) -> (Tensor dx, Tensor dfilter)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("head_filter", head_filter_formula);
  m.impl("head_filter_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("head_filter", on_meta);
  m.impl("head_filter_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("head_filter", with_gradient);
  m.impl("head_filter_backward", backward_with_gradient);
}

}  // namespace

Tensor head_filter(const Tensor& x, const Tensor& filter) {
  TORCH_CHECK(
      x.dim() == 4 && filter.dim() == 2 && filter.size(0) == x.size(1) && filter.size(1) % 2 == 1,
      "head_filter: x is ", x.sizes(), ", the filter ", filter.sizes());
  return call(x, filter);
}

Tensor head_filter_formula(const Tensor& x, const Tensor& filter) {
  const auto type = sums_of(x);
  return at::conv2d(x.to(type), of_image(filter, type), {}, 1,
                    at::IntArrayRef({filter.size(1) / 2, 0}), 1, x.size(1))
      .to(x.scalar_type());
}

FilterGradients head_filter_formula_backward(const Tensor& dout, const Tensor& x,
                                             const Tensor& filter) {
  const auto type = sums_of(x);
  const int64_t padding[] = {filter.size(1) / 2, 0}, one[] = {1, 1}, none[] = {0, 0};
  const auto [dx, dfilter, bias] = at::convolution_backward(
      dout.to(type), x.to(type), of_image(filter, type), at::OptionalIntArrayRef(), one, padding,
      one, false, none, x.size(1), std::array{true, true, false});
  return {dx.to(x.scalar_type()), dfilter.view(filter.sizes()).to(filter.scalar_type())};
}

}  // namespace longbow
