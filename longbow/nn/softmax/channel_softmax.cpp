#include "longbow/nn/softmax/channel_softmax.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "longbow/ops/differentiable.h"

namespace longbow {

Tensor ChannelSums::mean() const {
  return values / (weights + weights.eq(0));
}

ChannelSums ChannelSums::narrow(int64_t first, int64_t count) const {
  return each([&](const Tensor& t, double) { return t.narrow(-2, first, count); });
}

ChannelSums ChannelSums::padded(int64_t before, int64_t after) const {
  return each([&](const Tensor& t, double none) {
    return at::constant_pad_nd(t, {0, 0, before, after}, none);
  });
}

ChannelSums each_key(const Tensor& k, const Tensor& v) {
  const auto max = k.detach().clamp_min(ChannelSums::kLowest);
  const auto weights = (k - max).exp();
  return {max, weights * v, weights};
}

ChannelSums all_keys(const Tensor& k, const Tensor& v) {
  const auto max = k.detach().amax(-2, true).clamp_min(ChannelSums::kLowest);
  const auto weights = (k - max).exp();
  return {max, (weights * v).sum(-2, true), weights.sum(-2, true)};
}

ChannelSums joined(const ChannelSums& a, const ChannelSums& b) {
  const auto max = at::maximum(a.max, b.max);
  const auto left = (a.max - max).exp(), right = (b.max - max).exp();
  return {max, a.values * left + b.values * right, a.weights * left + b.weights * right};
}

ChannelSums joined_rows(const std::vector<ChannelSums>& parts) {
  std::vector<Tensor> max, values, weights;
  for (const auto& part : parts) {
    max.push_back(part.max);
    values.push_back(part.values);
    weights.push_back(part.weights);
  }
  return {at::cat(max, -2), at::cat(values, -2), at::cat(weights, -2)};
}

// Neighbours are joined, the half as long sequence is solved, and what lies between is filled in.
ChannelSums running(const ChannelSums& x) {
  const int64_t n = x.max.size(-2), half = n / 2;
  if (n == 1) return x;
  const auto every_second = [&](int64_t first) {
    return x.each([&](const Tensor& t, double) { return t.slice(-2, first, n, 2); });
  };
  const auto even = every_second(0), odd = every_second(1);
  const auto odds = running(joined(even.narrow(0, half), odd));
  const auto evens = joined(odds.padded(1, n % 2 - 1), even), filled = odds.padded(0, n % 2);
  const auto interleaved = [&](const Tensor& a, const Tensor& b) {
    return at::stack({a, b}, -2).flatten(-3, -2).narrow(-2, 0, n);
  };
  return {interleaved(evens.max, filled.max), interleaved(evens.values, filled.values),
          interleaved(evens.weights, filled.weights)};
}

void open_channel_sums(State& state, const Tensor& k, const Tensor& v, const std::string& name) {
  const auto row = [](const Tensor& t) {
    return std::vector<int64_t>{t.size(0), t.size(1), 1, t.size(3)};
  };
  state.add(name + "max", row(k), k.options(), ChannelSums::kLowest);
  state.add(name + "values", row(v), v.options());
  state.add(name + "weights", row(k), k.options());
}

ChannelSums seen_channel_sums(const State& state, const std::string& name) {
  const auto& lane = state.lane;
  return {lane.at(name + "max"), lane.at(name + "values"), lane.at(name + "weights")};
}

void set_channel_sums(State& state, const ChannelSums& sums, const std::string& name) {
  state.lane.at(name + "max") = sums.max;
  state.lane.at(name + "values") = sums.values;
  state.lane.at(name + "weights") = sums.weights;
}

ChannelSums grow_channel_sums(const Tensor& k, const Tensor& v, State& state,
                              const std::string& name) {
  const auto all = running(joined_rows({seen_channel_sums(state, name), each_key(k, v)}));
  set_channel_sums(state, all.narrow(k.size(2), 1), name);
  return all.narrow(1, k.size(2));
}

namespace {

Tensor biases(const Tensor& left, const Tensor& right) {
  return right.defined() ? left.matmul(right.transpose(-2, -1)) : left;
}

// e^{k - c} and e^{w - r}, whose products are e^{k + w - max} with max = c + r.
struct Factors {
  Tensor c, r, keys, weights;  // [..., 1, D], [..., T, 1], [..., S, D], [..., T, S]
  Factors(const Tensor& k, const Tensor& w)
      : c(k.amax(-2, true).clamp_min(ChannelSums::kLowest)),
        r(w.amax(-1, true)),
        keys((k - c).exp_()),
        weights((w - r).exp_()) {}
  ChannelSums sums(const Tensor& v) const {
    return {c + r, weights.matmul(keys * v), weights.matmul(keys)};
  }
  // A sum this small may have lost products that would count in it.
  Tensor underflown(const ChannelSums& sums) const {
    const double least = keys.scalar_type() == at::kDouble
                             ? std::numeric_limits<double>::min() /
                                   std::pow(std::numeric_limits<double>::epsilon(), 2)
                             : std::numeric_limits<float>::min() /
                                   std::pow(std::numeric_limits<float>::epsilon(), 2);
    return (sums.weights < least).logical_and(c > ChannelSums::kLowest);
  }
};

// body(first, count) over rows of queries, as many at a time as keep the scores of all their keys
// and channels small.
template <class F>
void by_rows(int64_t rows, const Tensor& v, const F& body) {
  constexpr int64_t kElements = int64_t{1} << 21;
  const int64_t most = std::clamp<int64_t>(kElements / std::max<int64_t>(v.numel(), 1), 1, rows);
  for (int64_t first = 0; first < rows; first += most) body(first, std::min(most, rows - first));
}

// k_j + w_tj, [..., T, S, D].
Tensor scores(const Tensor& k, const Tensor& w, const Tensor& hidden) {
  const auto s = k.unsqueeze(-3) + w.unsqueeze(-1);
  if (!hidden.defined()) return s;
  return s.masked_fill(hidden.unsqueeze(-1), -std::numeric_limits<double>::infinity());
}

ChannelSums sums_by_pairs(const Tensor& k, const Tensor& v, const Tensor& w, const Tensor& hidden) {
  std::vector<ChannelSums> parts;
  by_rows(w.size(-2), v, [&](int64_t first, int64_t count) {
    const auto rows = [&](const Tensor& t) { return t.defined() ? t.narrow(-2, first, count) : t; };
    auto p = scores(k, rows(w), rows(hidden));
    const auto max = p.amax(-2, true).clamp_min_(ChannelSums::kLowest);
    p.sub_(max).exp_();
    parts.push_back({max.squeeze(-2), (p * v.unsqueeze(-3)).sum(-2), p.sum(-2)});
  });
  return joined_rows(parts);
}

struct Gradients {
  Tensor k, v, w;
};

// With p_tj = e^{k_j + w_tj - max_t}, gradients gv of values and gw of weights:
//   dv_j = sum_t p_tj gv_t,   d(k + w)_tj = p_tj (gv_t . v_j + gw_t).
Gradients slopes_by_products(const Tensor& k, const Tensor& v, const Tensor& w, const Tensor& gv,
                             const Tensor& gw) {
  const Factors f(k, w);
  const auto back = f.weights.transpose(-2, -1);
  const auto values = back.matmul(gv);  // [..., S, D]
  const auto dw = gv.matmul((f.keys * v).transpose(-2, -1)) + gw.matmul(f.keys.transpose(-2, -1));
  return {(v * values).sum_to_size(k.sizes()).add_(back.matmul(gw).sum_to_size(k.sizes())) * f.keys,
          (f.keys * values).sum_to_size(v.sizes()), (f.weights * dw).sum_to_size(w.sizes())};
}

Gradients slopes_by_pairs(const Tensor& k, const Tensor& v, const Tensor& w, const Tensor& hidden,
                          const Tensor& max, const Tensor& gv, const Tensor& gw) {
  const auto dk = at::zeros_like(k), dv = at::zeros_like(v), dw = at::zeros_like(w);
  by_rows(w.size(-2), v, [&](int64_t first, int64_t count) {
    const auto rows = [&](const Tensor& t) { return t.defined() ? t.narrow(-2, first, count) : t; };
    const auto p = scores(k, rows(w), rows(hidden)).sub_(rows(max).unsqueeze(-2)).exp_();
    const auto g = rows(gv).unsqueeze(-2);  // [..., T, 1, D]
    dv.add_((p * g).sum(-3).sum_to_size(v.sizes()));
    const auto pull = (g * v.unsqueeze(-3)).sum_to_size(p.sizes());
    const auto slope = p * (pull + rows(gw).unsqueeze(-2));
    dk.add_(slope.sum(-3).sum_to_size(k.sizes()));
    auto rows_of_w = rows(dw);
    rows_of_w.add_(slope.sum(-1).sum_to_size(rows_of_w.sizes()));
  });
  return {dk, dv, dw};
}

struct BiasedSums : Differentiable {
  bool products = false;

  TensorVector forward(const TensorVector& inputs) override {
    const auto &k = inputs[0], &v = inputs[1], &left = inputs[2], &right = inputs[3],
               &hidden = inputs[4];
    const auto w = biases(left, right);
    products = !hidden.defined() && k.is_cpu();
    ChannelSums sums;
    Tensor apart;  // which of the sums were formed by pairs, where some were and some were not
    if (!products) {
      sums = sums_by_pairs(k, v, w, hidden);
    } else {
      const Factors factors(k, w);
      sums = factors.sums(v);
      const auto lost = factors.underflown(sums);
      if (lost.any().item<bool>()) {
        apart = lost;
        const auto again = sums_by_pairs(k, v, w, {});
        sums = {at::where(lost, again.max, sums.max), at::where(lost, again.values, sums.values),
                at::where(lost, again.weights, sums.weights)};
      }
    }
    save({k, v, left, right, hidden, sums.max, apart});
    no_gradient_of({sums.max});
    return {sums.max, sums.values, sums.weights};
  }

  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "biased_sums: has no second derivative");
    const auto kept = saved();
    const auto &k = kept[0], &v = kept[1], &left = kept[2], &right = kept[3], &hidden = kept[4],
               &max = kept[5], &apart = kept[6];
    const auto &gv = gradients[1], &gw = gradients[2];
    const auto w = biases(left, right);
    Gradients d;
    if (!products) {
      d = slopes_by_pairs(k, v, w, hidden, max, gv, gw);
    } else if (!apart.defined()) {
      d = slopes_by_products(k, v, w, gv, gw);
    } else {
      const auto rest = apart.logical_not();
      d = slopes_by_products(k, v, w, gv.masked_fill(apart, 0), gw.masked_fill(apart, 0));
      const auto more =
          slopes_by_pairs(k, v, w, hidden, max, gv.masked_fill(rest, 0), gw.masked_fill(rest, 0));
      d = {d.k + more.k, d.v + more.v, d.w + more.w};
    }
    if (!right.defined()) return {d.k, d.v, d.w, Tensor(), Tensor()};
    return {d.k, d.v, d.w.matmul(right),
            d.w.transpose(-2, -1).matmul(left).sum_to_size(right.sizes()), Tensor()};
  }
};

}  // namespace

ChannelSums biased_sums(const Tensor& k, const Tensor& v, const PairBias& bias,
                        const Tensor& hidden) {
  const auto type = k.scalar_type();
  const auto right = bias.right.defined() ? bias.right.to(type) : Tensor();
  const auto sums = applied<BiasedSums>({k, v, bias.left.to(type), right, hidden});
  return {sums[0], sums[1], sums[2]};
}

}  // namespace longbow
