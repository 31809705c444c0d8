#include "longbow/nn/features/positive_features.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "longbow/ops/decayed_product.h"
#include "longbow/ops/exponential_features.h"
#include "longbow/ops/feature_token.h"

namespace longbow {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

Tensor largest(const Tensor& logs, at::IntArrayRef dims) {
  return logs.detach().amax(dims, true).clamp_min(kNothingSeen);
}

// All keys relative to the largest of their peaks, [B, H, 1, 1].
PositiveFeatures of_one_peak(const PositiveFeatures& keys) {
  const auto peak = largest(keys.peak, {2});
  return {keys.phi * (keys.peak - peak).exp(), peak};
}

// The causal sums for as many queries as keys. With c_t the largest peak of j <= t,
//   A_t = exp(c_(t-1) - c_t) A_(t-1) + exp(peak_t - c_t) phi(k_t) [v_t, 1]^T,   out_t = A_t^T
//   phi(q_t);
// `sums` and `peak` [B, H] are A and c before the first token, and then those after the last. All
// c_t are returned. No exponent is above zero.
std::pair<FeatureSums, Tensor> running(const Tensor& q, const PositiveFeatures& keys,
                                       const Tensor& v, Tensor& sums, Tensor& peak) {
  const int64_t length = keys.phi.size(2), d = v.size(3);
  const auto before = peak.unsqueeze(-1).unsqueeze(-1);  // [B, H, 1, 1]
  const auto c = std::get<0>(at::maximum(keys.peak, before).cummax(2));
  const auto fading = at::cat({before, c.narrow(2, 0, length - 1)}, 2) - c;
  const auto y = keys.phi * (keys.peak - c).exp();
  const auto z = at::constant_pad_nd(v.to(wide(v)), {0, 1}, 1);
  const auto out = decayed_product(q, y, z, fading, {}, sums);
  peak = c.select(2, length - 1).squeeze(-1);
  return {{out.narrow(3, 0, d), out.narrow(3, d, 1)}, c};
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

PositiveFeatures features_of_logs(const Tensor& logs, const Tensor& keep) {
  const auto seen = without_padded_logs(logs, keep), peak = largest(seen, {-1});
  return {(seen - peak).exp(), peak};
}

PositiveFeatures positive_features(const Tensor& x, const Tensor& omega, bool mirrored,
                                   const Tensor& keep) {
  const auto y = x.is_cpu() ? x.to(wide(x)) : x;
  if (!has_exponential_kernel(y, Peak::token) || x.numel() == 0)
    return features_of_logs(log_features(x, omega, mirrored), keep);
  const double quarter = std::pow(static_cast<double>(x.size(-1)), -0.25);
  const auto [phi, peak] = exponential_features(y, omega, quarter, keep, Peak::token, mirrored);
  return {phi, peak - std::log(static_cast<double>(phi.size(-1))) / 2};
}

PositiveSums positive_sums(const PositiveFeatures& queries, const PositiveFeatures& keys,
                           const Tensor& v, bool causal) {
  if (!causal) {
    const auto [k, peak] = of_one_peak(keys);
    return {feature_sums(queries.phi, k, v, false), queries.phi, queries.peak, peak};
  }
  // Pad or cut the queries in front. One before the first key has seen nothing.
  const int64_t extra = keys.phi.size(2) - queries.phi.size(2);
  const auto shifted = [](const Tensor& t, int64_t by, double fill = 0) {
    return by == 0 ? t : at::constant_pad_nd(t, {0, 0, by, 0}, fill);
  };
  Tensor none, peak = at::full(v.sizes().slice(0, 2), kNothingSeen, keys.peak.options());
  const auto [sums, key_peak] = running(shifted(queries.phi, extra), keys, v, none, peak);
  return {{shifted(sums.values, -extra), shifted(sums.weights, -extra)},
          queries.phi,
          queries.peak,
          shifted(key_peak, -extra, kNothingSeen)};
}

void open_positive_sums(State& state, const Heads& empty, int64_t features) {
  const auto& v = empty.v;
  open_feature_sums(state, empty, features);
  state.add("peak", {v.size(0), v.size(1)}, v.options().dtype(wide(v)), kNothingSeen);
}

PositiveSums grow_positive_sums(const PositiveFeatures& queries, const PositiveFeatures& keys,
                                const Tensor& v, State& state) {
  auto &all = state.lane.at("sums"), &peak = state.lane.at("peak");
  if (has_feature_token_kernel(queries.phi, keys.phi, v, all)) {
    const auto found = feature_token(queries.phi, keys.phi, v, all, keys.peak, peak);
    all = found.sums;
    peak = found.peak;
    const int64_t d = v.size(3);
    return {{found.out.narrow(3, 0, d), found.out.narrow(3, d, 1)},
            queries.phi,
            queries.peak,
            peak.unsqueeze(-1).unsqueeze(-1)};
  }
  const auto [sums, key_peak] = running(queries.phi, keys, v, all, peak);
  return {sums, queries.phi, queries.peak, key_peak};
}

void keep_positive_memory(State& state, const PositiveFeatures& keys, const Tensor& v) {
  const auto [k, peak] = of_one_peak(keys);
  keep_memory_sums(state, k, v);
  state.lane["peak"] = peak;
  state.fill["peak"] = kNothingSeen;
}

PositiveSums read_positive_memory(const PositiveFeatures& queries, const State& state) {
  return {read_memory_sums(queries.phi, state), queries.phi, queries.peak, state.lane.at("peak")};
}

}  // namespace longbow
