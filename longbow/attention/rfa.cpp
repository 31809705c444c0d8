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
#include <numbers>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/feature_attention.h"

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

struct Config {
  Map map = Map::gaussian;
  int64_t features = 64;
  double temperature = 1;
  Gate gate = Gate::none;
  double gate_bias = 3;
  bool orthogonal = false;
  int64_t redraw = 1000;
  int64_t pool = 0;
  double floor = 1e-2;
};
template <class V>
void fields(V& v, Config& c) {
  v("map", c.map, "features: sine and cosine of each projection, or its positive part");
  v("features", c.features, "R, random projections of each head", range(1, 65536));
  v("temperature", c.temperature, "T, divides the projections", above(0));
  v("gate", c.gate, "forgetting: none, a gate for each head, or one for all (then causal only)");
  v("gate_bias", c.gate_bias,
    "where the bias of the gate starts; memory lasts about exp(it) tokens");
  v("orthogonal", c.orthogonal, "projections of a head are orthogonal in groups of D");
  v("redraw", c.redraw, "training steps between new projections; 0 = never", at_least(0));
  v("pool", c.pool,
    "matrices drawn once, from which training picks anew and evaluation takes the first; 0 = no "
    "pool",
    range(0, 65536));
  v("floor", c.floor, "smallest denominator, in units of the keys that are seen", above(0));
}

// out_t = sum over i <= t of exp(G_t - G_i) (q_t . k_i) z_i plus what the sums before hold, where G
// adds up log_decay [B, 1 or H, N, 1]; the sums [B, H, R, E] become those after. In chunks, with G
// counted from the start of each, so that no exponent is positive.
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

class Rfa : public AttentionImpl {
 public:
  Rfa(const Site& site, const Config& config)
      : config_(config), site_(site), heads_(site.shape.heads) {
    const double t = config.temperature;
    // What opposite vectors weigh in the gaussian kernel, perpendicular ones in the other.
    least_ = config.floor * (config.map == Map::gaussian ? std::exp(-2 / (t * t))
                                                         : 0.5 / std::numbers::pi / t / t);
    sigma_ = parameter("sigma", at::ones({heads_, 1, site.shape.head()}), {.decay = false});
    if (config.pool > 0) {
      TORCH_CHECK(config.pool >= heads_, "rfa: a pool of ", config.pool, " matrices, but ", heads_,
                  " heads take one each");
      pool_ = register_buffer("pool", drawn(config.pool, 0));
    }
    projections_ = register_buffer(
        "projections", pool_.defined() ? pool_.narrow(0, 0, heads_).clone() : drawn(heads_, 0));
    if (config.gate == Gate::none) return;
    const int64_t gates = config.gate == Gate::head ? heads_ : 1;
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
    const auto q = features(heads.q), k = key_features(heads, context);
    return normalised(feature_sums(q, k, heads.v, context.mask.causal), keys_seen(heads, context),
                      heads);
  }

  void open(State& state, const Heads& empty, int64_t, Context&) override {
    open_feature_sums(state, empty, config_.features * (config_.map == Map::gaussian ? 2 : 1));
    if (gate_)
      state.add("decay", {empty.v.size(0), gate_->weight.size(0), 1, 1},
                empty.v.options().dtype(wide(empty.v)));
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    const auto q = features(heads.q), k = key_features(heads, context);
    if (!gate_)
      return normalised(grow_feature_sums(q, k, heads.v, state),
                        (context.positions + 1).unsqueeze(1).unsqueeze(-1), heads);
    const auto logit = gate_logit(heads.x);  // [B, 1 or H, N, 1]
    const auto log_gate = without_padding(at::log_sigmoid(logit), context.mask.keep);
    const auto values = at::constant_pad_nd(heads.v.to(wide(heads.v)), {0, 1}, 1);
    const auto y = decayed_product(q, k * at::sigmoid(-logit), values, log_gate,
                                   state.lane.at("sums"));  // [B, H, N, D + 1]
    auto& decay = state.lane.at("decay");
    const auto kept = decay + log_gate.cumsum(2);
    decay = kept.narrow(2, kept.size(2) - 1, 1);
    const int64_t d = heads.v.size(3);
    return normalised({y.narrow(-1, 0, d), y.narrow(-1, d, 1)}, -kept.expm1(), heads);
  }

  // A function of seed and step, whatever the device, and in place: a captured graph sees it.
  void after_step(int64_t step) override {
    if (config_.redraw == 0 || (step + 1) % config_.redraw != 0) return;
    const at::NoGradGuard no_grad;
    if (!pool_.defined()) {
      projections_.copy_(drawn(heads_, step + 1));
      return;
    }
    const auto order =
        Random::from_seed(site_.seed, step + 1).uniform({config_.pool}, draw("pick"));
    projections_.copy_(
        pool_.index_select(0, order.argsort().narrow(0, 0, heads_).to(pool_.device())));
  }

 private:
  std::string draw(const std::string& what) const { return "rfa " + site_.at(what).path; }

  // [count, R, D] standard normal numbers; orthogonal ones have the lengths of normal rows too, and
  // the signs make the rotation uniform.
  Tensor drawn(int64_t count, int64_t step) const {
    const auto random = Random::from_seed(site_.seed, step);
    const int64_t r = config_.features, d = site_.shape.head();
    const auto rows = random.normal({count, r, d}, draw("projections"));
    if (!config_.orthogonal) return rows;
    const auto [q, upper] =
        at::linalg_qr(random.normal({count, (r + d - 1) / d, d, d}, draw("rotations")));
    const auto rotation = q * upper.diagonal(0, -2, -1).sign().unsqueeze(-2);
    return rotation.transpose(-2, -1).flatten(1, 2).narrow(1, 0, r) * rows.norm(2, {-1}, true);
  }

  // Lengths, angles and sums are float32 at least.
  Tensor features(const Tensor& x) const {
    const auto type = wide(x);
    const auto y = x.to(type), unit = y / (y.norm(2, {-1}, true) + 1e-3);
    const auto omega =
        pool_.defined() && !is_training() ? pool_.narrow(0, 0, heads_) : projections_;
    const auto w = sigma_.to(type) * omega.to(type) / config_.temperature;  // [H, R, D]
    const auto wx = unit.matmul(w.transpose(-2, -1));                       // [B, H, N, R]
    const auto phi = config_.map == Map::gaussian ? at::cat({wx.sin(), wx.cos()}, -1) : wx.relu();
    return phi / std::sqrt(static_cast<double>(config_.features));
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
    const int64_t n = heads.q.size(2), m = heads.k.size(2);
    const auto& keep = context.mask.keep;
    const auto real =
        keep.defined() ? keep.to(at::kLong) : at::ones({1, m}, heads.k.options().dtype(at::kLong));
    const auto count =
        context.mask.causal ? at::constant_pad_nd(real.cumsum(1), {n - m, 0}) : real.sum(1, true);
    return count.unsqueeze(1).unsqueeze(-1);
  }

  // Sines and cosines have signs, and so may the estimate of a small sum: it is kept above delta,
  // which is in proportion to `seen`, the keys in it. Without any the output is 0 / 1.
  Tensor normalised(const FeatureSums& sums, const Tensor& seen, const Heads& heads) const {
    const auto mass = seen.to(sums.weights.scalar_type());
    const auto delta = at::where(mass > 0, mass * least_, 1.0);
    return (sums.values / at::maximum(sums.weights, delta)).to(heads.v.scalar_type());
  }

  Config config_;
  Site site_;
  int64_t heads_;
  double least_;
  Tensor sigma_;               // [H, 1, D]
  Tensor projections_, pool_;  // [H, R, D], [P, R, D] or undefined
  std::shared_ptr<Linear> gate_;
};

Promises promises(const Config& c) {
  const bool gated = c.gate != Gate::none;
  return {.future = Future::exact,
          .bidirectional = !gated,
          .cross = !gated,
          .decode = true,
          .positional = gated};
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
                    {"pool", "{pool: 5}"}}},
      promises, make);
}

}  // namespace longbow
