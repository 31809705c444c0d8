#include "longbow/ops/random_window_formula.h"

#include <ATen/ATen.h>

#include <cmath>

namespace longbow {

using at::Tensor;

void check_random_window(const Tensor& q, const Tensor& k, const Tensor& v,
                         const RandomWindow& how) {
  TORCH_CHECK(q.dim() == 4 && v.dim() == 4 && k.sizes() == q.sizes() &&
                  v.sizes().slice(0, 3) == q.sizes().slice(0, 3),
              "random_window: q is ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  const auto& omega = how.omega;
  TORCH_CHECK(omega.dim() == 3 && (omega.size(0) == 1 || omega.size(0) == q.size(1)) &&
                  omega.size(2) == q.size(3),
              "random_window: omega is ", omega.sizes(), ", but q is ", q.sizes());
  TORCH_CHECK(
      !how.keep.defined() || (how.keep.dim() == 2 && how.keep.size(0) == k.size(0) &&
                              how.keep.size(1) == k.size(2) && how.keep.scalar_type() == at::kBool),
      "random_window: keep is ", how.keep.sizes(), " ", how.keep.scalar_type(), ", but k is ",
      k.sizes());
  TORCH_CHECK(how.back >= 0 && how.ahead >= 0 && (!how.causal || how.ahead == 0),
              "random_window: from ", how.back, " tokens before a query to ", how.ahead,
              " after it", how.causal ? ", but causal" : "");
}

namespace {

Tensor widened(const Tensor& x) {
  return x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

// The features of queries or keys relative to their largest exponent, which is a constant.
struct Side {
  Tensor y, omega, features, peaks;

  Side(const Tensor& x, const RandomWindow& how, const Tensor& hidden, at::IntArrayRef dims)
      : y(widened(x) * how.scale), omega(how.omega.to(y.scalar_type())) {
    if (how.mirrored) omega = at::cat({omega, -omega}, 1);
    auto logs = y.matmul(omega.transpose(-2, -1)) - y.square().sum(-1, true) / 2;
    if (hidden.defined()) logs = logs.masked_fill(hidden, -INFINITY);
    peaks = logs.amax(dims, true).clamp_min(-1e30);
    features = (logs - peaks).exp();
  }
  Tensor backward(const Tensor& dphi, double scale) const {
    const auto du = features * dphi;
    return scale * (du.matmul(omega) - y * du.sum(-1, true));
  }
};

struct Weights {
  Tensor hidden;  // keys, [B, 1, N, 1]; undefined where all are kept
  Side queries, keys;
  Tensor exact, far;   // [B, H, N, N]: M in the window and elsewhere, relative to exp(c)
  Tensor share;        // [B, H, N, N]: of the product of two features, 0 in the window
  Tensor v, out, sum;  // wide; the sum is at least 1e-30
  Tensor nothing;      // seen, [B, H, N, 1]

  Weights(const Tensor& q, const Tensor& k, const Tensor& values, const RandomWindow& how)
      : hidden(how.keep.defined() ? how.keep.logical_not().unsqueeze(1).unsqueeze(-1) : Tensor()),
        queries(q, how, {}, {-1}),
        keys(k, how, hidden, {2, 3}),
        v(widened(values)) {
    const auto place = at::arange(q.size(2), q.options().dtype(at::kLong));
    const auto behind = place.unsqueeze(1) - place;
    auto seen = (behind <= how.back).logical_and(behind >= -how.ahead), near = seen;
    if (how.causal) near = near.logical_or(behind < 0);
    if (hidden.defined()) seen = seen.logical_and(hidden.logical_not().transpose(-2, -1));
    const auto scores =
        queries.y.matmul(keys.y.transpose(-2, -1)).masked_fill(seen.logical_not(), -INFINITY);
    const auto peak =
        queries.peaks + keys.peaks - std::log(static_cast<double>(queries.omega.size(1)));
    const auto c = at::maximum(peak, scores.amax(-1, true));
    share = (peak - c).exp().expand_as(scores).masked_fill(near, 0);
    exact = (scores - c).exp();
    far = queries.features.matmul(keys.features.transpose(-2, -1)) * share;
    const auto all = exact + far;
    sum = all.sum(-1, true);
    nothing = sum < 1e-30;
    sum = sum.clamp_min(1e-30);
    out = all.matmul(v) / sum;
  }
};

}  // namespace

Tensor random_window_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                             const RandomWindow& how) {
  return Weights(q, k, v, how).out.to(v.scalar_type());
}

// With y = g / sum M and column_i = -out_i . y_i the gradient of M_ij is y_i . v_j + column_i.
std::array<Tensor, 3> random_window_gradient(const Tensor& g, const Tensor& q, const Tensor& k,
                                             const Tensor& v, const RandomWindow& how) {
  const Weights w(q, k, v, how);
  const auto y = widened(g) / w.sum;
  const auto column = -(w.out * y).sum(-1, true).masked_fill(w.nothing, 0);
  const auto dm = y.matmul(w.v.transpose(-2, -1)) + column;
  const auto ds = dm * w.exact, dw = dm * w.share;
  const auto dq =
      how.scale * ds.matmul(w.keys.y) + w.queries.backward(dw.matmul(w.keys.features), how.scale);
  const auto dk = how.scale * ds.transpose(-2, -1).matmul(w.queries.y) +
                  w.keys.backward(dw.transpose(-2, -1).matmul(w.queries.features), how.scale);
  const auto dv = (w.exact + w.far).transpose(-2, -1).matmul(y);
  return {dq.to(q.scalar_type()), dk.to(k.scalar_type()), dv.to(v.scalar_type())};
}

}  // namespace longbow
