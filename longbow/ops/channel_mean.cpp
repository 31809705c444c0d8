#include "longbow/ops/channel_mean.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>

#include "longbow/ops/channel_mean_formula.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check(const Tensor& k, const Tensor& v, const Optional& keep) {
  TORCH_CHECK(k.dim() == 3 && v.dim() == 3 && k.size(0) == v.size(0) && k.size(1) == v.size(1) &&
                  k.size(2) > 0 && v.size(2) % k.size(2) == 0 && k.scalar_type() == v.scalar_type(),
              "channel_mean: k is ", k.sizes(), " ", k.scalar_type(), " but v is ", v.sizes(), " ",
              v.scalar_type());
  TORCH_CHECK(!keep || (keep->scalar_type() == at::kBool && keep->dim() == 2 &&
                        keep->size(0) == v.size(0) && keep->size(1) == v.size(1)),
              "channel_mean: v is ", v.sizes(), " but keep is ", keep->sizes());
}

at::ScalarType wide(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// [B, N, C], and -infinity where a token does not count.
Tensor scores(const Tensor& k, const Tensor& v, const Optional& keep) {
  const int64_t group = v.size(2) / k.size(2);
  const auto each = group == 1 ? k.to(wide(k)) : k.to(wide(k)).repeat_interleave(group, 2);
  return keep ? each.masked_fill(keep->logical_not().unsqueeze(-1), -kInfinity) : each;
}

Two on_cpu(const Tensor& k, const Tensor& v, const Optional& keep) {
  check(k, v, keep);
  return channel_mean_formula(k, v, keep);
}

Two call(const Tensor& k, const Tensor& v, const Optional& keep) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::channel_mean", "")
                             .typed<Two(const Tensor&, const Tensor&, const Optional&)>();
  return op.call(k, v, keep);
}

Two call_backward(const Tensor& gradient, const Tensor& k, const Tensor& v, const Optional& keep,
                  const Tensor& mean, const Tensor& log_sum) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::channel_mean_backward", "")
                             .typed<Two(const Tensor&, const Tensor&, const Tensor&,
                                        const Optional&, const Tensor&, const Tensor&)>();
  return op.call(gradient, k, v, keep, mean, log_sum);
}

struct Gradient : Differentiable {
  explicit Gradient(const Optional& kept) : keep(kept) {}
  Optional keep;  // until the forward pass has it

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [mean, log_sum] = call(inputs[0], inputs[1], keep);
    save({inputs[0], inputs[1], mean, log_sum, keep.value_or(Tensor())});
    keep.reset();
    no_gradient_of({log_sum});
    return {mean, log_sum};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    const auto real = kept[4].defined() ? Optional(kept[4]) : Optional();
    const auto [dk, dv] = call_backward(gradients[0], kept[0], kept[1], real, kept[2], kept[3]);
    return {dk, dv};
  }
};

Two with_gradient(const Tensor& k, const Tensor& v, const Optional& keep) {
  if (wants_gradient(k, v)) {
    const auto results = applied<Gradient>({k, v}, keep);
    return {results[0], results[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(k, v, keep);
}

// The mean and the logarithms depend on k and v too: a second derivative forms them again.
Two backward_with_gradient(const Tensor& gradient, const Tensor& k, const Tensor& v,
                           const Optional& keep, const Tensor& mean, const Tensor& log_sum) {
  if (wants_gradient(gradient, k, v)) {
    const auto [again, sums] = channel_mean_formula(k, v, keep);
    return channel_mean_backward_formula(gradient, k, v, keep, again, sums);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(gradient, k, v, keep, mean, log_sum);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("channel_mean(Tensor k, Tensor v, Tensor? keep) -> (Tensor, Tensor)");
  m.def(
      "channel_mean_backward(Tensor gradient, Tensor k, Tensor v, Tensor? keep, Tensor mean, "
      "Tensor log_sum) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("channel_mean", on_cpu);
  m.impl("channel_mean_backward", channel_mean_backward_formula);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("channel_mean", on_cpu);
  m.impl("channel_mean_backward", channel_mean_backward_formula);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("channel_mean", with_gradient);
  m.impl("channel_mean_backward", backward_with_gradient);
}

}  // namespace

Two channel_mean_formula(const Tensor& k, const Tensor& v, const Optional& keep) {
  const auto s = scores(k, v, keep);
  const auto sum = s.logsumexp(1);
  const auto log_sum = sum.masked_fill(sum.eq(-kInfinity), kInfinity);
  return {((s - log_sum.unsqueeze(1)).exp() * v).sum(1), log_sum};
}

Two channel_mean_backward_formula(const Tensor& gradient, const Tensor& k, const Tensor& v,
                                  const Optional& keep, const Tensor& mean, const Tensor& log_sum) {
  const auto weights = (scores(k, v, keep) - log_sum.unsqueeze(1)).exp();
  const auto dv = weights * gradient.unsqueeze(1);
  const auto dk = (dv * (v - mean.unsqueeze(1))).unflatten(2, {k.size(2), -1}).sum(-1);
  return {dk.to(k.scalar_type()), dv.to(v.scalar_type())};
}

Tensor channel_mean(const Tensor& k, const Tensor& v, const Tensor& keep) {
  return std::get<0>(call(k, v, keep.defined() ? Optional(keep) : std::nullopt));
}

}  // namespace longbow
