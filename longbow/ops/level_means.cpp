#include "longbow/ops/level_means.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <optional>
#include <utility>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/level_means_formula.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

void check(const Tensor& x, const Maybe& keep, const Tensor& factors, at::IntArrayRef rows) {
  TORCH_CHECK(x.dim() == 4 && (!keep || keep->sizes() == at::IntArrayRef({x.size(0), x.size(2)})),
              "level_means: x is ", x.sizes(), ", keep ",
              keep ? c10::str(keep->sizes()) : std::string("none"));
  int64_t all = 0, n = x.size(2);
  for (const int64_t count : rows) {
    n = (n + 1) / 2;
    TORCH_CHECK(count >= n, "level_means: a level of ", n, " rows has room for ", count);
    all += count;
  }
  TORCH_CHECK(!rows.empty() && factors.dim() == 2 && factors.size(1) == all,
              "level_means: factors are ", factors.sizes(), " for ", all, " rows");
}

Tensor on_meta(const Tensor& x, const Maybe&, const Tensor& factors, at::IntArrayRef) {
  return at::empty({x.size(0), x.size(1), factors.size(1), x.size(3)}, x.options());
}
Tensor backward_on_meta(const Tensor&, const Tensor& x, const Maybe&, const Tensor&,
                        at::IntArrayRef) {
  return at::empty_like(x);
}

Tensor call(const Tensor& x, const Maybe& keep, const Tensor& factors, at::IntArrayRef rows) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::level_means", "")
                             .typed<decltype(level_means_formula)>();
  return op.call(x, keep, factors, rows);
}
Tensor call_backward(const Tensor& g, const Tensor& x, const Maybe& keep, const Tensor& factors,
                     at::IntArrayRef rows) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::level_means_backward", "")
                             .typed<decltype(level_means_formula_backward)>();
  return op.call(g, x, keep, factors, rows);
}

struct Gradient : Differentiable {
  Gradient(Maybe real, Tensor given, std::vector<int64_t> sizes)
      : keep(std::move(real)), factors(std::move(given)), rows(std::move(sizes)) {}
  Maybe keep;  // until the forward pass has them
  Tensor factors;
  const std::vector<int64_t> rows;

  TensorVector forward(const TensorVector& inputs) override {
    save({inputs[0], keep.value_or(Tensor()), factors});
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(inputs[0], std::exchange(keep, {}), std::exchange(factors, {}), rows)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "level_means has no second derivative");
    const auto kept = saved();
    const auto real = kept[1].defined() ? Maybe(kept[1]) : Maybe();
    return {call_backward(gradients[0], kept[0], real, kept[2], rows)};
  }
};

Tensor with_gradient(const Tensor& x, const Maybe& keep, const Tensor& factors,
                     at::IntArrayRef rows) {
  if (wants_gradient(x)) return applied<Gradient>({x}, keep, factors, rows.vec())[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(x, keep, factors, rows);
}
Tensor backward_with_gradient(const Tensor& g, const Tensor& x, const Maybe& keep,
                              const Tensor& factors, at::IntArrayRef rows) {
  TORCH_CHECK(!wants_gradient(g, x), "level_means has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(g, x, keep, factors, rows);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("level_means(Tensor x, Tensor? keep, Tensor factors, int[] rows) -> Tensor");
  m.def(
      "level_means_backward(Tensor g, Tensor x, Tensor? keep, Tensor factors, int[] rows) -> "
      "Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("level_means", level_means_formula);
  m.impl("level_means_backward", level_means_formula_backward);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("level_means", on_meta);
  m.impl("level_means_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("level_means", with_gradient);
  m.impl("level_means_backward", backward_with_gradient);
}

}  // namespace

Tensor level_means(const Tensor& x, const Tensor& keep, const Tensor& factors,
                   const std::vector<int64_t>& rows) {
  check(x, keep.defined() ? Maybe(keep) : std::nullopt, factors, rows);
  return call(x, keep.defined() ? Maybe(keep) : std::nullopt, factors, rows);
}

}  // namespace longbow
