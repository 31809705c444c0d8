#include "longbow/ops/doubly_stochastic.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/doubly_stochastic.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

Two on_cpu(const Tensor& x, int64_t iterations) {
  const auto found = doubly_stochastic_formula(x, iterations);
  return {found.out, found.sums};
}

Two on_meta(const Tensor& x, int64_t iterations) {
  auto sizes = x.sizes().vec();
  sizes.back() += sizes[sizes.size() - 2];
  sizes[sizes.size() - 2] = iterations;
  return {at::empty_like(x), at::empty(sizes, x.options())};
}
Tensor backward_on_meta(const Tensor&, const Tensor& x, const Tensor&) {
  return at::empty_like(x);
}

Two call(const Tensor& x, int64_t iterations) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::doubly_stochastic", "")
                             .typed<decltype(on_cpu)>();
  return op.call(x, iterations);
}
Tensor call_backward(const Tensor& dout, const Tensor& x, const Tensor& sums) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::doubly_stochastic_backward", "")
                             .typed<decltype(doubly_stochastic_formula_backward)>();
  return op.call(dout, x, sums);
}

// What a division by sums does to the gradient is undone from the last one to the first.
struct Gradient : Differentiable {
  explicit Gradient(int64_t given) : iterations(given) {}
  const int64_t iterations;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, sums] = call(inputs[0], iterations);
    save({inputs[0], sums});
    no_gradient_of({sums});
    return {out, sums};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "doubly_stochastic has no second derivative");
    const auto kept = saved();
    return {call_backward(gradients[0], kept[0], kept[1])};
  }
};

Two with_gradient(const Tensor& x, int64_t iterations) {
  if (wants_gradient(x)) {
    const auto found = applied<Gradient>({x}, iterations);
    return {found[0], found[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call(x, iterations);
}
Tensor backward_with_gradient(const Tensor& dout, const Tensor& x, const Tensor& sums) {
  TORCH_CHECK(!wants_gradient(dout, x, sums), "doubly_stochastic has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(dout, x, sums);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("doubly_stochastic(Tensor x, int iterations) -> (Tensor out, Tensor sums)");
  m.def("doubly_stochastic_backward(Tensor dout, Tensor x, Tensor sums) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("doubly_stochastic", on_cpu);
  m.impl("doubly_stochastic_backward", doubly_stochastic_formula_backward);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("doubly_stochastic", on_meta);
  m.impl("doubly_stochastic_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("doubly_stochastic", with_gradient);
  m.impl("doubly_stochastic_backward", backward_with_gradient);
}

}  // namespace

Tensor doubly_stochastic(const Tensor& x, int64_t iterations) {
  TORCH_CHECK(x.dim() >= 2 && x.is_floating_point() && iterations >= 0, "doubly_stochastic: x is ",
              x.scalar_type(), " ", x.sizes(), ", ", iterations, " iterations");
  return std::get<0>(call(x, iterations));
}

bool has_doubly_stochastic_kernel(const Tensor& x) {
  constexpr int64_t most = kernels::DoublyStochastic::kMost;
  return x.is_cuda() && x.scalar_type() == at::kFloat && x.dim() >= 2 && x.numel() > 0 &&
         x.size(-1) <= most && x.size(-2) <= most;
}

DoublyStochastic doubly_stochastic_formula(const Tensor& x, int64_t iterations) {
  auto left = x;
  TensorVector sums;
  for (int64_t i = 0; i < iterations; ++i) {
    const auto rows = left.logsumexp(-1, true);
    left = left - rows;
    const auto columns = left.logsumexp(-2, true);
    left = left - columns;
    sums.push_back(at::cat({rows.squeeze(-1), columns.squeeze(-2)}, -1));
  }
  auto sizes = x.sizes().vec();
  sizes.back() += sizes[sizes.size() - 2];
  sizes[sizes.size() - 2] = 0;
  return {left.exp(), sums.empty() ? at::empty(sizes, x.options()) : at::stack(sums, -2)};
}

// Where x became y = x - log sum exp x, with g the gradient of y: that of x is g - exp(y) sum g.
Tensor doubly_stochastic_formula_backward(const Tensor& dout, const Tensor& x, const Tensor& sums) {
  const int64_t rows = x.size(-2);
  const auto of = [&](int64_t i, bool row) {
    const auto all = sums.select(-2, i);
    return row ? all.narrow(-1, 0, rows).unsqueeze(-1)
               : all.narrow(-1, rows, x.size(-1)).unsqueeze(-2);
  };
  auto left = x;
  for (int64_t i = 0; i < sums.size(-2); ++i) left = left - of(i, true) - of(i, false);
  auto g = dout * left.exp();
  for (int64_t i = sums.size(-2) - 1; i >= 0; --i)
    for (const bool row : {false, true}) {
      g = g - left.exp() * g.sum(row ? -1 : -2, true);
      left = left + of(i, row);
    }
  return g;
}

}  // namespace longbow
