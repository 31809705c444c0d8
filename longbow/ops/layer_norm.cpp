#include "longbow/ops/layer_norm.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;

void check(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  TORCH_CHECK(x.dim() >= 1 && weight.dim() == 1 && weight.size(0) == x.size(-1),
              "layer_norm: x is ", x.sizes(), " but weight is ", weight.sizes());
  TORCH_CHECK(bias.sizes() == weight.sizes(), "layer_norm: weight is ", weight.sizes(),
              " but bias is ", bias.sizes());
}

Three on_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  check(x, weight, bias);
  return at::native_layer_norm(x, weight.sizes(), weight, bias, epsilon);
}

// Of half types LibTorch's sums over rows are in the type itself: of 4096 ones 512 are left.
Three backward_on_cpu(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& mean, const Tensor& rstd) {
  const auto type = x.scalar_type();
  const auto wide = [&](const Tensor& t) {
    return at::isReducedFloatingType(type) ? t.to(at::kFloat) : t;
  };
  const auto [dx, dweight, dbias] =
      at::native_layer_norm_backward(wide(dy), wide(x), weight.sizes(), wide(mean), wide(rstd),
                                     wide(weight), wide(bias), {true, true, true});
  return {dx.to(type), dweight.to(weight.scalar_type()), dbias.to(bias.scalar_type())};
}

Three on_meta(const Tensor& x, const Tensor& weight, const Tensor& bias, double) {
  check(x, weight, bias);
  auto sizes = x.sizes().vec();
  sizes.back() = 1;
  const bool wide = x.scalar_type() == at::kDouble;
  const auto mean = at::empty(sizes, x.options().dtype(wide ? at::kDouble : at::kFloat));
  return {at::empty_like(x, {}, at::MemoryFormat::Contiguous), mean, at::empty_like(mean)};
}

Three backward_on_meta(const Tensor&, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor&, const Tensor&) {
  return {at::empty_like(x), at::empty_like(weight), at::empty_like(bias)};
}

Three call(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::layer_norm", "")
                             .typed<Three(const Tensor&, const Tensor&, const Tensor&, double)>();
  return op.call(x, weight, bias, epsilon);
}

Three call_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Tensor& mean, const Tensor& rstd) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::layer_norm_backward", "")
                             .typed<Three(const Tensor&, const Tensor&, const Tensor&,
                                          const Tensor&, const Tensor&, const Tensor&)>();
  return op.call(dy, x, weight, bias, mean, rstd);
}

struct Gradient : Differentiable {
  explicit Gradient(double added) : epsilon(added) {}
  const double epsilon;

  TensorVector forward(const TensorVector& inputs) override {
    const auto &x = inputs[0], &weight = inputs[1], &bias = inputs[2];
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, mean, rstd] = call(x, weight, bias, epsilon);
    save({x, weight, bias, mean, rstd});
    no_gradient_of({mean, rstd});
    return {y, mean, rstd};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    const auto [dx, dweight, dbias] =
        call_backward(gradients[0], kept[0], kept[1], kept[2], kept[3], kept[4]);
    return {dx, dweight, dbias};
  }
};

Three with_gradient(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  if (!wants_gradient(x, weight, bias)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(x, weight, bias, epsilon);
  }
  const auto found = applied<Gradient>({x, weight, bias}, epsilon);
  return {found[0], found[1], found[2]};
}

// LibTorch's own backward pass is differentiable, so it serves whoever wants a second derivative.
Three backward_with_gradient(const Tensor& dy, const Tensor& x, const Tensor& weight,
                             const Tensor& bias, const Tensor& mean, const Tensor& rstd) {
  if (wants_gradient(dy, x, weight, bias)) return backward_on_cpu(dy, x, weight, bias, mean, rstd);
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dy, x, weight, bias, mean, rstd);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "layer_norm(Tensor x, Tensor weight, Tensor bias, float epsilon) -> "
      "(Tensor y, Tensor mean, Tensor rstd)");
  m.def(
      "layer_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor bias, Tensor mean, "
      "Tensor rstd) -> (Tensor dx, Tensor dweight, Tensor dbias)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("layer_norm", on_cpu);
  m.impl("layer_norm_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("layer_norm", on_meta);
  m.impl("layer_norm_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("layer_norm", with_gradient);
  m.impl("layer_norm_backward", backward_with_gradient);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  return std::get<0>(call(x, weight, bias, epsilon));
}

}  // namespace longbow
