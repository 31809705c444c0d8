#include "longbow/ops/time_steps.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/time_steps.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/head_parts.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

void check(const Tensor& dt, const Tensor& bias, const Tensor& log_rate, const Maybe& keep) {
  TORCH_CHECK(dt.dim() == 3 && bias.dim() == 1 && bias.size(0) == dt.size(2) &&
                  log_rate.sizes() == bias.sizes(),
              "time_steps: dt is ", dt.sizes(), " but bias is ", bias.sizes(), " and log_rate ",
              log_rate.sizes());
  TORCH_CHECK(!keep || keep->sizes() == dt.sizes().slice(0, 2), "time_steps: dt is ", dt.sizes(),
              " but keep is ", keep->sizes());
}

Two by_aten(const Tensor& dt, const Tensor& bias, const Tensor& log_rate, const Maybe& keep,
            double least, double most) {
  check(dt, bias, log_rate, keep);
  const auto [step, log_decay] =
      time_steps_formula(dt, bias, log_rate, keep.value_or(Tensor()), least, most);
  return {step, log_decay};
}

Two on_meta(const Tensor& dt, const Tensor& bias, const Tensor& log_rate, const Maybe& keep, double,
            double) {
  check(dt, bias, log_rate, keep);
  const auto options = dt.options().dtype(type_of_sums(dt));
  return {at::empty(dt.sizes(), options), at::empty(dt.sizes(), options)};
}
Three backward_on_meta(const Tensor&, const Tensor&, const Tensor& dt, const Tensor& bias,
                       const Tensor& log_rate, const Maybe&, double, double) {
  return {at::empty(dt.sizes(), dt.options()), at::empty_like(bias), at::empty_like(log_rate)};
}

Maybe maybe(const Tensor& x) {
  return x.defined() ? Maybe(x) : Maybe();
}
Two call(const Tensor& dt, const Tensor& bias, const Tensor& log_rate, const Tensor& keep,
         double least, double most) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::time_steps", "")
                             .typed<decltype(by_aten)>();
  return op.call(dt, bias, log_rate, maybe(keep), least, most);
}

// That of the kernels.
struct Gradient : Differentiable {
  Gradient(double lower, double upper) : least(lower), most(upper) {}
  const double least, most;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    const auto [step, log_decay] = call(inputs[0], inputs[1], inputs[2], inputs[3], least, most);
    return {step, log_decay};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "time_steps has no second derivative here");
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("longbow::time_steps_backward", "")
                               .typed<decltype(backward_on_meta)>();
    const auto kept = saved();
    const auto [ddt, dbias, dlog_rate] =
        op.call(gradients[0], gradients[1], kept[0], kept[1], kept[2], maybe(kept[3]), least, most);
    return {ddt, dbias, dlog_rate, Tensor()};
  }
};

// The formula is recorded as it is.
Two with_gradient(const Tensor& dt, const Tensor& bias, const Tensor& log_rate, const Maybe& keep,
                  double least, double most) {
  check(dt, bias, log_rate, keep);
  if (!has_time_steps_kernel(dt)) return by_aten(dt, bias, log_rate, keep, least, most);
  const auto kept = keep.value_or(Tensor());
  if (!wants_gradient(dt, bias, log_rate)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(dt, bias, log_rate, kept, least, most);
  }
  const auto found = applied<Gradient>({dt, bias, log_rate, kept}, least, most);
  return {found[0], found[1]};
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "time_steps(Tensor dt, Tensor bias, Tensor log_rate, Tensor? keep, float least, float most) "
      "-> (Tensor step, Tensor log_decay)");
  m.def(
      "time_steps_backward(Tensor dstep, Tensor dlog_decay, Tensor dt, Tensor bias, "
      "Tensor log_rate, Tensor? keep, float least, float most) -> "
      "(Tensor ddt, Tensor dbias, Tensor dlog_rate)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("time_steps", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("time_steps", on_meta);
  m.impl("time_steps_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("time_steps", with_gradient);
}

}  // namespace

TimeStepping time_steps(const Tensor& dt, const Tensor& bias, const Tensor& log_rate,
                        const Tensor& keep, double least, double most) {
  const auto [step, log_decay] = call(dt, bias, log_rate, keep, least, most);
  return {step, log_decay};
}

bool has_time_steps_kernel(const Tensor& dt) {
  return dt.is_cuda() && dt.scalar_type() == at::kBFloat16 && dt.numel() > 0 &&
         dt.size(2) <= kernels::kMostSteppingHeads;
}

TimeStepping time_steps_formula(const Tensor& dt, const Tensor& bias, const Tensor& log_rate,
                                const Tensor& keep, double least, double most) {
  const auto type = type_of_sums(dt);
  auto step = at::softplus(dt.to(type) + bias.to(type)).clamp(least, most);
  if (keep.defined()) step = step.masked_fill(keep.logical_not().unsqueeze(-1), 0);
  return {step, -log_rate.to(type).exp() * step};
}

}  // namespace longbow
