#include "longbow/nn/feature_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "longbow/ops/causal_product.h"

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

}  // namespace

Tensor without_padding(const Tensor& key_features, const Tensor& keep) {
  if (!keep.defined()) return key_features;
  return key_features.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

FeatureSums feature_sums(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  const auto values = with_ones(v);
  if (!causal) return split(q.matmul(k.transpose(-2, -1).matmul(values)));
  const int64_t extra = k.size(2) - q.size(2);  // pad or cut the queries in front
  if (extra == 0) return split(causal_product(q, k, values));
  const auto square = at::constant_pad_nd(q, {0, 0, extra, 0});
  return split(at::constant_pad_nd(causal_product(square, k, values), {0, 0, -extra, 0}));
}

void open_feature_sums(State& state, const Heads& empty, int64_t features) {
  const auto& v = empty.v;
  state.add("sums", {v.size(0), v.size(1), features, v.size(3) + 1}, v.options().dtype(wide(v)));
}

FeatureSums grow_feature_sums(const Tensor& q, const Tensor& k, const Tensor& v, State& state) {
  auto& sums = state.lane.at("sums");
  const auto values = with_ones(v);
  const auto y = q.matmul(sums) + causal_product(q, k, values);
  sums = sums + k.transpose(-2, -1).matmul(values);
  return split(y);
}

// In chunks, with G counted from the start of each, so that no exponent is positive.
Tensor decayed_product(const Tensor& q, const Tensor& k, const Tensor& z, const Tensor& log_decay,
                       Tensor& sums) {
  const int64_t length = q.size(2), chunk = std::clamp<int64_t>(length, 1, 64);
  const int64_t chunks = (length + chunk - 1) / chunk;
  const auto cut = [&](const Tensor& t) {  // [B, H, chunks, chunk, …]
    return at::constant_pad_nd(t, {0, 0, 0, chunks * chunk - length}).unflatten(2, {chunks, chunk});
  };
  const auto a = cut(q), b = cut(k), c = cut(z), g = cut(log_decay).cumsum(-2);
  const auto whole = g.narrow(-2, chunk - 1, 1);
  const auto future = at::ones({chunk, chunk}, g.options().dtype(at::kBool)).triu(1);
  const auto decay = (g - g.transpose(-2, -1)).masked_fill(future, -INFINITY).exp();
  const auto inside = (a.matmul(b.transpose(-2, -1)) * decay).matmul(c);
  const auto added = (b * (whole - g).exp()).transpose(-2, -1).matmul(c);  // [B, H, chunks, R, E]
  std::vector<Tensor> before;
  for (int64_t i = 0; i < chunks; ++i) {
    before.push_back(sums);
    sums = sums * whole.select(2, i).exp() + added.select(2, i);
  }
  const auto outside = (a * g.exp()).matmul(at::stack(before, 2));
  return (inside + outside).flatten(2, 3).narrow(2, 0, length);
}

}  // namespace longbow
