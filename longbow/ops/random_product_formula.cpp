#include "longbow/ops/random_product_formula.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "longbow/ops/causal_product.h"
#include "longbow/ops/decayed_product_formula.h"

namespace longbow {

using at::Tensor;

void check_random_product(const Tensor& q, const Tensor& k, const Tensor& v,
                          const RandomProduct& how) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(3) == k.size(3) &&
                  k.size(2) == v.size(2) && q.size(0) == k.size(0) && q.size(0) == v.size(0) &&
                  q.size(1) == k.size(1) && q.size(1) == v.size(1),
              "random_product: q is ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  TORCH_CHECK(how.map != RandomMap::mirrored,
              "random_product: mirrored features are for random_window alone");
  const auto& omega = how.omega;
  TORCH_CHECK(omega.dim() == 3 && (omega.size(0) == 1 || omega.size(0) == q.size(1)) &&
                  omega.size(2) == q.size(3),
              "random_product: omega is ", omega.sizes(), ", but q is ", q.sizes());
  TORCH_CHECK(
      !how.sigma.defined() || (how.map == RandomMap::trigonometric && how.sigma.dim() == 2 &&
                               how.sigma.size(0) == q.size(1) && how.sigma.size(1) == q.size(3)),
      "random_product: sigma is ", how.sigma.sizes(), ", but q is ", q.sizes(),
      how.map == RandomMap::trigonometric ? "" : ", and the map has none");
  TORCH_CHECK(
      !how.keep.defined() || (how.keep.dim() == 2 && how.keep.size(0) == k.size(0) &&
                              how.keep.size(1) == k.size(2) && how.keep.scalar_type() == at::kBool),
      "random_product: keep is ", how.keep.sizes(), " ", how.keep.scalar_type(), ", but k is ",
      k.sizes());
  const auto& least = how.least;
  TORCH_CHECK(
      !least.defined() || (least.dim() == (how.causal ? 2 : 1) && least.size(0) == q.size(0) &&
                           (!how.causal || least.size(1) == q.size(2))),
      "random_product: least is ", least.sizes(), ", but q is ", q.sizes());
  TORCH_CHECK(!how.causal || q.size(2) == k.size(2), "random_product: causal, but q is ", q.sizes(),
              " and k ", k.sizes());
}

namespace {

Tensor widened(const Tensor& x) {
  return x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

// The features of queries or keys, with what their gradient needs.
struct Side {
  Tensor x, y;           // the wide x, and y = scale x or x / (|x| + 1e-3)
  Tensor omega, sigma;   // [1 or H, P, E], [H, 1, E] or undefined
  Tensor length;         // |x|, if trigonometric
  Tensor features, raw;  // [B, H, N, P or 2 P]; raw: exponents
  Tensor peaks;          // what features are relative to, if exponential

  Side(const Tensor& given, const RandomProduct& how)
      : x(widened(given)), omega(how.omega.to(x.scalar_type())) {
    if (how.map == RandomMap::exponential) {
      y = x * how.scale;
      raw = y.matmul(omega.transpose(-2, -1)) - y.square().sum(-1, true) / 2;
      return;
    }
    if (how.sigma.defined()) sigma = how.sigma.to(x.scalar_type()).unsqueeze(1);
    length = x.norm(2, {-1}, true);
    y = x / (length + kShort);
    const auto turned = sigma.defined() ? y * sigma : y;
    const auto u = turned.matmul(omega.transpose(-2, -1));
    features = at::cat({u.sin(), u.cos()}, -1) * how.scale;
  }

  // Relative to the largest exponent, a constant to the gradient; -1e30 where there is none.
  void raise(at::IntArrayRef dims) {
    peaks = raw.detach().amax(dims, true).clamp_min(-1e30);
    features = (raw - peaks).exp();
  }
  // The same of the keys up to each, so that none changes what was before it.
  void raise_in_turn() {
    peaks = std::get<0>(raw.detach().amax(-1, true).clamp_min(-1e30).cummax(2));  // [B, H, N, 1]
    features = (raw - peaks).exp();
  }
  void hide(const Tensor& keep) {
    const auto hidden = keep.logical_not().unsqueeze(1).unsqueeze(-1);
    (raw.defined() ? raw : features) =
        raw.defined() ? raw.masked_fill(hidden, -INFINITY) : features.masked_fill(hidden, 0);
  }

  // dx, and dsigma [H, E] where there is a sigma.
  std::pair<Tensor, Tensor> backward(const Tensor& dphi, const RandomProduct& how) const {
    if (how.map == RandomMap::exponential) {
      const auto du = features * dphi;
      return {how.scale * (du.matmul(omega) - y * du.sum(-1, true)), Tensor()};
    }
    const auto phi = features.chunk(2, -1), slopes = dphi.chunk(2, -1);
    const auto back = (phi[1] * slopes[0] - phi[0] * slopes[1]).matmul(omega);
    const auto dy = sigma.defined() ? back * sigma : back;
    // y changes by 1 / (|x| + 1e-3) across x, and less along it.
    const auto along = (x * dy).sum(-1, true) / (length + kShort).square() / length;
    return {dy / (length + kShort) - x * along.masked_fill(length == 0, 0),
            sigma.defined() ? (back * y).sum(at::IntArrayRef({0, 2})) : Tensor()};
  }

 private:
  static constexpr double kShort = 1e-3;
};

struct Parts {
  Side queries, keys;
  Tensor v;                       // with a column of ones, which carries the sums of weights
  Tensor values, weights, least;  // [B, H, N, D], [B, H, N, 1], what broadcasts to it
  bool causal;

  Parts(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
        const RandomProduct& how)
      : queries(given_q, how),
        keys(given_k, how),
        v(at::constant_pad_nd(widened(given_v), {0, 1}, 1)),
        causal(how.causal) {
    if (how.keep.defined()) keys.hide(how.keep);
    if (how.map == RandomMap::exponential) {
      queries.raise({-1});
      if (causal)
        keys.raise_in_turn();
      else
        keys.raise({2, 3});
    }
    const auto read = product(queries.features, keys.features, v);
    values = read.narrow(-1, 0, given_v.size(3));
    weights = read.narrow(-1, given_v.size(3), 1);
    const auto least_of = [&] {
      const auto all = how.least.to(weights.scalar_type()).unsqueeze(1).unsqueeze(-1);
      return how.causal ? all : all.unsqueeze(-1);
    };
    least = how.least.defined() ? least_of() : at::full({}, kLeastWeights, weights.options());
  }

  // sum over the keys j that i sees of (x_i . y_j) z_j; `reversed`: over the queries that see it.
  Tensor product(const Tensor& x, const Tensor& y, const Tensor& z, bool reversed = false) const {
    if (!causal) return x.matmul(y.transpose(-2, -1).matmul(z));
    if (!keys.peaks.defined()) return causal_product(x, y, z, reversed);
    const auto fading = at::constant_pad_nd(-keys.peaks.diff(1, 2), {0, 0, !reversed, reversed});
    Tensor sums;
    return decayed_product_formula(x, y, z, fading, {.reversed = reversed}, sums);
  }
};

}  // namespace

Tensor random_product_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                              const RandomProduct& how) {
  check_random_product(q, k, v, how);
  const Parts p(q, k, v, how);
  return (p.values / at::maximum(p.weights, p.least)).to(v.scalar_type());
}

Tensor random_log_sum(const Tensor& q, const Tensor& k, const Tensor& v, const RandomProduct& how) {
  const Parts p(q, k, v, how);
  const auto nothing = p.weights < p.least;  // false for what is not a number, which stays so
  const auto logs = p.weights.masked_fill(nothing, 1).log() + (p.queries.peaks + p.keys.peaks) -
                    std::log(static_cast<double>(how.omega.size(1)));
  return logs.masked_fill(nothing, -INFINITY);
}

// With y = g / d and beside it the column -(values . y) / d, the gradient of the weights' sum, all
// three are products of the same kind.
std::array<Tensor, 4> random_product_gradient(const Tensor& g, const Tensor& q, const Tensor& k,
                                              const Tensor& v, const RandomProduct& how,
                                              const Tensor& dlog_sum) {
  const Parts p(q, k, v, how);
  const auto denominator = at::maximum(p.weights, p.least);
  const auto slopes = widened(g) / denominator;
  const auto by_output = (p.values * slopes).sum(-1, true);
  const auto column = ((dlog_sum.defined() ? dlog_sum - by_output : -by_output) / denominator)
                          .masked_fill(p.weights < p.least, 0);
  const auto y = at::cat({slopes, column}, -1);
  const auto &queries = p.queries.features, &keys = p.keys.features;
  const auto [dq, by_queries] = p.queries.backward(p.product(y, p.v, keys), how);
  const auto [dk, by_keys] = p.keys.backward(p.product(p.v, y, queries, true), how);
  const auto dv = p.product(keys, queries, y, true).narrow(-1, 0, v.size(3));
  return {dq.to(q.scalar_type()), dk.to(k.scalar_type()), dv.to(v.scalar_type()),
          by_keys.defined() ? (by_queries + by_keys).to(how.sigma.scalar_type())
                            : at::empty({0}, g.options())};
}

}  // namespace longbow
