// Scatterbrain (Chen et al., 2021, arXiv:2110.15343): few pairs exactly, all others by positive
// random features, and none counted twice. With S(i) the keys that query i treats exactly,
//   M_ij = exp(s_ij), j in S(i);   w_ij = phi(q_i) . phi(k_j), all others;   o = rows of M V / M 1,
//   s_ij = q_i . k_j / sqrt D,   E[w_ij] = exp(s_ij)  (Performer's features),
// in linear time: the features' sums over all keys, plus sum_(j in S(i)) (exp(s_ij) - w_ij) [v_j,
// 1]. Terms are relative to c_i = max(largest s_ij of S(i), largest exponent of the features), so
// no exponent is above zero. S(i) is a window, or the pairs that fall into the same group when
// queries and keys are hashed, sorted and cut; over several rounds a pair found n times counts 1 /
// n each. Softmax attention when S(i) holds all keys, Performer when it is empty.
#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "longbow/attention/mechanism.h"
#include "longbow/attention/scatterbrain/groups.h"
#include "longbow/nn/features/positive_features.h"
#include "longbow/nn/features/random_features.h"
#include "longbow/nn/softmax/band.h"
#include "longbow/nn/softmax/blocks.h"
#include "longbow/nn/softmax/softmax.h"
#include "longbow/ops/block_product.h"
#include "longbow/ops/exponential_features.h"
#include "longbow/ops/random_past.h"
#include "longbow/ops/random_product.h"
#include "longbow/ops/random_window.h"

namespace longbow {
namespace {

enum class Support { local, clusters, angular };
constexpr std::array<std::string_view, 3> names_of(Support) {
  return {"local", "clusters", "angular"};
}
enum class Map { softmax, hyperbolic };
constexpr std::array<std::string_view, 2> names_of(Map) {
  return {"softmax", "hyperbolic"};
}

struct Config {
  Support support = Support::local;
  int64_t window = 64, rounds = 1, buckets = 16;
  Map map = Map::hyperbolic;
  int64_t features = 0, redraw = 1000;
  RowNorms norms = RowNorms::regular;
  bool per_head = false;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("support", c.support,
    "exact pairs: a window around the query; clusters of equal size, sorted by a projection; or "
    "chunks sorted by angle, with the chunk before");
  v("window", c.window, "c, keys in the window, of a cluster or of a chunk", range(0, 65536));
  v("rounds", c.rounds, "how often clusters or chunks are formed, each time by other hashes",
    range(1, 64));
  v("buckets", c.buckets, "buckets of the angular hash, an even number", range(2, 65536));
  v("map", c.map, "features exp(u - x.x / 2), or of u and -u from half as many rows");
  v("features", c.features, "R, random features; 0 = D ln D", range(0, 65536));
  v("norms", c.norms, "lengths of the drawn rows: as those of normal vectors, or all sqrt(D)");
  v("per_head", c.per_head, "each head has its own features");
  v("redraw", c.redraw, "training steps between two draws; 0 = never", at_least(0));
  v("dropout", c.dropout, "rate on the exact weights; a dropped pair is not estimated either",
    range(0, 0.99));
}

class Scatterbrain : public AttentionImpl {
 public:
  Scatterbrain(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        width_(site.shape.head()),
        scale_(1 / std::sqrt(static_cast<double>(width_))),
        mirrored_(config.map == Map::hyperbolic),
        features_(config.features > 0 ? config.features : usual_features(width_, mirrored_)),
        omega_(*this, site, "omega",
               {.matrices = config.per_head ? site.shape.heads : 1,
                .rows = mirrored_ ? features_ / 2 : features_,
                .width = width_,
                .norms = config.norms,
                .redraw = config.redraw}) {
    if (config.support == Support::local) return;
    const bool angular = config.support == Support::angular;
    hashes_.emplace(*this, site, "hashes",
                    Draw{.matrices = config.rounds,
                         .rows = angular ? config.buckets / 2 : 1,
                         .width = angular ? width_ : width_ + 2,
                         .orthogonal = false,
                         .redraw = config.redraw});
  }

  Tensor attend(const Heads& heads, Context& context) override {
    if (!hashes_ && config_.window > 0) {
      if (heads.q.is_cpu()) return by_windows(heads, context);
      const bool causal = context.mask.causal;
      if (const auto how = window_on_chip(context);
          !drops() && leaves_keys(heads, causal) &&
          has_random_window_kernel(heads.q, heads.k, heads.v, how))
        return random_window(heads.q, heads.k, heads.v, how);
      if (causal &&
          has_random_kernel(heads.q, heads.k, heads.v, RandomMap::exponential, features_, true))
        return past_and_window(heads, context);
    }
    const auto found = features_of(heads.k, context.mask.keep);
    const auto far = positive_sums(features_of(heads.q, {}), found, heads.v, context.mask.causal);
    const auto queries = side_by_side(heads, far), keys = side_by_side(heads, found);
    if (hashes_) return joined(far, hashed(queries, keys, context), heads);
    if (config_.window == 0) return joined(far, {}, heads);
    const int64_t after = ahead(context.mask.causal);
    const auto band = Band::around(heads.q.size(2), back(), after);
    const auto visible = band.visible(within(back(), after), context.mask.keep, heads.q.device());
    const auto parts = nearby(band.queries(queries), band.keys(keys), visible, context);
    return joined(far, {band.together(parts)}, heads);
  }

  // The sums of the features, and a ring of what a window may still read.
  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    open_positive_sums(state, empty, features_);
    open_ring(state, in_ring(empty, features_of(empty.k, {})),
              Band::around(capacity, back(), 0).tile);
  }

  Tensor grow(const Heads& all, State& state, Context& context) override {
    return in_pieces(all, context, ring_size(state), [&](const Heads& heads, Context& inner) {
      const auto found = features_of(heads.k, inner.mask.keep);
      const auto far = grow_positive_sums(features_of(heads.q, {}), found, heads.v, state);
      const auto near = pass_ring(in_ring(heads, found), state, within(back(), 0), inner);
      if (config_.window == 0) return joined(far, {}, heads);
      return joined(far, {nearby(side_by_side(heads, far), near.k, near.visible, inner)}, heads);
    });
  }

  void after_step(int64_t step) override {
    omega_.after_step(step);
    if (hashes_) hashes_->after_step(step);
  }

 private:
  // The window holds exactly c keys, -(c div 2) <= j - i < (c + 1) div 2.
  int64_t back() const { return config_.window / 2; }
  int64_t ahead(bool causal) const { return causal ? 0 : (config_.window + 1) / 2 - 1; }
  // What nearby() reads, in the place of keys.
  static Heads in_ring(const Heads& heads, const PositiveFeatures& found) {
    const auto rows = side_by_side(heads, found);
    return {heads.q, rows, rows.narrow(-1, 0, 0), heads.x, heads.source};
  }

  // Of keys before the window and those in it, each part with the logarithm of its weights' sum.
  Tensor past_and_window(const Heads& heads, Context& context) const {
    const auto far = random_past(heads.q, heads.k, heads.v, features_on_chip(context), back() + 1);
    const auto near =
        read_window(heads, back(), 0, {config_.dropout, is_training(), path_}, context, scale_);
    return join_softmax({near.mean, near.log_sum}, far).out;
  }
  RandomProduct features_on_chip(const Context& context) const {
    return {.omega = mirrored_ ? at::cat({*omega_, -*omega_}, 1) : *omega_,
            .scale = std::sqrt(scale_),
            .keep = context.mask.keep};
  }
  RandomWindow window_on_chip(const Context& context) const {
    return {.omega = *omega_,
            .mirrored = mirrored_,
            .scale = std::sqrt(scale_),
            .keep = context.mask.keep,
            .back = back(),
            .ahead = ahead(context.mask.causal),
            .causal = context.mask.causal};
  }
  bool drops() const { return config_.dropout > 0 && is_training(); }
  // That kernel takes the products of a window out of the sums over all keys, which it rounds: of a
  // window that has most keys, few digits are left.
  bool leaves_keys(const Heads& heads, bool causal) const {
    return causal || heads.k.size(2) >= 2 * (back() + 1 + ahead(causal));
  }

  // Where kernels read windows, the exact weights of one are a softmax with the logarithm of its
  // sum.
  Tensor by_windows(const Heads& given, Context& context) const {
    const auto in = [&](const Tensor& x) { return x.to(wide(x)); };
    const Heads heads = {in(given.q), in(given.k), in(given.v), given.x, given.source};
    const bool causal = context.mask.causal;
    const auto& keep = context.mask.keep;
    const auto [pairs, seen] = window_of(heads, back(), ahead(causal), keep);
    const auto [rest, peak] =
        causal ? before_windows(heads, keep) : around_windows(heads, keep, pairs, seen);
    const auto near = read_blocks(heads.q, heads.k, heads.v, pairs, seen,
                                  {config_.dropout, is_training(), path_}, context, {}, {}, scale_);
    const auto c = at::maximum(peak, near.log_sum.detach());
    const auto exact = (near.log_sum - c).exp() * at::constant_pad_nd(near.mean, {0, 1}, 1);
    return divided(rest * (peak - c).exp() + exact, given);
  }

  // The sums of features over keys outside the window, [B, H, N, D + 1], relative to exp(peak).
  struct Rest {
    Tensor sums, peak;
  };
  // Over all keys, less those of the window, which are a product of their own.
  Rest around_windows(const Heads& heads, const Tensor& keep, const BlockPairs& pairs,
                      const Visibility& seen) const {
    const auto features = [&](const Tensor& x, const Tensor& kept, Peak peak) {
      return exponential_features(x, *omega_, std::sqrt(scale_), kept, peak, mirrored_);
    };
    const auto [q, query_peak] = features(heads.q, {}, Peak::token);
    const auto [k, key_peak] = features(heads.k, keep, Peak::head);
    const auto far = feature_sums(q, k, heads.v, false);
    const auto values = at::constant_pad_nd(heads.v, {0, 1}, 1);
    return {at::cat({far.values, far.weights}, -1) - block_product(q, k, values, pairs, seen),
            query_peak + key_peak - std::log(static_cast<double>(features_))};
  }
  // Under a causal mask, over all keys before the window: what a query `reach` tokens earlier would
  // read.
  Rest before_windows(const Heads& heads, const Tensor& keep) const {
    const int64_t n = heads.q.size(2), reach = std::min(back() + 1, n), rest = n - reach;
    const auto behind = [&](const Tensor& t, double fill) {
      return at::constant_pad_nd(t, {0, 0, reach, 0}, fill);
    };
    if (rest == 0) {
      const auto none = heads.v.narrow(2, 0, 0);
      return {behind(at::constant_pad_nd(none, {0, 1}), 0),
              behind(none.narrow(3, 0, 1), kNothingSeen)};
    }
    const auto keys =
        features_of(heads.k.narrow(2, 0, rest), keep.defined() ? keep.narrow(1, 0, rest) : keep);
    const auto far = positive_sums(features_of(heads.q.narrow(2, reach, rest), {}), keys,
                                   heads.v.narrow(2, 0, rest), true);
    return {behind(at::cat({far.sums.values, far.sums.weights}, -1), 0),
            behind(far.query_peak + far.key_peak, kNothingSeen)};
  }

  PositiveFeatures features_of(const Tensor& x, const Tensor& keep) const {
    return positive_features(x, *omega_, mirrored_, keep);
  }

  // What nearby() reads of a query and of a key, float32 at least.
  static Tensor side_by_side(const Heads& heads, const PositiveSums& far) {
    const auto peak = far.key_peak.expand({-1, -1, far.q.size(2), 1});
    return at::cat({heads.q.to(far.q.scalar_type()), far.q, peak}, -1);
  }
  static Tensor side_by_side(const Heads& heads, const PositiveFeatures& found) {
    const auto type = found.phi.scalar_type();
    return at::cat({heads.k.to(type), found.phi, found.peak, heads.v.to(type)}, -1);
  }

  // For each of W queries, over those of its S keys that are in the support: sum exp(s - top) [v,
  // 1], then sum w [v, 1] relative to the peaks of the features, then top, the largest s; [.., W,
  // 2D + 3]. share [.., W, S] is what a pair counts, 0 outside the support.
  Tensor nearby(const Tensor& queries, const Tensor& keys, const Tensor& share,
                const Context& context, int64_t round = 0) const {
    const int64_t d = width_, r = features_;
    const auto q = queries.narrow(-1, 0, d), phi = queries.narrow(-1, d, r),
               key_peak = queries.narrow(-1, d + r, 1);
    const auto k = keys.narrow(-1, 0, d), found = keys.narrow(-1, d, r),
               found_peak = keys.narrow(-1, d + r, 1), v = keys.narrow(-1, d + r + 1, d);
    const auto s = (q.matmul(k.transpose(-2, -1)) * scale_).masked_fill(share == 0, -INFINITY);
    const auto top = s.detach().amax(-1, true).clamp_min(kNothingSeen);
    const auto exact = (s - top).exp() * share;
    const auto unit = (found_peak.transpose(-2, -1) - key_peak).clamp_max(0).exp();
    const auto w = phi.matmul(found.transpose(-2, -1)) * unit * share;
    const auto kept = dropout(exact, config_.dropout, is_training(), context,
                              path_ + ".dropout" + std::to_string(round));
    return at::cat({kept.matmul(v), exact.sum(-1, true), w.matmul(v), w.sum(-1, true), top}, -1);
  }

  // Features over all keys less those of the support, and the exact weights of the support, all
  // relative to exp(c).
  Tensor joined(const PositiveSums& far, const std::vector<Tensor>& parts,
                const Heads& heads) const {
    const int64_t sums = width_ + 1;
    const auto peak = far.query_peak + far.key_peak;
    auto rest = at::cat({far.sums.values, far.sums.weights}, -1), c = peak;
    for (const auto& part : parts) {
      rest = rest - part.narrow(-1, sums, sums);
      c = at::maximum(c, part.narrow(-1, 2 * sums, 1));
    }
    auto all = rest * (peak - c).exp();
    for (const auto& part : parts)
      all = all + part.narrow(-1, 0, sums) * (part.narrow(-1, 2 * sums, 1) - c).exp();
    return divided(all, heads);
  }
  Tensor divided(const Tensor& all, const Heads& heads) const {
    const int64_t d = width_;
    const double least =
        all.scalar_type() == at::kDouble ? 1e-14 : 1e-6;  // above what rounding leaves
    return (all.narrow(-1, 0, d) / all.narrow(-1, d, 1).clamp_min(least)).to(heads.v.scalar_type());
  }

  std::vector<Tensor> hashed(const Tensor& queries, const Tensor& keys,
                             const Context& context) const {
    const bool angular = config_.support == Support::angular;
    const auto& keep = context.mask.keep;
    const auto order = context.pick(path_ + ".order", [&] {
      const at::NoGradGuard constant;
      const auto q = queries.narrow(-1, 0, width_), k = keys.narrow(-1, 0, width_);
      const auto planes = (**hashes_).to(q.scalar_type());
      return sorted_by(angular ? angular_codes(q, k, planes) : cluster_codes(q, k, planes, keep),
                       keep);
    });
    const Groups groups(order, config_.window, angular ? 1 : 0);
    std::vector<Tensor> parts;
    for (int64_t round = 0; round < config_.rounds; ++round) {
      const auto share = groups.share(context.mask, round, queries.scalar_type());
      const auto near =
          nearby(groups.queries(queries, round), groups.keys(keys, round), share, context, round);
      parts.push_back(groups.rows(near, round));
    }
    return parts;
  }

  Config config_;
  std::string path_;
  int64_t width_;
  double scale_;
  bool mirrored_;
  int64_t features_;
  RandomMatrices omega_;                  // [1 or H, R, D], half the rows when mirrored
  std::optional<RandomMatrices> hashes_;  // [rounds, rows, D or D + 2]
};

// Hashes of whole sequences tell which pairs are exact, so only a window is strictly causal.
void check(const Config& c, const Site&) {
  const bool local = c.support == Support::local;
  require_option(c.map != Map::hyperbolic || c.features % 2 == 0, "features",
                 c10::str("is ", c.features, ", but map: hyperbolic takes them in pairs"),
                 "take an even number");
  require_option(!local || c.rounds == 1, "rounds",
                 c10::str("is ", c.rounds, ", but a window is the same in every round"),
                 "leave it out, or set support to clusters or angular");
  require_option(local || c.window > 0, "window", "is 0, but groups need keys",
                 "take 1 or more, or set support: local");
  require_option(local || c.buckets % 2 == 0, "buckets",
                 c10::str("is ", c.buckets, ", but they come in pairs"), "take an even number");
}

Promises promises(const Config& c) {
  const bool local = c.support == Support::local;
  return {.future = local ? Future::exact : Future::frozen,
          .decode = local,
          .positional = c.support != Support::clusters,
          .causal_launches = Launches::logarithmic};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Scatterbrain>(site, c);
}

}  // namespace

Mechanism scatterbrain_mechanism() {
  return over_heads<Config>(
      {.name = "scatterbrain",
       .family = "kernel",
       .paper = "arXiv:2110.15343",
       .cost = "O(N (R + W) D)",
       .summary = "Near or similar pairs exactly, all others by random features.",
       .exact = "support of all keys: softmax; no support: performer",
       .variants = {{"even", "{window: 6, map: softmax, features: 12}"},
                    {"clusters", "{support: clusters, window: 12, rounds: 2}"},
                    {"angular", "{support: angular, window: 10, buckets: 4}"}}},
      promises, make, check);
}

}  // namespace longbow
