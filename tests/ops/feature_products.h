#pragma once
#include <ATen/ATen.h>

#include "longbow/ops/feature_product.h"
#include "tests/support/tensor.h"

namespace longbow {

struct FeatureInputs {
  at::Tensor q, k, v, g;  // float64
  FeatureInputs(int64_t b, int64_t h, int64_t n, int64_t m, int64_t e, int64_t d)
      : q(random_normal({b, h, n, e}, 1) + 0.3),
        k(random_normal({b, h, m, e}, 2) + 0.3),
        v(random_normal({b, h, m, d}, 3) + 0.3),
        g(random_normal({b, h, n, d}, 4)) {}
};

// cos and sin of an angle that grows with the place, to less than a right angle: [1, n, 2]. Beyond
// it weights are negative and their sums may be next to nothing.
inline at::Tensor some_turns(int64_t n) {
  const auto a = at::arange(n, at::kDouble) * (1.5 / static_cast<double>(n));
  return at::stack({a.cos(), a.sin()}, -1).unsqueeze(0).to(at::kFloat);
}

// The definition, weight by weight: [B, H, N, M].
inline at::Tensor dense_weights(const at::Tensor& q, const at::Tensor& k,
                                const FeatureProduct& how) {
  const auto phi = [](const at::Tensor& x, FeatureMap map) {
    switch (map) {
      case FeatureMap::relu:
        return x.relu();
      case FeatureMap::elu:
        return at::elu(x) + 1;
      case FeatureMap::square:
        return x * x;
      case FeatureMap::exp:
        return x.clamp_max(35).exp();
      default:
        return x;
    }
  };
  auto w = at::einsum("bhie,bhje->bhij", {phi(q, how.query_map), phi(k, how.key_map)});
  if (how.query_turns.defined())
    w = w * at::einsum("bic,bjc->bij", {how.query_turns.to(w), how.key_turns.to(w)}).unsqueeze(1);
  if (how.keep.defined()) w = w * how.keep.unsqueeze(1).unsqueeze(1);
  return how.causal ? w.tril() : w;
}
inline at::Tensor dense_feature_product(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const FeatureProduct& how) {
  const auto w = dense_weights(q, k, how);
  if (!how.normalised) return w.matmul(v);
  return (w / (w.sum(-1, true) + how.added).clamp_min(how.least)).matmul(v);
}

// Values and beside them the weights' sums, in the type of the values.
inline at::Tensor beside(const WeightedSums& sums) {
  return at::cat({sums.values.to(sums.weights.scalar_type()), sums.weights.unsqueeze(-1)}, -1);
}
inline at::Tensor dense_sums(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const FeatureProduct& how) {
  const auto w = dense_weights(q, k, how);
  return beside({w.matmul(v), w.sum(-1)});
}

struct FeatureResults {
  at::Tensor out, dq, dk, dv;  // float64, on the CPU
};
template <class F>
FeatureResults results_of(const FeatureInputs& in, const at::TensorOptions& options,
                          const F& product) {
  const auto given = [&](const at::Tensor& t) {
    return t.to(options, false, true).requires_grad_();
  };
  const auto q = given(in.q), k = given(in.k), v = given(in.v);
  const auto out = product(q, k, v);
  out.backward(in.g.to(out.options()));
  const auto back = [](const at::Tensor& t) { return t.detach().cpu().to(at::kDouble); };
  return {back(out), back(q.grad()), back(k.grad()), back(v.grad())};
}

}  // namespace longbow
