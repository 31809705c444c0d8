#include "longbow/ops/damped_modes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

at::ScalarType wide(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Two on_cpu(const Tensor& delta, const Tensor& alpha, const Tensor& beta, const Tensor& eta,
           int64_t rows, double factor, double fastest) {
  const auto found = damped_modes_formula({delta, alpha, beta, eta}, rows, factor, fastest);
  return {found.rate, found.weight};
}
Four backward_on_cpu(const Tensor& drate, const Tensor& dweight, const Tensor& delta,
                     const Tensor& alpha, const Tensor& beta, const Tensor& eta, double factor,
                     double fastest) {
  const auto found =
      damped_modes_formula_backward({drate, dweight}, {delta, alpha, beta, eta}, factor, fastest);
  return {found.delta, found.alpha, found.beta, found.eta};
}
Two on_meta(const Tensor& delta, const Tensor&, const Tensor&, const Tensor&, int64_t rows, double,
            double) {
  const auto rate = at::empty({rows, delta.size(1)}, delta.options().dtype(wide(delta)));
  return {rate, at::empty_like(rate)};
}
Four backward_on_meta(const Tensor&, const Tensor&, const Tensor& delta, const Tensor& alpha,
                      const Tensor& beta, const Tensor& eta, double, double) {
  return {at::empty_like(delta), at::empty_like(alpha), at::empty_like(beta), at::empty_like(eta)};
}

Two call(const TensorVector& x, int64_t rows, double factor, double fastest) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::damped_modes", "")
                             .typed<decltype(on_cpu)>();
  return op.call(x[0], x[1], x[2], x[3], rows, factor, fastest);
}
Four call_backward(const TensorVector& g, const TensorVector& x, double factor, double fastest) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::damped_modes_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(g[0], g[1], x[0], x[1], x[2], x[3], factor, fastest);
}

struct Gradient : Differentiable {
  Gradient(int64_t some, double by, double most) : rows(some), factor(by), fastest(most) {}
  const int64_t rows;
  const double factor, fastest;

  TensorVector forward(const TensorVector& inputs) override {
    save(inputs);
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [rate, weight] = call(inputs, rows, factor, fastest);
    return {rate, weight};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "damped_modes has no second derivative");
    const auto [delta, alpha, beta, eta] = call_backward(gradients, saved(), factor, fastest);
    return {delta, alpha, beta, eta};
  }
};

Two with_gradient(const Tensor& delta, const Tensor& alpha, const Tensor& beta, const Tensor& eta,
                  int64_t rows, double factor, double fastest) {
  if (wants_gradient(delta, alpha, beta, eta)) {
    const auto found = applied<Gradient>({delta, alpha, beta, eta}, rows, factor, fastest);
    return {found[0], found[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call({delta, alpha, beta, eta}, rows, factor, fastest);
}
Four backward_with_gradient(const Tensor& drate, const Tensor& dweight, const Tensor& delta,
                            const Tensor& alpha, const Tensor& beta, const Tensor& eta,
                            double factor, double fastest) {
  TORCH_CHECK(!wants_gradient(drate, dweight, delta, alpha, beta, eta),
              "damped_modes has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward({drate, dweight}, {delta, alpha, beta, eta}, factor, fastest);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "damped_modes(Tensor delta, Tensor alpha, Tensor beta, Tensor eta, int rows, float factor, "
      "float fastest) -> (Tensor rate, Tensor weight)");
  m.def(
      "damped_modes_backward(Tensor drate, Tensor dweight, Tensor delta, Tensor alpha, Tensor "
      "beta, Tensor eta, float factor, float fastest) -> (Tensor ddelta, Tensor dalpha, Tensor "
      "dbeta, Tensor deta)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("damped_modes", on_cpu);
  m.impl("damped_modes_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("damped_modes", on_meta);
  m.impl("damped_modes_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("damped_modes", with_gradient);
  m.impl("damped_modes_backward", backward_with_gradient);
}

}  // namespace

DampedModes damped_modes(const DampedAverage& average, int64_t rows, double factor,
                         double fastest) {
  const auto& delta = average.delta;
  for (const auto& x : {delta, average.alpha, average.beta, average.eta})
    TORCH_CHECK(x.dim() == 2 && x.sizes() == delta.sizes() &&
                    x.scalar_type() == delta.scalar_type() && rows <= x.size(0),
                "damped_modes: ", rows, " rows of ", x.sizes(), " ", x.scalar_type(), " beside ",
                delta.sizes(), " ", delta.scalar_type());
  const auto [rate, weight] =
      call({delta, average.alpha, average.beta, average.eta}, rows, factor, fastest);
  return {rate, weight};
}

DampedModes damped_modes_formula(const DampedAverage& average, int64_t rows, double factor,
                                 double fastest) {
  const auto some = [&](const Tensor& x) { return x.narrow(0, 0, rows).to(wide(x)); };
  const auto p = some(average.delta).sigmoid();
  const auto rate = at::log1p(-p * some(average.alpha).sigmoid()).clamp_min(fastest);
  return {rate, p * some(average.beta) * some(average.eta) * factor};
}

DampedAverage damped_modes_formula_backward(const DampedModes& gradient,
                                            const DampedAverage& average, double factor,
                                            double fastest) {
  const int64_t rows = gradient.rate.size(0);
  const auto some = [&](const Tensor& x) { return x.narrow(0, 0, rows).to(wide(x)); };
  const auto p = some(average.delta).sigmoid(), q = some(average.alpha).sigmoid(),
             beta = some(average.beta), eta = some(average.eta), dweight = gradient.weight * factor;
  const auto slope = (-gradient.rate / (1 - p * q)).masked_fill(at::log1p(-p * q) < fastest, 0);
  const auto whole = [&](const Tensor& x) {
    return at::constant_pad_nd(x, {0, 0, 0, average.delta.size(0) - rows})
        .to(average.delta.scalar_type());
  };
  return {whole((slope * q + dweight * beta * eta) * p * (1 - p)), whole(slope * p * q * (1 - q)),
          whole(dweight * p * eta), whole(dweight * p * beta)};
}

}  // namespace longbow
