#pragma once
#include "longbow/ops/layer_norm.h"
#include "tests/support/tensor.h"

namespace longbow {

struct Normed {
  at::Tensor y, dx, dweight, dbias;  // in float64, on the CPU
};
struct NormInputs {
  at::Tensor x, weight, bias, dy;
  NormInputs(int64_t rows, int64_t width)
      : x(random_normal({rows, width}, 1) * 3 + 1),
        weight(random_normal({width}, 2) + 1),
        bias(random_normal({width}, 3)),
        dy(random_normal({rows, width}, 4)) {}
};

template <class F>
Normed normed(const NormInputs& in, const at::TensorOptions& options, const F& norm) {
  const auto given = [&](const at::Tensor& t) {
    return t.to(options, false, true).requires_grad_();
  };
  const auto x = given(in.x), weight = given(in.weight), bias = given(in.bias);
  const auto y = norm(x, weight, bias);
  y.backward(in.dy.to(options));
  const auto back = [](const at::Tensor& t) { return t.detach().cpu().to(at::kDouble); };
  return {back(y), back(x.grad()), back(weight.grad()), back(bias.grad())};
}

// The definition, differentiated by LibTorch.
inline at::Tensor norm_formula(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& bias) {
  const auto centred = x - x.mean(-1, true);
  return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * weight + bias;
}

}  // namespace longbow
