#include "longbow/ops/feature_product_formula.h"

#include <ATen/ATen.h>

#include "longbow/ops/causal_product.h"

namespace longbow {

using at::Tensor;

void check_feature_product(const Tensor& q, const Tensor& k, const Tensor& v,
                           const FeatureProduct& how) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(3) == k.size(3) &&
                  k.size(2) == v.size(2) && q.size(0) == k.size(0) && q.size(0) == v.size(0) &&
                  q.size(1) == k.size(1) && q.size(1) == v.size(1),
              "feature_product: q is ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
              "feature_product: q, k, v are ", q.scalar_type(), ", ", k.scalar_type(), ", ",
              v.scalar_type());
  TORCH_CHECK(
      !how.keep.defined() || (how.keep.dim() == 2 && how.keep.size(0) == k.size(0) &&
                              how.keep.size(1) == k.size(2) && how.keep.scalar_type() == at::kBool),
      "feature_product: keep is ", how.keep.sizes(), " ", how.keep.scalar_type(), ", but k is ",
      k.sizes());
  TORCH_CHECK(how.query_turns.defined() == how.key_turns.defined(),
              "feature_product: either queries and keys are turned, or neither");
  TORCH_CHECK(!how.causal || q.size(2) == k.size(2), "feature_product: causal, but q is ",
              q.sizes(), " and k ", k.sizes());
  const auto check_turns = [](const Tensor& turns, const Tensor& x) {
    TORCH_CHECK(!turns.defined() ||
                    (turns.dim() == 3 && (turns.size(0) == 1 || turns.size(0) == x.size(0)) &&
                     turns.size(1) == x.size(2) && turns.size(2) == 2),
                "feature_product: turns are ", turns.sizes(), " of tokens ", x.sizes());
  };
  check_turns(how.query_turns, q);
  check_turns(how.key_turns, k);
}

namespace {

Tensor widened(const Tensor& x) {
  return x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

Tensor mapped(const Tensor& x, FeatureMap map) {
  switch (map) {
    case FeatureMap::relu:
      return x.relu();
    case FeatureMap::elu:
      return x.clamp_max(0).exp() + x.relu();
    case FeatureMap::square:
      return x.square();
    case FeatureMap::exp:
      return x.clamp_max(35).exp();
    default:
      return x;
  }
}
Tensor slope(const Tensor& x, FeatureMap map) {
  switch (map) {
    case FeatureMap::relu:
      return (x > 0).to(x.scalar_type());
    case FeatureMap::elu:
      return x.clamp_max(0).exp();
    case FeatureMap::square:
      return 2 * x;
    case FeatureMap::exp:
      return x.exp().masked_fill(x > 35, 0);
    default:
      return at::ones_like(x);
  }
}

// [1 or B, 1, N, 1] of the numbers `which` of each token.
Tensor turn(const Tensor& turns, int64_t which, const Tensor& x) {
  return turns.select(2, which).unsqueeze(1).unsqueeze(-1).to(x.scalar_type());
}

// [B, H, N, E or 2 E].
Tensor features(const Tensor& x, FeatureMap map, const Tensor& turns, const Tensor& keep) {
  auto y = mapped(x, map);
  if (turns.defined()) y = at::cat({y * turn(turns, 0, y), y * turn(turns, 1, y)}, -1);
  return keep.defined() ? y.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(-1), 0) : y;
}
Tensor features_backward(const Tensor& dphi, const Tensor& x, FeatureMap map, const Tensor& turns,
                         const Tensor& keep) {
  auto dy = dphi;
  if (turns.defined()) {
    const auto halves = dphi.chunk(2, -1);
    dy = halves[0] * turn(turns, 0, dphi) + halves[1] * turn(turns, 1, dphi);
  }
  const auto dx = dy * slope(x, map);
  return keep.defined() ? dx.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(-1), 0) : dx;
}

// sum over the keys j that i sees of (x_i . y_j) z_j; `reversed`: over the queries that see it.
Tensor product(const Tensor& x, const Tensor& y, const Tensor& z, const FeatureProduct& how,
               bool reversed = false) {
  if (how.causal) return causal_product(x, y, z, reversed);
  return x.matmul(y.transpose(-2, -1).matmul(z));
}

// All of it in the wide type, with what the gradient needs.
struct Parts {
  Tensor q, k, v;           // v with a column of ones, which carries the sums of weights
  Tensor queries, keys;     // features
  Tensor values, weights;   // [B, H, N, D], [B, H, N, 1]
  Tensor inverse, divided;  // 1 / d, whether d depends on w

  Parts(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
        const FeatureProduct& how)
      : q(widened(given_q)),
        k(widened(given_k)),
        v(at::constant_pad_nd(widened(given_v), {0, 1}, 1)) {
    queries = features(q, how.query_map, how.query_turns, {});
    keys = features(k, how.key_map, how.key_turns, how.keep);
    const auto read = product(queries, keys, v, how);
    values = read.narrow(-1, 0, given_v.size(3));
    weights = read.narrow(-1, given_v.size(3), 1);
    divided = weights + how.added >= how.least;
    inverse =
        how.normalised ? 1 / (weights + how.added).clamp_min(how.least) : at::ones_like(weights);
  }
};

Three forward(const Tensor& q, const Tensor& k, const Tensor& v, const FeatureProduct& how) {
  check_feature_product(q, k, v, how);
  const Parts p(q, k, v, how);
  return {(p.values * p.inverse).to(v.scalar_type()),
          (how.normalised ? at::where(p.divided, p.inverse, -p.inverse) : p.weights).squeeze(-1),
          at::empty({0}, p.q.options())};
}

// With y = g / d and beside it the column -(values . y) / d, the gradient of the weights' sum, all
// three are products of the same kind.
Three backward(const Tensor& g, const Tensor& dweights, const Tensor& q, const Tensor& k,
               const Tensor& v, const FeatureProduct& how) {
  const Parts p(q, k, v, how);
  const auto slopes = widened(g) * p.inverse;
  const auto column =
      how.normalised
          ? (-(p.values * slopes).sum(-1, true) * p.inverse).masked_fill(p.divided.logical_not(), 0)
          : dweights.to(slopes.scalar_type()).unsqueeze(-1);
  const auto y = at::cat({slopes, column}, -1);
  const auto dqueries = product(y, p.v, p.keys, how), dkeys = product(p.v, y, p.queries, how, true),
             dv = product(p.keys, p.queries, y, how, true).narrow(-1, 0, v.size(3));
  const auto dq = features_backward(dqueries, p.q, how.query_map, how.query_turns, {});
  const auto dk = features_backward(dkeys, p.k, how.key_map, how.key_turns, how.keep);
  return {dq.to(q.scalar_type()), dk.to(k.scalar_type()), dv.to(v.scalar_type())};
}

}  // namespace

Tensor feature_product_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                               const FeatureProduct& how) {
  return std::get<0>(forward(q, k, v, how));
}

FeatureProduct feature_product_of(const Maybe& keep, const Maybe& query_turns,
                                  const Maybe& key_turns, bool causal, at::IntArrayRef maps,
                                  at::ArrayRef<double> bounds) {
  TORCH_CHECK(maps.size() == 2 && (bounds.empty() || bounds.size() == 2),
              "feature_product: ", maps.size(), " maps and ", bounds.size(), " bounds");
  FeatureProduct how = {.query_map = static_cast<FeatureMap>(maps[0]),
                        .key_map = static_cast<FeatureMap>(maps[1]),
                        .query_turns = query_turns.value_or(Tensor()),
                        .key_turns = key_turns.value_or(Tensor()),
                        .keep = keep.value_or(Tensor()),
                        .causal = causal,
                        .normalised = !bounds.empty()};
  if (how.normalised) how.added = bounds[0], how.least = bounds[1];
  return how;
}

Three feature_product_by_aten(const Tensor& q, const Tensor& k, const Tensor& v, const Maybe& keep,
                              const Maybe& query_turns, const Maybe& key_turns, bool causal,
                              at::IntArrayRef maps, at::ArrayRef<double> bounds) {
  return forward(q, k, v, feature_product_of(keep, query_turns, key_turns, causal, maps, bounds));
}
Three feature_product_backward_by_aten(const Tensor& g, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const Tensor& inverse, const Tensor&,
                                       const Maybe& keep, const Maybe& query_turns,
                                       const Maybe& key_turns, bool causal, at::IntArrayRef maps,
                                       at::ArrayRef<double> bounds) {
  return backward(g, inverse, q, k, v,
                  feature_product_of(keep, query_turns, key_turns, causal, maps, bounds));
}

}  // namespace longbow
