#pragma once
#include <ATen/ATen.h>

#include <cmath>

#include "longbow/ops/random_window.h"
#include "tests/support/tensor.h"

namespace longbow {

struct WindowInputs {
  at::Tensor q, k, v, g, omega;  // float64
  WindowInputs(int64_t b, int64_t h, int64_t n, int64_t e, int64_t d, int64_t p)
      : q(random_normal({b, h, n, e}, 1) * 0.6 + 0.2),
        k(random_normal({b, h, n, e}, 2) * 0.6 + 0.2),
        v(random_normal({b, h, n, d}, 3) + 0.3),
        g(random_normal({b, h, n, d}, 4)),
        omega(random_normal({h, p, e}, 5)) {}

  RandomWindow way(bool mirrored, int64_t back, int64_t ahead, const at::Tensor& keep = {},
                   bool causal = false) const {
    return {.omega = omega,
            .mirrored = mirrored,
            .scale = std::pow(static_cast<double>(q.size(3)), -0.25),
            .keep = keep,
            .back = back,
            .ahead = causal ? 0 : ahead,
            .causal = causal};
  }
};

// The definition, weight by weight, without peaks.
inline at::Tensor dense_random_window(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      const RandomWindow& how) {
  const auto phi = [&](const at::Tensor& x) {
    const auto y = x * how.scale;
    const auto u = at::einsum("bhne,hpe->bhnp", {y, how.omega.expand({x.size(1), -1, -1})});
    const auto half = (y * y).sum(-1, true) / 2;
    return how.mirrored ? at::cat({(u - half).exp(), (-u - half).exp()}, -1) : (u - half).exp();
  };
  const auto queries = phi(q);
  const auto w = queries.matmul(phi(k).transpose(-2, -1)) / static_cast<double>(queries.size(-1));
  const auto place = at::arange(q.size(2));
  const auto behind = place.unsqueeze(1) - place;
  const auto near = (behind <= how.back).logical_and(behind >= -how.ahead);
  auto m = at::where(near, (q.matmul(k.transpose(-2, -1)) * how.scale * how.scale).exp(), w);
  if (how.keep.defined()) m = m * how.keep.unsqueeze(1).unsqueeze(1);
  if (how.causal) m = m.tril();
  return (m / m.sum(-1, true).clamp_min(1e-200)).matmul(v);
}

// out, dq, dk, dv; float64, on the CPU.
template <class F>
std::vector<at::Tensor> random_window_results(const WindowInputs& in, RandomWindow how,
                                              const at::TensorOptions& options, const F& product) {
  const auto given = [&](const at::Tensor& t) {
    return t.to(options, false, true).requires_grad_();
  };
  const auto q = given(in.q), k = given(in.k), v = given(in.v);
  how.omega = how.omega.to(options);
  if (how.keep.defined()) how.keep = how.keep.to(options.device());
  const at::Tensor out = product(q, k, v, how);
  out.backward(in.g.to(options));
  std::vector<at::Tensor> results;
  for (const auto& t : {out, q.grad(), k.grad(), v.grad()})
    results.push_back(t.detach().cpu().to(at::kDouble));
  return results;
}

}  // namespace longbow
