#include "longbow/nn/features/feature_attention.h"

#include <ATen/ATen.h>

#include "longbow/ops/causal_product.h"
#include "longbow/ops/feature_product.h"
#include "longbow/ops/feature_token.h"

namespace longbow {
namespace {

// A column of ones beside v carries the sum of the weights through the same products.
Tensor with_ones(const Tensor& v) {
  return at::constant_pad_nd(v.to(wide(v)), {0, 1}, 1);
}

FeatureSums split(const Tensor& sums) {
  const int64_t d = sums.size(-1) - 1;
  return {sums.narrow(-1, 0, d), sums.narrow(-1, d, 1)};
}

// Few keys are read sooner by their weights than by their sums.
bool few_keys(const Tensor& q, const Tensor& k, const Tensor& v) {
  const int64_t n = q.size(2), m = k.size(2), r = k.size(3), d = v.size(3);
  return n * m * (r + d) < (n + m) * r * d;
}

}  // namespace

Tensor without_padding(const Tensor& key_features, const Tensor& keep) {
  if (!keep.defined()) return key_features;
  return key_features.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

FeatureSums feature_sums(const Tensor& q, const Tensor& k, const Tensor& given, bool causal) {
  const auto v = given.is_cpu() ? given.to(k.scalar_type()) : given;
  const bool few = few_keys(q, k, v);
  if (const FeatureProduct how = {.causal = causal}; !few && has_feature_kernel(q, k, v, how)) {
    const auto [values, weights] = feature_product_sums(q, k, v, how);
    return {values, weights.unsqueeze(-1)};
  }
  if (!causal && !few) {  // two products: a column of ones would spoil the alignment of the first
    const auto sums = k.transpose(-2, -1).matmul(v.to(k.scalar_type()));
    const auto total = k.sum(-2, true, wide(k)).to(q.scalar_type()).transpose(-2, -1);
    return {q.matmul(sums), q.matmul(total)};
  }
  const auto values = with_ones(v);
  if (few) {
    const auto weights = q.to(wide(q)).matmul(k.to(wide(k)).transpose(-2, -1));
    return split((causal ? weights.tril(k.size(2) - q.size(2)) : weights).matmul(values));
  }
  const int64_t extra = k.size(2) - q.size(2);  // pad or cut the queries in front
  const auto wide_q = q.to(wide(q)), wide_k = k.to(wide(k));
  if (extra == 0) return split(causal_product(wide_q, wide_k, values));
  const auto square = at::constant_pad_nd(wide_q, {0, 0, extra, 0});
  return split(at::constant_pad_nd(causal_product(square, wide_k, values), {0, 0, -extra, 0}));
}

Tensor narrowed(const Tensor& features, const Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16 ? features.to(at::kBFloat16) : features;
}

void open_feature_sums(State& state, const Heads& empty, int64_t features) {
  const auto& v = empty.v;
  state.add("sums", {v.size(0), v.size(1), features, v.size(3) + 1}, v.options().dtype(wide(v)));
}

FeatureSums grow_feature_sums(const Tensor& q, const Tensor& k, const Tensor& v, State& state) {
  auto& sums = state.lane.at("sums");
  const auto wide_q = q.to(wide(q)), wide_k = k.to(wide(k));
  if (has_feature_token_kernel(wide_q, wide_k, v, sums)) {
    const auto found = feature_token(wide_q, wide_k, v, sums, {}, {});
    sums = found.sums;
    return split(found.out);
  }
  const auto values = with_ones(v);
  return split(grown_causal_product(wide_q, wide_k, values, sums));
}

void keep_memory_sums(State& state, const Tensor& k, const Tensor& v) {
  state.lane["sums"] = k.to(wide(k)).transpose(-2, -1).matmul(with_ones(v));  // [B, H, R, D + 1]
  state.fill["sums"] = 0;
}

FeatureSums read_memory_sums(const Tensor& q, const State& state) {
  return split(q.to(wide(q)).matmul(state.lane.at("sums")));
}

}  // namespace longbow
