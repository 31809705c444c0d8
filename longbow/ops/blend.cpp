#include "longbow/ops/blend.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Gradients = std::tuple<std::vector<Tensor>, Tensor>;

void check(at::TensorList fields, const Tensor& weights) {
  TORCH_CHECK(!fields.empty() && weights.dim() == 3, "blend: ", fields.size(),
              " fields, but weights are ", weights.sizes());
  for (const auto& x : fields)
    TORCH_CHECK(x.dim() == 4 && x.sizes() == fields[0].sizes() &&
                    x.scalar_type() == weights.scalar_type() &&
                    weights.sizes() == at::IntArrayRef({static_cast<int64_t>(fields.size()),
                                                        x.size(1), x.size(3)}),
                "blend: a field is ", x.sizes(), " ", x.scalar_type(), ", the first ",
                fields[0].sizes(), ", weights ", weights.sizes(), " ", weights.scalar_type());
}

Tensor on_meta(at::TensorList fields, const Tensor&) {
  return at::empty_like(fields[0]);
}
Gradients backward_on_meta(const Tensor&, at::TensorList fields, const Tensor& weights) {
  std::vector<Tensor> found;
  for (const auto& x : fields) found.push_back(at::empty_like(x));
  return {found, at::empty_like(weights)};
}

Tensor call(at::TensorList fields, const Tensor& weights) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::blend", "")
                             .typed<decltype(blend_formula)>();
  return op.call(fields, weights);
}
Gradients call_backward(const Tensor& dout, at::TensorList fields, const Tensor& weights) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::blend_backward", "")
                             .typed<decltype(blend_formula_backward)>();
  return op.call(dout, fields, weights);
}

struct Gradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    save(inputs);
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(at::TensorList(inputs).slice(1), inputs[0])};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "blend has no second derivative");
    const auto kept = saved();
    auto [found, dweights] = call_backward(gradients[0], at::TensorList(kept).slice(1), kept[0]);
    found.insert(found.begin(), dweights);
    return found;
  }
};

Tensor with_gradient(at::TensorList fields, const Tensor& weights) {
  TensorVector inputs = {weights};
  inputs.insert(inputs.end(), fields.begin(), fields.end());
  if (std::ranges::any_of(inputs, [](const Tensor& x) { return wants_gradient(x); }))
    return applied<Gradient>(inputs)[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(fields, weights);
}
Gradients backward_with_gradient(const Tensor& dout, at::TensorList fields, const Tensor& weights) {
  const auto wants = [](const Tensor& x) { return wants_gradient(x); };
  TORCH_CHECK(!wants_gradient(dout, weights) && !std::ranges::any_of(fields, wants),
              "blend has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dout, fields, weights);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("blend(Tensor[] fields, Tensor weights) -> Tensor");
  m.def(
      "blend_backward(Tensor dout, Tensor[] fields, Tensor weights) -> (Tensor[] dfields, Tensor "
      "dweights)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("blend", blend_formula);
  m.impl("blend_backward", blend_formula_backward);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("blend", on_meta);
  m.impl("blend_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("blend", with_gradient);
  m.impl("blend_backward", backward_with_gradient);
}

// [H, 1, D] of one field.
Tensor weight_of(const Tensor& weights, size_t field) {
  return weights[static_cast<int64_t>(field)].unsqueeze(1);
}

}  // namespace

Tensor blend(const std::vector<Tensor>& fields, const Tensor& weights) {
  check(fields, weights);
  return call(fields, weights);
}

Tensor blend_formula(at::TensorList fields, const Tensor& weights) {
  const auto type = fields[0].scalar_type();
  const auto wide = at::isReducedFloatingType(type) ? weights.to(at::kFloat) : weights;
  auto y = weight_of(wide, 0) * fields[0];
  for (size_t f = 1; f < fields.size(); ++f) y = y + weight_of(wide, f) * fields[f];
  return y.to(type);
}

// d x_f = w_f dout and d w_f = sum over tokens of dout x_f.
Gradients blend_formula_backward(const Tensor& dout, at::TensorList fields, const Tensor& weights) {
  const bool half = at::isReducedFloatingType(dout.scalar_type());
  const auto type = half ? at::kFloat : dout.scalar_type();
  std::vector<Tensor> found, sums;
  for (size_t f = 0; f < fields.size(); ++f) {
    found.push_back(weight_of(weights, f) * dout);
    sums.push_back((dout.to(type) * fields[f]).sum(at::IntArrayRef({0, 2})));
  }
  return {found, at::stack(sums).to(weights.scalar_type())};
}

}  // namespace longbow
