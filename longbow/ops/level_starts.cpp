#include "longbow/ops/level_starts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <vector>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;

int64_t all_rows(at::IntArrayRef rows) {
  int64_t all = 0;
  for (const int64_t count : rows) all += count;
  return all;
}

void check(const Tensor& x, at::IntArrayRef rows) {
  TORCH_CHECK(x.dim() == 4 && !rows.empty(), "level_starts: x is ", x.sizes(), " for levels of ",
              rows);
  int64_t n = x.size(2);
  for (const int64_t count : rows) {
    n = (n + 1) / 2;
    TORCH_CHECK(count >= n, "level_starts: a level of ", n, " rows has room for ", count);
  }
}

Tensor on_meta(const Tensor& x, at::IntArrayRef rows) {
  return at::empty({x.size(0), x.size(1), all_rows(rows), x.size(3)}, x.options());
}
Tensor backward_on_meta(const Tensor& g, int64_t tokens, at::IntArrayRef) {
  return at::empty({g.size(0), g.size(1), tokens, g.size(3)}, g.options());
}

Tensor call(const Tensor& x, at::IntArrayRef rows) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::level_starts", "")
                             .typed<decltype(level_starts_formula)>();
  return op.call(x, rows);
}
Tensor call_backward(const Tensor& g, int64_t tokens, at::IntArrayRef rows) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::level_starts_backward", "")
                             .typed<decltype(level_starts_formula_backward)>();
  return op.call(g, tokens, rows);
}

struct Gradient : Differentiable {
  explicit Gradient(at::IntArrayRef given) : rows(given.vec()) {}
  const std::vector<int64_t> rows;
  int64_t tokens = 0;

  TensorVector forward(const TensorVector& inputs) override {
    tokens = inputs[0].size(2);
    const at::AutoDispatchBelowADInplaceOrView below;
    return {call(inputs[0], rows)};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "level_starts has no second derivative");
    return {call_backward(gradients[0], tokens, rows)};
  }
};

Tensor with_gradient(const Tensor& x, at::IntArrayRef rows) {
  if (wants_gradient(x)) return applied<Gradient>({x}, rows)[0];
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(x, rows);
}
Tensor backward_with_gradient(const Tensor& g, int64_t tokens, at::IntArrayRef rows) {
  TORCH_CHECK(!wants_gradient(g), "level_starts has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(g, tokens, rows);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("level_starts(Tensor x, int[] rows) -> Tensor");
  m.def("level_starts_backward(Tensor g, int tokens, int[] rows) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("level_starts", level_starts_formula);
  m.impl("level_starts_backward", level_starts_formula_backward);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("level_starts", on_meta);
  m.impl("level_starts_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("level_starts", with_gradient);
  m.impl("level_starts_backward", backward_with_gradient);
}

}  // namespace

Tensor level_starts(const Tensor& x, at::IntArrayRef rows) {
  check(x, rows);
  return call(x, rows);
}

Tensor level_starts_formula(const Tensor& x, at::IntArrayRef rows) {
  std::vector<Tensor> levels;
  auto level = x;
  for (const int64_t count : rows) {
    level = level.slice(2, 0, std::nullopt, 2);
    levels.push_back(at::constant_pad_nd(level, {0, 0, 0, count - level.size(2)}));
  }
  return at::cat(levels, 2);
}

Tensor level_starts_formula_backward(const Tensor& g, int64_t tokens, at::IntArrayRef rows) {
  const bool half = at::isReducedFloatingType(g.scalar_type());
  const auto dx = at::zeros({g.size(0), g.size(1), tokens, g.size(3)},
                            half ? g.options().dtype(at::kFloat) : g.options());
  int64_t first = 0, step = 1;
  for (const int64_t count : rows) {
    step *= 2;
    const auto own = dx.slice(2, 0, std::nullopt, step);
    own.add_(g.narrow(2, first, own.size(2)));
    first += count;
  }
  return dx.to(g.scalar_type());
}

}  // namespace longbow
