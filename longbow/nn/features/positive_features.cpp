#include "longbow/nn/features/positive_features.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace longbow {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

Tensor largest(const Tensor& logs, at::IntArrayRef dims) {
  return logs.detach().amax(dims, true).clamp_min(kNothingSeen);
}

// The causal sums for as many queries as keys. With c_t the largest log feature l_jr of j <= t,
//   A_t = exp(c_(t-1) - c_t) A_(t-1) + exp(l_t - c_t) [v_t, 1]^T,   out_t = A_t^T phi(q_t);
// the state holds A and c, and c is returned. In chunks all tokens are done at once, and only the
// states between chunks one after the other. No exponent of a visible pair is above zero.
std::pair<FeatureSums, Tensor> running(const Tensor& q, const Tensor& key_logs, const Tensor& v,
                                       State& state) {
  constexpr int64_t kChunk = 64;
  const int64_t length = key_logs.size(2), size = std::clamp<int64_t>(length, 1, kChunk),
                chunks = std::max<int64_t>(1, (length + size - 1) / size), d = v.size(3);
  const auto cut = [&](const Tensor& t, double fill) {  // [B, H, chunks, size, ...]
    return at::constant_pad_nd(t, {0, 0, 0, chunks * size - length}, fill)
        .unflatten(2, {chunks, size});
  };
  const auto whole = [&](const Tensor& t) { return t.flatten(2, 3).narrow(2, 0, length); };
  auto &sums = state.lane.at("sums"), &peak = state.lane.at("peak");
  const auto x = cut(q, 0), l = cut(key_logs, kMinusInfinity),
             z = cut(at::constant_pad_nd(v.to(wide(v)), {0, 1}, 1), 0);
  const auto reached = at::maximum(l.detach().amax(-1).flatten(2), peak.unsqueeze(-1));
  const auto c = std::get<0>(reached.cummax(2)).unflatten(2, {chunks, size}).unsqueeze(-1);
  const auto last = c.narrow(3, size - 1, 1);  // [B, H, chunks, 1, 1]
  const auto first =
      at::cat({peak.view({peak.size(0), -1, 1, 1, 1}), last.narrow(2, 0, chunks - 1)}, 2);

  const auto fading = (c.transpose(-2, -1) - c).clamp_max(0).exp();  // [.., size, size], c_j - c_t
  const auto weights = (x.matmul((l - c).exp().transpose(-2, -1)) * fading).tril();
  const auto added = (l - last).exp().transpose(-2, -1).matmul(z).unbind(2);  // [B, H, R, D + 1]
  const auto kept = (first - last).exp().unbind(2);
  std::vector<Tensor> before;
  for (size_t i = 0; i < added.size(); ++i) {
    before.push_back(sums);
    sums = kept[i] * sums + added[i];
  }
  peak = last.select(2, chunks - 1).flatten(1);
  const auto y = whole(weights.matmul(z) + (first - c).exp() * x.matmul(at::stack(before, 2)));
  return {{y.narrow(3, 0, d), y.narrow(3, d, 1)}, whole(c)};
}

}  // namespace

Projected project(const Tensor& x, const Tensor& omega, bool mirrored) {
  const auto scaled = x.to(wide(x)) * std::pow(static_cast<double>(x.size(-1)), -0.25);
  const auto u = scaled.matmul(omega.to(scaled.scalar_type()).transpose(-2, -1));
  return {mirrored ? at::cat({u, -u}, -1) : u, scaled.square().sum(-1, true) / 2};
}

Tensor log_features(const Tensor& x, const Tensor& omega, bool mirrored) {
  const auto p = project(x, omega, mirrored);
  return p.u - (p.half + std::log(static_cast<double>(p.u.size(-1))) / 2);
}

int64_t usual_features(int64_t width, bool mirrored) {
  const auto d = static_cast<double>(width);
  const auto whole = static_cast<int64_t>(d * std::log(d));
  return mirrored ? std::max<int64_t>(2, whole / 2 * 2) : std::max<int64_t>(1, whole);
}

Tensor without_padded_logs(const Tensor& key_logs, const Tensor& keep) {
  if (!keep.defined()) return key_logs;
  return key_logs.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(-1), kMinusInfinity);
}

PositiveSums positive_sums(const Tensor& query_logs, const Tensor& key_logs, const Tensor& v,
                           bool causal) {
  const auto query_peak = largest(query_logs, {-1}), q = (query_logs - query_peak).exp();
  if (!causal) {
    const auto key_peak = largest(key_logs, {2, 3});
    return {feature_sums(q, (key_logs - key_peak).exp(), v, false), q, query_peak, key_peak};
  }
  // Pad or cut the queries in front. One before the first key has seen nothing.
  const int64_t extra = key_logs.size(2) - query_logs.size(2);
  const auto shifted = [](const Tensor& t, int64_t by, double fill = 0) {
    return by == 0 ? t : at::constant_pad_nd(t, {0, 0, by, 0}, fill);
  };
  State nothing;
  open_positive_sums(nothing, {.v = v}, key_logs.size(3));
  const auto [sums, key_peak] = running(shifted(q, extra), key_logs, v, nothing);
  return {{shifted(sums.values, -extra), shifted(sums.weights, -extra)},
          q,
          query_peak,
          shifted(key_peak, -extra, kNothingSeen)};
}

void open_positive_sums(State& state, const Heads& empty, int64_t features) {
  const auto& v = empty.v;
  open_feature_sums(state, empty, features);
  state.add("peak", {v.size(0), v.size(1)}, v.options().dtype(wide(v)), kNothingSeen);
}

PositiveSums grow_positive_sums(const Tensor& query_logs, const Tensor& key_logs, const Tensor& v,
                                State& state) {
  const auto query_peak = largest(query_logs, {-1}), q = (query_logs - query_peak).exp();
  const auto [sums, key_peak] = running(q, key_logs, v, state);
  return {sums, q, query_peak, key_peak};
}

}  // namespace longbow
