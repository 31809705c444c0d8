#include "longbow/ops/iterated_inverse.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/iterated_inverse.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/in_parallel.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

// Z (13 I - P X) / 4 with P = A Z and X = 15 I - P (7 I - P).
struct Step {
  Tensor p, x, y;
  Step(const Tensor& a, const Tensor& z) : p(a.bmm(z)) {
    const auto identity = at::eye(a.size(-1), a.options());
    x = at::baddbmm(15 * identity, p, 7 * identity - p, 1, -1);
    y = at::baddbmm(13.0 / 4 * identity, p, x, 1, -0.25);
  }
};

// body(a, state of s, out) for each matrix of a [G, R, R].
template <class Body>
void each_matrix(const Tensor& a, int64_t steps, const Body& body) {
  const int64_t order = a.size(1);
  in_parallel(a.size(0), steps * order * order * order, [&](int64_t first, int64_t last) {
    for (int64_t g = first; g < last; ++g) body(g * order * order);
  });
}

template <class T>
kernels::IteratedInverse<T> task_of(const Tensor& a, const Tensor& states, int64_t at, T* out) {
  return {.order = a.size(1),
          .steps = states.size(0),
          .a = a.const_data_ptr<T>() + at,
          .states = states.mutable_data_ptr<T>() + at,
          .stride = a.numel(),
          .out = out};
}

template <class T>
void run(const Tensor& a, const Tensor& states, const Tensor& out) {
  each_matrix(a, states.size(0), [&](int64_t at) {
    kernels::iterated_inverse(task_of<T>(a, states, at, out.mutable_data_ptr<T>() + at));
  });
}
template <class T>
void run_backward(const Tensor& dout, const Tensor& a, const Tensor& states, const Tensor& da,
                  const Tensor& dz) {
  each_matrix(a, states.size(0), [&](int64_t at) {
    kernels::iterated_inverse_backward<T>({.past = task_of<T>(a, states, at, nullptr),
                                           .dout = dout.const_data_ptr<T>() + at,
                                           .da = da.mutable_data_ptr<T>() + at,
                                           .dz = dz.mutable_data_ptr<T>() + at});
  });
}

Two on_cpu(const Tensor& given, const Tensor& z, int64_t steps) {
  const auto a = given.contiguous(), out = at::empty_like(a),
             states = at::empty({steps, a.size(0), a.size(1), a.size(2)}, a.options());
  states[0].copy_(z);
  a.scalar_type() == at::kDouble ? run<double>(a, states, out) : run<float>(a, states, out);
  return {out, states};
}
Two backward_on_cpu(const Tensor& given_dout, const Tensor& given, const Tensor& states) {
  const auto a = given.contiguous(), dout = given_dout.contiguous(), da = at::empty_like(a),
             dz = at::empty_like(a);
  a.scalar_type() == at::kDouble ? run_backward<double>(dout, a, states, da, dz)
                                 : run_backward<float>(dout, a, states, da, dz);
  return {da, dz};
}

// By ATen, from the first state on, so that it has a gradient of its own.
Two backward_by_aten(const Tensor& dout, const Tensor& a, const Tensor& z, int64_t steps) {
  std::vector<Tensor> states = {z};
  for (int64_t s = 1; s < steps; ++s) states.push_back(states.back().bmm(Step(a, states.back()).y));
  auto dz = dout, da = at::zeros_like(a);
  for (int64_t s = steps - 1; s >= 0; --s) {
    const auto& state = states[static_cast<size_t>(s)];
    const Step step(a, state);
    const auto turned = step.p.transpose(1, 2), dy = state.transpose(1, 2).bmm(dz) / -4,
               dx = turned.bmm(dy),
               dp = dy.bmm(step.x.transpose(1, 2)) + dx.bmm(turned) + turned.bmm(dx) - 7 * dx;
    dz = dz.bmm(step.y.transpose(1, 2)) + a.transpose(1, 2).bmm(dp);
    da = da + dp.bmm(state.transpose(1, 2));
  }
  return {da, dz};
}

struct Gradient : Differentiable {
  explicit Gradient(int64_t count) : steps(count) {}
  const int64_t steps;

  TensorVector forward(const TensorVector& inputs) override {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("longbow::iterated_inverse", "")
                               .typed<decltype(on_cpu)>();
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, states] = op.call(inputs[0], inputs[1], steps);
    save({inputs[0], inputs[1], states});
    return {out};
  }
  TensorVector backward(const TensorVector& gradients) override {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("longbow::iterated_inverse_backward", "")
                               .typed<decltype(backward_on_cpu)>();
    const auto kept = saved();
    const auto [da, dz] = at::GradMode::is_enabled()
                              ? backward_by_aten(gradients[0], kept[0], kept[1], steps)
                              : op.call(gradients[0], kept[0], kept[2]);
    return {da, dz};
  }
};

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("iterated_inverse(Tensor a, Tensor z, int steps) -> (Tensor out, Tensor states)");
  m.def(
      "iterated_inverse_backward(Tensor dout, Tensor a, Tensor states) -> (Tensor da, Tensor dz)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("iterated_inverse", on_cpu);
  m.impl("iterated_inverse_backward", backward_on_cpu);
}

}  // namespace

Tensor iterated_inverse(const Tensor& a, const Tensor& z, int64_t steps) {
  TORCH_CHECK(a.dim() >= 2 && a.size(-1) == a.size(-2) && a.sizes() == z.sizes() && steps > 0,
              "iterated_inverse: a is ", a.sizes(), ", z ", z.sizes(), ", steps ", steps);
  const auto type = a.scalar_type();
  const bool kernel = a.is_cuda() ? type == at::kFloat && a.size(-1) <= kernels::kMostInverseOrder
                                  : a.is_cpu() && (type == at::kFloat || type == at::kDouble);
  if (!kernel || z.scalar_type() != type || a.numel() == 0)
    return iterated_inverse_formula(a, z, steps);
  const auto matrices = [&](const Tensor& x) { return x.reshape({-1, a.size(-2), a.size(-1)}); };
  return applied<Gradient>({matrices(a), matrices(z)}, steps)[0].view(a.sizes());
}

Tensor iterated_inverse_formula(const Tensor& a, const Tensor& z, int64_t steps) {
  const auto matrices = a.reshape({-1, a.size(-2), a.size(-1)});
  auto inverse = z.reshape(matrices.sizes());
  for (int64_t s = 0; s < steps; ++s) inverse = inverse.bmm(Step(matrices, inverse).y);
  return inverse.view(a.sizes());
}

}  // namespace longbow
