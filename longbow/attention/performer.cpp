// Performer (Choromanski et al., 2020, arXiv:2009.14794): FAVOR+, random features whose products
// are softmax weights on average. With x' = D^(-1/4) x and rows w_r of Omega [R, D] drawn from a
// normal distribution, orthogonal in blocks of D,
//   phi_r(x) = exp(w_r . x' - |x'|^2 / 2),   E[phi(q) . phi(k)] / R = exp(q . k / sqrt D),
//   o_i = sum_j phi(q_i) . phi(k_j) v_j / sum_j phi(q_i) . phi(k_j).
// What is common to all features of a query, or to all keys, cancels in the ratio: the largest
// exponent is subtracted. Under a causal mask that of the keys is a running maximum, and the sums
// are rescaled as it grows. As R -> infinity it is softmax attention.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/feature_attention.h"

namespace longbow {
namespace {

enum class Map { softmax, hyperbolic, relu };
constexpr std::array<std::string_view, 3> names_of(Map) {
  return {"softmax", "hyperbolic", "relu"};
}
enum class Norms { regular, fixed };
constexpr std::array<std::string_view, 2> names_of(Norms) {
  return {"regular", "fixed"};
}

struct Config {
  Map map = Map::softmax;
  int64_t features = 0;
  Norms norms = Norms::regular;
  bool per_head = false;
  int64_t redraw = 1000;
  double epsilon = 1e-3;
};
template <class V>
void fields(V& v, Config& c) {
  v("map", c.map,
    "exp(u - x.x / 2), the same of u and -u from half as many rows, or relu(u) + epsilon");
  v("features", c.features, "R, random features; 0 = D ln D", range(0, 65536));
  v("norms", c.norms, "lengths of the drawn rows: as those of normal vectors, or all sqrt(D)");
  v("per_head", c.per_head, "each head has its own draw");
  v("redraw", c.redraw, "training steps between two draws; 0 = never", at_least(0));
  v("epsilon", c.epsilon, "added to relu features, to no others", above(0));
}

constexpr double kNothingSeen = -1e30;  // the running maximum before the first key
constexpr double kSmallest = 1e-30;     // denominator

class Performer : public AttentionImpl {
 public:
  Performer(const Site& site, const Config& config)
      : config_(config), width_(site.shape.head()), features_(number(config, width_)) {
    TORCH_CHECK(config.map != Map::hyperbolic || features_ % 2 == 0,
                "performer: hyperbolic features come in pairs, but features is ", features_);
    rows_ = config.map == Map::hyperbolic ? features_ / 2 : features_;
    heads_ = config.per_head ? site.shape.heads : 1;
    seed_ = site.seed;
    name_ = site.at("omega").path;
    omega_ = register_buffer("omega", drawn(0));
    draws_ = register_buffer("draws", at::zeros({1}, at::kLong));
  }

  Tensor attend(const Heads& heads, Context& context) override {
    const auto q = query_features(heads.q), k = key_exponents(heads.k, context);
    const auto& v = heads.v;
    const bool causal = context.mask.causal;
    if (config_.map == Map::relu) return normalised(feature_sums(q, k, v, causal), v);
    if (!causal) {
      const auto peak = k.detach().amax({2, 3}, true).clamp_min(kNothingSeen);  // [B, H, 1, 1]
      return normalised(feature_sums(q, (k - peak).exp(), v, false), v);
    }
    const int64_t extra = k.size(2) - q.size(2);  // pad or cut the queries in front
    State empty;
    open(empty, heads, 0, context);
    const auto y = running_mean(at::constant_pad_nd(q, {0, 0, extra, 0}), k, v, empty);
    return at::constant_pad_nd(y, {0, 0, -extra, 0});
  }

  void open(State& state, const Heads& empty, int64_t, Context&) override {
    const auto& v = empty.v;
    open_feature_sums(state, empty, features_);
    if (config_.map != Map::relu)
      state.add("peak", {v.size(0), v.size(1)}, v.options().dtype(wide(v)), kNothingSeen);
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    const auto q = query_features(heads.q), k = key_exponents(heads.k, context);
    if (config_.map == Map::relu)
      return normalised(grow_feature_sums(q, k, heads.v, state), heads.v);
    return running_mean(q, k, heads.v, state);
  }

  // The first call, after one step, is with 0.
  void after_step(int64_t step) override {
    if (!is_training() || config_.redraw == 0 || (step + 1) % config_.redraw != 0) return;
    const at::NoGradGuard no_grad;
    draws_.add_(1);
    omega_.copy_(drawn(draws_.item<int64_t>()));
  }

 private:
  static int64_t number(const Config& c, int64_t width) {
    if (c.features > 0) return c.features;
    const auto d = static_cast<double>(width);
    const auto whole = static_cast<int64_t>(d * std::log(d));
    return c.map == Map::hyperbolic ? std::max<int64_t>(2, whole / 2 * 2)
                                    : std::max<int64_t>(1, whole);
  }

  // Omega [1 or H, rows, D]: blocks of D orthonormal rows, each row then given its length. With the
  // signs of R's diagonal the Q of a normal matrix is uniform among the orthogonal ones.
  Tensor drawn(int64_t draw) const {
    const auto random = Random::from_seed(seed_, draw);
    const int64_t d = width_, blocks = (rows_ + d - 1) / d;
    const auto [q, r] =
        at::linalg_qr(random.normal({heads_, blocks, d, d}, name_ + " blocks").to(at::kDouble));
    const auto signs = at::where(r.diagonal(0, -2, -1) < 0, -1.0, 1.0).unsqueeze(-2);
    const auto rows = (q * signs).transpose(-2, -1).flatten(1, 2).narrow(1, 0, rows_);
    if (config_.norms == Norms::fixed)
      return (rows * std::sqrt(static_cast<double>(d))).to(at::kFloat);
    const auto lengths = random.normal({heads_, rows_, d}, name_ + " lengths").norm(2, -1, true);
    return (rows * lengths).to(at::kFloat);
  }

  // x' = D^(-1/4) x, and u = Omega x': [B, H, N, D] -> [B, H, N, R].
  Tensor scaled(const Tensor& x) const {
    return x.to(wide(x)) * std::pow(static_cast<double>(width_), -0.25);
  }
  Tensor projected(const Tensor& x) const {
    const auto u = x.matmul(omega_.to(x.scalar_type()).transpose(-2, -1));
    return config_.map == Map::hyperbolic ? at::cat({u, -u}, -1) : u;
  }

  // The norm of a query is common to its features and cancels.
  Tensor query_features(const Tensor& q) const {
    const auto u = projected(scaled(q));
    if (config_.map == Map::relu) return u.relu() + config_.epsilon;
    return (u - u.detach().amax(-1, true)).exp();
  }

  // Logarithms of the features, minus infinity at padded keys; of relu the features themselves.
  Tensor key_exponents(const Tensor& k, const Context& context) const {
    const auto x = scaled(k), u = projected(x);
    const auto& keep = context.mask.keep;
    if (config_.map == Map::relu) return without_padding(u.relu() + config_.epsilon, keep);
    const auto exponents = u - x.square().sum(-1, true) / 2;
    if (!keep.defined()) return exponents;
    return exponents.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(-1),
                                 -std::numeric_limits<double>::infinity());
  }

  // The causal mean for as many queries as keys. With c_t the largest exponent k_jr of j <= t,
  //   A_t = exp(c_(t-1) - c_t) A_(t-1) + exp(k_t - c_t) [v_t, 1]^T,   o_t from A_t^T phi(q_t);
  // the state holds A and c. In chunks all tokens are done at once, and only the states between
  // chunks one after the other. No exponent of a visible pair is above zero.
  Tensor running_mean(const Tensor& q, const Tensor& k, const Tensor& v, State& state) const {
    constexpr int64_t kChunk = 64;
    const int64_t length = k.size(2), size = std::clamp<int64_t>(length, 1, kChunk),
                  chunks = std::max<int64_t>(1, (length + size - 1) / size), d = v.size(3);
    const auto cut = [&](const Tensor& t, double fill) {  // [B, H, chunks, size, ...]
      return at::constant_pad_nd(t, {0, 0, 0, chunks * size - length}, fill)
          .unflatten(2, {chunks, size});
    };
    auto &sums = state.lane.at("sums"), &peak = state.lane.at("peak");
    const auto x = cut(q, 0), l = cut(k, -std::numeric_limits<double>::infinity()),
               z = cut(at::constant_pad_nd(v.to(wide(v)), {0, 1}, 1), 0);
    const auto largest = at::maximum(l.detach().amax(-1).flatten(2), peak.unsqueeze(-1));
    const auto c = std::get<0>(largest.cummax(2)).unflatten(2, {chunks, size}).unsqueeze(-1);
    const auto last = c.narrow(3, size - 1, 1);  // [B, H, chunks, 1, 1]
    const auto first =
        at::cat({peak.view({peak.size(0), -1, 1, 1, 1}), last.narrow(2, 0, chunks - 1)}, 2);

    const auto fading =
        (c.transpose(-2, -1) - c).clamp_max(0).exp();  // [.., size, size], c_j - c_t
    const auto weights = (x.matmul((l - c).exp().transpose(-2, -1)) * fading).tril();
    const auto added = (l - last).exp().transpose(-2, -1).matmul(z).unbind(2);  // [B, H, R, D + 1]
    const auto kept = (first - last).exp().unbind(2);
    std::vector<Tensor> before;
    for (size_t i = 0; i < added.size(); ++i) {
      before.push_back(sums);
      sums = kept[i] * sums + added[i];
    }
    peak = last.select(2, chunks - 1).flatten(1);
    const auto y = weights.matmul(z) + (first - c).exp() * x.matmul(at::stack(before, 2));
    const auto all = y.flatten(2, 3).narrow(2, 0, length);
    return normalised({all.narrow(3, 0, d), all.narrow(3, d, 1)}, v);
  }

  static Tensor normalised(const FeatureSums& sums, const Tensor& v) {
    return (sums.values / sums.weights.clamp_min(kSmallest)).to(v.scalar_type());
  }

  Config config_;
  int64_t width_, features_, rows_ = 0, heads_ = 1;
  uint64_t seed_ = 0;
  std::string name_;
  Tensor omega_;  // [1 or H, rows, D]
  Tensor draws_;  // [1] int64, how often Omega was drawn anew
};

Promises promises(const Config&) {
  return {.future = Future::exact, .cross = true, .decode = true};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Performer>(site, c);
}

}  // namespace

Mechanism performer_mechanism() {
  return over_heads<Config>(
      {.name = "performer",
       .family = "kernel",
       .paper = "arXiv:2009.14794",
       .cost = "O(N R D)",
       .summary = "Random positive features whose products are softmax weights on average.",
       .exact = "features -> infinity: softmax (error as R^-1/2); one key: its value",
       .variants = {{"hyperbolic", "{map: hyperbolic, features: 10}"},
                    {"relu", "{map: relu}"},
                    {"per_head", "{features: 19, norms: fixed, per_head: true}"}}},
      promises, make);
}

}  // namespace longbow
