#pragma once
#include <ATen/ATen.h>

#include "longbow/ops/random_product.h"
#include "tests/support/tensor.h"

namespace longbow {

struct RandomInputs {
  at::Tensor q, k, v, g, omega, sigma;  // float64
  RandomInputs(int64_t b, int64_t h, int64_t n, int64_t m, int64_t e, int64_t d, int64_t p)
      : q(random_normal({b, h, n, e}, 1) * 0.6 + 0.2),
        k(random_normal({b, h, m, e}, 2) * 0.6 + 0.2),
        v(random_normal({b, h, m, d}, 3) + 0.3),
        g(random_normal({b, h, n, d}, 4)),
        omega(random_normal({h, p, e}, 5)),
        sigma(random_normal({h, e}, 6) * 0.2 + 1) {}

  // Without sigma where the map has none.
  RandomProduct way(RandomMap map, const at::Tensor& keep = {}, bool causal = false) const {
    const bool exponential = map == RandomMap::exponential;
    const auto e = static_cast<double>(q.size(3)), p = static_cast<double>(omega.size(1));
    RandomProduct how = {.map = map,
                         .omega = omega,
                         .scale = exponential ? std::pow(e, -0.25) : 1 / std::sqrt(p),
                         .keep = keep,
                         .causal = causal};
    if (!exponential) {
      how.sigma = sigma;
      how.least = causal
                      ? (at::arange(q.size(2), at::kDouble) + 1).mul(0.01).expand({q.size(0), -1})
                      : at::full({q.size(0)}, 0.01 * static_cast<double>(k.size(2)), at::kDouble);
    }
    return how;
  }
};

// The definition, weight by weight, without peaks.
inline at::Tensor dense_random_product(const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& v, const RandomProduct& how) {
  const auto phi = [&](const at::Tensor& x) {
    if (how.map == RandomMap::exponential) {
      const auto y = x * how.scale;
      return (at::einsum("bhne,hpe->bhnp", {y, how.omega.expand({x.size(1), -1, -1})}) -
              (y * y).sum(-1, true) / 2)
          .exp();
    }
    const auto y = x / ((x * x).sum(-1, true).sqrt() + 1e-3);
    const auto u = at::einsum("bhne,hpe,he->bhnp", {y, how.omega, how.sigma});
    return at::cat({u.sin(), u.cos()}, -1) * how.scale;
  };
  auto w = phi(q).matmul(phi(k).transpose(-2, -1));
  if (how.keep.defined()) w = w * how.keep.unsqueeze(1).unsqueeze(1);
  if (how.causal) w = w.tril();
  auto least = at::full({}, 1e-200, w.options());
  if (how.least.defined())
    least = how.causal ? how.least.unsqueeze(1).unsqueeze(-1) : how.least.view({-1, 1, 1, 1});
  return (w / at::maximum(w.sum(-1, true), least)).matmul(v);
}

struct RandomResults {
  std::vector<at::Tensor> all;  // out, dq, dk, dv, dsigma where there is one; float64, on the CPU
};
template <class F>
RandomResults random_results(const RandomInputs& in, RandomProduct how,
                             const at::TensorOptions& options, const F& product) {
  const auto given = [&](const at::Tensor& t) {
    return t.to(options, false, true).requires_grad_();
  };
  const auto q = given(in.q), k = given(in.k), v = given(in.v);
  how.omega = how.omega.to(options);
  for (auto* t : {&how.keep, &how.least})
    if (t->defined()) *t = t->to(options.device());
  const bool learned = how.sigma.defined();
  if (learned) how.sigma = given(how.sigma);
  const auto out = product(q, k, v, how);
  out.backward(in.g.to(options));
  RandomResults results;
  const auto add = [&](const at::Tensor& t) {
    results.all.push_back(t.detach().cpu().to(at::kDouble));
  };
  for (const auto& t : {out, q.grad(), k.grad(), v.grad()}) add(t);
  if (learned) add(how.sigma.grad());
  return results;
}

}  // namespace longbow
