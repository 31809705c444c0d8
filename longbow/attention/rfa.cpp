// Random feature attention (Peng et al., 2021, arXiv:2103.02143): queries and keys are brought to
// length one, and a pair weighs what the products of R random features of both weigh on average:
//   o_i = sum_j w_ij v_j / max(sum_j w_ij, delta_i),   w_ij = phi(q_i) . phi(k_j),
//   phi(x) = [sin(W x), cos(W x)] / sqrt(R)   gaussian: E w_ij = exp(-|q_i - k_j|^2 / 2T^2),
//   phi(x) = relu(W x) / sqrt(R)              arccos: E w_ij = (sin a + (pi - a) cos a) / 2 pi T^2,
// with W = sigma Omega / T, Omega normal and fixed, sigma learned, a the angle between q and k.
// A gate g_t = sigmoid(u . x_t + b) makes the causal sums forget:
//   S_t = g_t S_{t-1} + (1 - g_t) phi(k_t) [v_t, 1]^T.
// For R -> infinity the gaussian map is softmax attention on cosines divided by T^2.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/features/feature_attention.h"
#include "longbow/nn/features/random_features.h"
#include "longbow/ops/decayed_product.h"
#include "longbow/ops/random_product.h"

namespace longbow {
namespace {

enum class Map { gaussian, arccos };
constexpr std::array<std::string_view, 2> names_of(Map) {
  return {"gaussian", "arccos"};
}
enum class Gate { none, head, shared };
constexpr std::array<std::string_view, 3> names_of(Gate) {
  return {"none", "head", "shared"};
}

enum class Clamp { proportional, value, magnitude };
constexpr std::array<std::string_view, 3> names_of(Clamp) {
  return {"proportional", "value", "magnitude"};
}

struct Config {
  Map map = Map::gaussian;
  int64_t features = 64;
  double feature_scale = 0;
  double temperature = 1;
  Gate gate = Gate::none;
  double gate_bias = 3;
  bool orthogonal = false;
  int64_t redraw = 1000;
  int64_t pool = 0;
  Clamp clamp = Clamp::proportional;
  double floor = 1e-2;
};
template <class V>
void fields(V& v, Config& c) {
  v("map", c.map, "features: sine and cosine of each projection, or its positive part");
  v("features", c.features, "R, random projections of each head", range(1, 65536));
  v("feature_scale", c.feature_scale,
    "multiplies the features, which matters against the floor alone; 0 = 1 / sqrt(R)", at_least(0));
  v("temperature", c.temperature, "T, divides the projections", above(0));
  v("gate", c.gate, "forgetting: none, a gate for each head, or one for all (then causal only)");
  v("gate_bias", c.gate_bias, "initial bias of the gate; memory lasts about exp(bias) tokens");
  v("orthogonal", c.orthogonal, "projections of a head are orthogonal in groups of D");
  v("redraw", c.redraw, "training steps between new projections; 0 = never", at_least(0));
  v("pool", c.pool,
    "matrices drawn once; training picks a new one each time and evaluation uses the first; 0 = no "
    "pool",
    range(0, 65536));
  v("clamp", c.clamp,
    "a denominator s becomes at least the floor in proportion to the keys that are seen; "
    "max(s, floor); or max(|s|, floor)");
  v("floor", c.floor, "smallest denominator, in units of the keys that are seen or as it is",
    above(0));
}

class Rfa : public AttentionImpl {
 public:
  Rfa(const Site& site, const Config& config)
      : config_(config),
        projections_(*this, site, "projections",
                     {.matrices = site.shape.heads,
                      .rows = config.features,
                      .width = site.shape.head(),
                      .orthogonal = config.orthogonal,
                      .redraw = config.redraw,
                      .pool = config.pool}) {
    const double t = config.temperature;
    scale_ = config.feature_scale > 0 ? config.feature_scale
                                      : 1 / std::sqrt(static_cast<double>(config.features));
    // What opposite vectors weigh in the gaussian kernel, perpendicular ones in the other. Less
    // than the rounding of float32 would be no floor, and 0 in that type when T is small.
    constexpr double kRounding = std::numeric_limits<float>::epsilon();
    least_ = config.floor * scale_ * scale_ * static_cast<double>(config.features) *
             (config.map == Map::gaussian ? std::max(std::exp(-2 / (t * t)), kRounding)
                                          : 0.5 / std::numbers::pi / t / t);
    sigma_ =
        parameter("sigma", at::ones({site.shape.heads, 1, site.shape.head()}), {.decay = false});
    if (config.gate == Gate::none) return;
    const int64_t gates = config.gate == Gate::head ? site.shape.heads : 1;
    gate_ =
        register_module("gate", std::make_shared<Linear>(site.at("gate"), site.shape.width, gates));
    const at::NoGradGuard no_grad;
    gate_->bias.fill_(config.gate_bias);
  }

  Tensor attend(const Heads& heads, Context& context) override {
    if (gate_) {  // causal, so the forward pass is one extension of nothing
      State nothing;
      open(nothing, heads, heads.q.size(2), context);
      return grow(heads, nothing, context);
    }
    const bool causal = context.mask.causal;
    if (config_.map == Map::gaussian && config_.clamp != Clamp::magnitude &&
        has_random_kernel(heads.q, heads.k, heads.v, RandomMap::trigonometric, config_.features,
                          causal)) {
      const auto least = least_of(keys_seen(heads, context));  // [1 or B, 1, 1 or N, 1] or []
      const int64_t b = heads.q.size(0), n = causal ? heads.q.size(2) : 1;
      const auto each = least.expand({b, 1, n, 1}).reshape({b, n});
      return random_product(heads.q, heads.k, heads.v,
                            {.map = RandomMap::trigonometric,
                             .omega = *projections_ / config_.temperature,
                             .sigma = sigma_.squeeze(1),
                             .scale = scale_,
                             .keep = context.mask.keep,
                             .least = causal ? each : each.squeeze(1),
                             .causal = causal});
    }
    const auto q = narrowed(features(heads.q), heads.q),
               k = narrowed(key_features(heads, context), heads.k);
    return normalised(feature_sums(q, k, heads.v, causal), keys_seen(heads, context), heads);
  }

  void open(State& state, const Heads& empty, int64_t, Context&) override {
    open_feature_sums(state, empty, config_.features * (config_.map == Map::gaussian ? 2 : 1));
    if (gate_)
      state.add("decay", {empty.v.size(0), gate_->weight.size(0), 1, 1},
                empty.v.options().dtype(wide(empty.v)));
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    const int64_t count = heads.q.size(2);  // few tokens: one call takes as long as two
    const auto both = features(at::cat({heads.q, heads.k}, 2)), q = both.narrow(2, 0, count),
               k = without_padding(both.narrow(2, count, count), context.mask.keep);
    if (!gate_)
      return normalised(grow_feature_sums(q, k, heads.v, state),
                        (context.positions + 1).unsqueeze(1).unsqueeze(-1), heads);
    const auto logit = gate_logit(heads.x);  // [B, 1 or H, N, 1]
    const auto log_gate = without_padding(at::log_sigmoid(logit), context.mask.keep);
    const auto values = at::constant_pad_nd(heads.v.to(wide(heads.v)), {0, 1}, 1);
    const auto y =
        decayed_product(q, k * at::sigmoid(-logit), values, log_gate, {.fading = Fading::rows},
                        state.lane.at("sums"));  // [B, H, N, D + 1]
    auto& decay = state.lane.at("decay");
    const auto kept = decay + log_gate.cumsum(2);
    decay = kept.narrow(2, kept.size(2) - 1, 1);
    const int64_t d = heads.v.size(3);
    return normalised({y.narrow(-1, 0, d), y.narrow(-1, d, 1)}, -kept.expm1(), heads);
  }

  bool open_memory(State& state, const Heads& memory, const Context& context) override {
    keep_memory_sums(state, key_features(memory, context), memory.v);
    state.lane["seen"] = keys_seen(memory, context).expand({memory.k.size(0), 1, 1, 1});
    state.fill["seen"] = 0;
    return true;
  }

  Tensor read_memory(const Heads& queries, State& state, Context&) override {
    return normalised(read_memory_sums(features(queries.q), state), state.lane.at("seen"), queries);
  }

  void after_step(int64_t step) override { projections_.after_step(step); }

 private:
  // Lengths, angles and sums are float32 at least.
  Tensor features(const Tensor& x) const {
    const auto type = wide(x);
    const auto y = x.to(type), unit = y / (y.norm(2, {-1}, true) + 1e-3);
    const auto w = sigma_.to(type) * (*projections_).to(type) / config_.temperature;  // [H, R, D]
    const auto wx = unit.matmul(w.transpose(-2, -1));  // [B, H, N, R]
    const auto phi = config_.map == Map::gaussian ? at::cat({wx.sin(), wx.cos()}, -1) : wx.relu();
    return phi * scale_;
  }

  Tensor key_features(const Heads& heads, const Context& context) const {
    return without_padding(features(heads.k), context.mask.keep);
  }

  Tensor gate_logit(const Tensor& x) const {
    const auto type = wide(x);
    return at::linear(x.to(type), gate_->weight.to(type), gate_->bias.to(type))
        .transpose(1, 2)
        .unsqueeze(-1);
  }

  // How many keys each query sees: [1 or B, 1, 1 or N, 1].
  static Tensor keys_seen(const Heads& heads, const Context& context) {
    const int64_t m = heads.k.size(2);
    const auto& keep = context.mask.keep;
    const auto real =
        keep.defined() ? keep.to(at::kLong) : at::ones({1, m}, heads.k.options().dtype(at::kLong));
    const auto count = context.mask.causal
                           ? at::constant_pad_nd(real.cumsum(1), {heads.q.size(2) - m, 0})
                           : real.sum(1, true);
    return count.unsqueeze(1).unsqueeze(-1);
  }

  // Sines and cosines have signs, and so may the estimate of a small sum: it is kept above delta,
  // which is in proportion to `seen`, the keys in it. Without any the output is 0 / 1. The other
  // rules are those of the reference.
  Tensor least_of(const Tensor& seen) const {
    if (config_.clamp != Clamp::proportional)
      return at::full({}, config_.floor, seen.options().dtype(wide(seen)));
    const auto mass = seen.to(wide(seen));
    return at::where(mass > 0, mass * least_, 1.0);
  }
  Tensor normalised(const FeatureSums& sums, const Tensor& seen, const Heads& heads) const {
    const auto mass = seen.to(sums.weights.scalar_type());
    Tensor denominator;
    if (config_.clamp == Clamp::proportional)
      denominator = at::maximum(sums.weights, least_of(mass));
    else if (config_.clamp == Clamp::value)
      denominator = sums.weights.clamp_min(config_.floor);
    else
      denominator = sums.weights.abs().clamp_min(config_.floor);
    return (sums.values / denominator).to(heads.q.scalar_type());
  }

  Config config_;
  RandomMatrices projections_;  // [H, R, D]
  double scale_ = 1, least_ = 0;
  Tensor sigma_;  // [H, 1, D]
  std::shared_ptr<Linear> gate_;
};

void check(const Config& c, const Site& site) {
  require_option(c.pool == 0 || c.pool >= site.shape.heads, "pool",
                 c10::str("is ", c.pool, ", but ", site.shape.heads, " heads take a matrix each"),
                 "take as many as there are heads, or more, or 0 for no pool");
}

Promises promises(const Config& c) {
  const bool gated = c.gate != Gate::none;
  return {.future = Future::exact,
          .bidirectional = !gated,
          .cross = !gated,
          .decode = true,
          .positional = gated,
          .causal_launches = gated ? Launches::logarithmic : Launches::constant};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Rfa>(site, c);
}

}  // namespace

Mechanism rfa_mechanism() {
  return over_heads<Config>(
      {.name = "rfa",
       .family = "kernel",
       .paper = "arXiv:2103.02143",
       .cost = "O(N R D)",
       .summary = "Random features whose products average to a kernel of the angle, with a gate "
                  "that forgets.",
       .exact = "one key: its value; features -> infinity: softmax of the cosines over T^2",
       .variants = {{"arccos", "{map: arccos, features: 32}"},
                    {"gated", "{gate: head}"},
                    {"shared", "{gate: shared, gate_bias: 0, map: arccos}"},
                    {"orthogonal", "{orthogonal: true, features: 30, temperature: 1.5}"},
                    {"pool", "{pool: 5}"},
                    {"reference", "{feature_scale: 0.1, clamp: value, floor: 1}"},
                    {"magnitude", "{gate: head, clamp: magnitude, floor: 1e-3}"}}},
      promises, make, check);
}

}  // namespace longbow
