// Performer (Choromanski et al., 2020, arXiv:2009.14794): FAVOR+, random features whose products
// are softmax weights on average. With x' = D^(-1/4) x and rows w_r of Omega [R, D] drawn from a
// normal distribution, orthogonal in blocks of D,
//   phi_r(x) = R^(-1/2) exp(w_r . x' - |x'|^2 / 2),   E[phi(q) . phi(k)] = exp(q . k / sqrt D),
//   o_i = sum_j phi(q_i) . phi(k_j) v_j / sum_j phi(q_i) . phi(k_j).
// What is common to all features of a query, or to all keys, cancels in the ratio: the largest
// exponent is subtracted. Under a causal mask that of the keys is a running maximum, and the sums
// are rescaled as it grows. As R -> infinity it is softmax attention. Other maps have kernels of
// their own: g(w_r . x') + epsilon for a g that is not negative, and softmax(q) against softmax(k)
// over the keys (efficient attention), which needs no Omega.
#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <optional>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/features/feature_maps.h"
#include "longbow/nn/features/positive_features.h"
#include "longbow/nn/features/random_features.h"
#include "longbow/nn/softmax/softmax.h"
#include "longbow/ops/random_product.h"

namespace longbow {
namespace {

enum class Map { softmax, hyperbolic, relu, generalised, no_projection };
constexpr std::array<std::string_view, 5> names_of(Map) {
  return {"softmax", "hyperbolic", "relu", "generalised", "no_projection"};
}
enum class Kernel { relu, elu1, exp, softplus, square, abs };
constexpr std::array<std::string_view, 6> names_of(Kernel) {
  return {"relu", "elu1", "exp", "softplus", "square", "abs"};
}

struct Config {
  Map map = Map::softmax;
  Kernel kernel = Kernel::relu;
  bool projection = true;
  int64_t features = 0;
  RowNorms norms = RowNorms::regular;
  bool per_head = false;
  int64_t redraw = 1000;
  double epsilon = 1e-3;
  double eps_in_features = 0, eps_sums = 0, eps_denominator = 0;
  bool official = false;
};
template <class V>
void fields(V& v, Config& c) {
  v("map", c.map,
    "exp(u - x.x / 2); the same of u and -u from half as many rows; relu(u) + epsilon; g(u) + "
    "epsilon; or softmax of q, and of k over the keys (exp when causal)");
  v("kernel", c.kernel, "g of the generalised map; elu1 = elu(u) + 1, exp = exp(min(u, 35))");
  v("projection", c.projection, "false, generalised map only: g of x itself in place of Omega x");
  v("features", c.features, "R, random features; 0 = D ln D", range(0, 65536));
  v("norms", c.norms, "lengths of the drawn rows: as those of normal vectors, or all sqrt(D)");
  v("per_head", c.per_head, "each head has its own draw");
  v("redraw", c.redraw, "training steps between two draws; 0 = never", at_least(0));
  v("epsilon", c.epsilon, "added to relu and generalised features, to no others", above(0));
  v("eps_in_features", c.eps_in_features,
    "added to exponential features after their maximum is subtracted, as performer-pytorch does "
    "(1e-4); then not causal",
    at_least(0));
  v("eps_sums", c.eps_sums,
    "added to the sum over the keys of each feature, in the denominator; performer-pytorch: 1e-6 "
    "when causal",
    at_least(0));
  v("eps_denominator", c.eps_denominator, "added to the denominator; fast-transformers: 1e-6",
    at_least(0));
  v("official", c.official,
    "as the Long Range Arena's code, for map: generalised without a projection: x is not scaled by "
    "D^(-1/4), and padding is read; neither causal nor with a memory");
}

constexpr double kSmallest = 1e-30;  // denominator

// Whether features are of Omega x, and not of x itself.
bool projects(const Config& c) {
  return c.map != Map::no_projection && c.projection;
}

class Performer : public AttentionImpl {
 public:
  Performer(const Site& site, const Config& config)
      : config_(config), mirrored_(config.map == Map::hyperbolic) {
    const int64_t width = site.shape.head();
    const bool random = projects(config);
    features_ = config.features > 0 ? config.features : usual_features(width, mirrored_);
    if (!random) features_ = width;
    if (random)
      omega_.emplace(*this, site, "omega",
                     Draw{.matrices = config.per_head ? site.shape.heads : 1,
                          .rows = mirrored_ ? features_ / 2 : features_,
                          .width = width,
                          .norms = config.norms,
                          .redraw = config.redraw});
  }

  Tensor attend(const Heads& heads, Context& context) override {
    const bool causal = context.mask.causal;
    if (const auto& c = config_;
        exponential() && c.eps_in_features + c.eps_sums + c.eps_denominator == 0 &&
        has_random_kernel(heads.q, heads.k, heads.v, RandomMap::exponential, features_, causal))
      return random_product(heads.q, heads.k, heads.v,
                            {.omega = mirrored_ ? at::cat({**omega_, -**omega_}, 1) : **omega_,
                             .scale = std::pow(static_cast<double>(heads.q.size(3)), -0.25),
                             .keep = context.mask.keep,
                             .causal = causal});
    if (!by_logarithms(causal)) {
      const auto q = narrowed(query_features(heads.q), heads.q),
                 k = narrowed(key_features(heads.k, context), heads.k);
      return normalised(feature_sums(q, k, heads.v, causal), q, heads);
    }
    return normalised(
        positive_sums(positive_queries(heads.q), positive_keys(heads.k, context), heads.v, causal),
        heads);
  }

  void open(State& state, const Heads& empty, int64_t, Context&) override {
    if (by_logarithms(true))
      open_positive_sums(state, empty, features_);
    else
      open_feature_sums(state, empty, features_);
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    if (!by_logarithms(true)) {
      const auto q = query_features(heads.q);
      return normalised(grow_feature_sums(q, key_features(heads.k, context), heads.v, state), q,
                        heads);
    }
    if (config_.map == Map::no_projection)
      return normalised(grow_positive_sums(positive_queries(heads.q),
                                           positive_keys(heads.k, context), heads.v, state),
                        heads);
    const int64_t count = heads.q.size(2);  // few tokens: one call takes as long as two
    const auto& keep = context.mask.keep;
    const auto both =
        positive_features(at::cat({heads.q, heads.k}, 2), **omega_, mirrored_,
                          keep.defined() ? at::cat({at::ones_like(keep), keep}, 1) : keep);
    const auto part = [&](int64_t first) {
      return PositiveFeatures{both.phi.narrow(2, first, count), both.peak.narrow(2, first, count)};
    };
    return normalised(grow_positive_sums(part(0), part(count), heads.v, state), heads);
  }

  bool open_memory(State& state, const Heads& memory, const Context& context) override {
    if (by_logarithms(false))
      keep_positive_memory(state, positive_keys(memory.k, context), memory.v);
    else
      keep_memory_sums(state, key_features(memory.k, context), memory.v);
    return true;
  }

  Tensor read_memory(const Heads& queries, State& state, Context&) override {
    if (by_logarithms(false))
      return normalised(read_positive_memory(positive_queries(queries.q), state), queries);
    const auto q = query_features(queries.q);
    return normalised(read_memory_sums(q, state), q, queries);
  }

  void after_step(int64_t step) override {
    if (omega_) omega_->after_step(step);
  }

 private:
  bool exponential() const { return config_.map == Map::softmax || mirrored_; }
  // Efficient attention gives each feature a sum of one over the keys, when it may see them all.
  bool by_logarithms(bool causal) const {
    return (exponential() && config_.eps_in_features == 0) ||
           (config_.map == Map::no_projection && causal);
  }

  PositiveFeatures positive_queries(const Tensor& q) const {
    if (config_.map == Map::no_projection)
      return features_of_logs(q.to(wide(q)).log_softmax(-1), {});
    return positive_features(q, **omega_, mirrored_, {});
  }
  PositiveFeatures positive_keys(const Tensor& k, const Context& context) const {
    const auto& keep = context.mask.keep;
    if (config_.map == Map::no_projection) return features_of_logs(k.to(wide(k)), keep);
    return positive_features(k, **omega_, mirrored_, keep);
  }

  Tensor query_features(const Tensor& q) const {
    if (config_.map == Map::no_projection) return q.to(wide(q)).softmax(-1);
    if (!exponential()) return mapped(q);
    const auto p = project(q, **omega_, mirrored_);
    return raised(p.u - p.half - p.u.detach().amax(-1, true));
  }
  Tensor key_features(const Tensor& k, const Context& context) const {
    const auto keep = config_.official ? Tensor() : context.mask.keep;
    if (config_.map == Map::no_projection) {
      const auto visible = keep.defined() ? keep.unsqueeze(1).unsqueeze(1) : keep;
      return masked_softmax(k.transpose(-2, -1), visible).transpose(-2, -1);
    }
    if (!exponential()) return without_padding(mapped(k), keep);
    const auto p = project(k, **omega_, mirrored_);
    const auto u = without_padded_logs(p.u, keep);
    const auto peak = u.detach().amax({2, 3}, true).clamp_min(kNothingSeen);
    return without_padding(raised(u - p.half - peak), keep);
  }

  // The reference's: exponents relative to the largest projection, and eps beside every feature.
  Tensor raised(const Tensor& exponents) const {
    return (exponents.exp() + config_.eps_in_features) / std::sqrt(static_cast<double>(features_));
  }

  // g(Omega x') + epsilon, or g(x') + epsilon.
  Tensor mapped(const Tensor& x) const {
    const double quarter = config_.official ? 1 : std::pow(static_cast<double>(x.size(-1)), -0.25);
    const auto u = omega_ ? project(x, **omega_, false).u : x.to(wide(x)) * quarter;
    return g(u) + config_.epsilon;
  }
  Tensor g(const Tensor& u) const {
    switch (config_.map == Map::relu ? Kernel::relu : config_.kernel) {
      case Kernel::relu:
        return u.relu();
      case Kernel::elu1:
        return elu_plus_one(u);
      case Kernel::exp:
        return bounded_exp(u);
      case Kernel::softplus:
        return at::softplus(u);
      case Kernel::square:
        return u.square();
      case Kernel::abs:
        return u.abs();
    }
    TORCH_INTERNAL_ASSERT(false, "a kernel without a formula");
  }

  // The sums are in units of exp(query_peak + key_peak), and so is what is added to them.
  Tensor normalised(const PositiveSums& s, const Heads& heads) const {
    constexpr double kLargest = 80;  // exponent
    const auto unit = [](const Tensor& peak) { return (-peak).clamp_max(kLargest).exp(); };
    auto weights = s.sums.weights;
    if (config_.eps_sums > 0)
      weights = weights + config_.eps_sums * s.q.sum(-1, true) * unit(s.key_peak);
    if (config_.eps_denominator > 0)
      weights = weights + config_.eps_denominator * unit(s.query_peak + s.key_peak);
    return divided(s.sums.values, weights, heads);
  }
  Tensor normalised(const FeatureSums& sums, const Tensor& q, const Heads& heads) const {
    const auto weights =
        sums.weights + config_.eps_sums * q.sum(-1, true, wide(q)) + config_.eps_denominator;
    return divided(sums.values, weights, heads);
  }
  static Tensor divided(const Tensor& values, const Tensor& weights, const Heads& heads) {
    return (values / weights.clamp_min(kSmallest)).to(heads.q.scalar_type());
  }

  Config config_;
  bool mirrored_;
  int64_t features_ = 0;
  std::optional<RandomMatrices> omega_;  // [1 or H, R, D], half the rows when mirrored
};

// With eps in the features the maximum over all keys no longer cancels: a causal form would leak.
void check(const Config& c, const Site& site) {
  const int64_t width = site.shape.head();
  const bool exponential = c.map == Map::softmax || c.map == Map::hyperbolic;
  require_option(c.projection || c.map == Map::generalised, "projection",
                 "is false, but only map: generalised can do without one",
                 "leave it out, or set map: generalised");
  require_option(!c.official || (c.map == Map::generalised && !c.projection), "official",
                 "needs map: generalised and projection: false", "set both, or leave it out");
  require_option(c.eps_in_features == 0 || exponential, "eps_in_features",
                 "is for the maps softmax and hyperbolic", "leave it out");
  require_option(projects(c) || c.features == 0 || c.features == width, "features",
                 c10::str("is ", c.features, ", but without a projection there are as many as ",
                          "channels, ", width),
                 "leave it out");
  require_option(c.map != Map::hyperbolic || c.features % 2 == 0, "features",
                 c10::str("is ", c.features, ", but map: hyperbolic takes them in pairs"),
                 "take an even number");
}

Promises promises(const Config& c) {
  const bool causal = c.eps_in_features == 0 && !c.official;
  const bool by_logarithms = c.map != Map::relu && c.map != Map::generalised;
  return {.padding = c.official ? Padding::visible : Padding::invisible,
          .future = causal ? Future::exact : Future::refused,
          .cross = !c.official,
          .decode = causal,
          .causal_launches = by_logarithms ? Launches::logarithmic : Launches::constant};
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
       .variants = {{"hyperbolic", "{map: hyperbolic, features: 10, eps_denominator: 1e-3}"},
                    {"relu", "{map: relu, eps_sums: 1e-3}"},
                    {"generalised", "{map: generalised, kernel: elu1, projection: false}"},
                    {"no_projection", "{map: no_projection, eps_sums: 1e-3}"},
                    {"per_head", "{features: 19, norms: fixed, per_head: true}"},
                    {"official", "{map: generalised, projection: false, official: true}"}}},
      promises, make, check);
}

}  // namespace longbow
