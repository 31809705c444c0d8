// Linear attention (Katharopoulos et al., 2020, arXiv:2006.16236): the softmax kernel is replaced
// by phi(q) . phi(k) with a positive feature map, so sums over keys are formed once:
//   o_i = S^T phi(q_i) / (z . phi(q_i) + eps),   S = sum_j phi(k_j) v_j^T,   z = sum_j phi(k_j).
// Causally S and z are running sums, which are also the decoding state. A learned map is phi(x) =
// elu(W x) + 1 with a matrix W [R, D] for each head.
#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/features/feature_attention.h"
#include "longbow/nn/features/feature_maps.h"
#include "longbow/nn/softmax/softmax.h"
#include "longbow/ops/feature_product.h"

namespace longbow {
namespace {

enum class Map { elu, relu, square, softmax, identity, learned };
constexpr std::array<std::string_view, 6> names_of(Map) {
  return {"elu", "relu", "square", "softmax", "identity", "learned"};
}
enum class KeyMap { same, exp, positions };
constexpr std::array<std::string_view, 3> names_of(KeyMap) {
  return {"same", "exp", "positions"};
}
enum class Normaliser { sum, clamp, rms, none };
constexpr std::array<std::string_view, 4> names_of(Normaliser) {
  return {"sum", "clamp", "rms", "none"};
}

struct Config {
  Map map = Map::elu;
  int64_t features = 0;
  KeyMap key_map = KeyMap::same;
  bool widen = false;
  Normaliser normaliser = Normaliser::sum;
  double epsilon = 1e-6;
  double dropout = 0;
  bool official = false;
};
template <class V>
void fields(V& v, Config& c) {
  v("map", c.map,
    "feature map: elu(x) + 1, relu(x), x squared, softmax over channels, x itself, or elu(W x) + 1 "
    "with a learned W for each head");
  v("features", c.features, "map: learned: R, rows of W; 0 = as many as a head has channels",
    range(0, 65536));
  v("key_map", c.key_map,
    "of keys: as the map says, exp(min(x, 35)), or a softmax over positions (then not causal, no "
    "decoding)");
  v("widen", c.widen, "twice as many features: [phi(x), phi(-x)]");
  v("normaliser", c.normaliser,
    "divide by the sum of weights + epsilon, by that sum but at least epsilon, by the root of the "
    "output's mean square + epsilon, or by nothing");
  v("epsilon", c.epsilon, "keeps the denominator from zero", above(0));
  v("dropout", c.dropout, "rate on what is read", range(0, 0.99));
  v("official", c.official,
    "as the Long Range Arena's code: padding is read; neither causal nor with a memory");
}

class LinearAttention : public AttentionImpl {
 public:
  LinearAttention(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        features_(config.features > 0 ? config.features : site.shape.head()) {
    if (config.map != Map::learned) return;
    const double deviation = 1 / std::sqrt(static_cast<double>(site.shape.head()));
    map_ = parameter(
        "map",
        initial_normal(site, "map", {site.shape.heads, features_, site.shape.head()}, deviation));
  }

  Tensor attend(const Heads& given, Context& context) override {
    const auto heads = mapped(given);
    if (const auto how = as_product(context);
        how && has_feature_kernel(heads.q, heads.k, heads.v, *how)) {
      // Sums that nothing is divided by leave the range of float16.
      const bool widened = !how->normalised && heads.q.is_cpu();
      const auto in = [&](const Tensor& x) { return widened ? x.to(wide(x)) : x; };
      const auto o = feature_product(in(heads.q), in(heads.k), in(heads.v), *how);
      return how->normalised ? dropped(o, context) : normalised({o, {}}, heads, context);
    }
    const auto q = query_features(heads), k = key_features(heads, context);
    return normalised(feature_sums(q, k, heads.v, context.mask.causal), heads, context);
  }

  void open(State& state, const Heads& empty, int64_t, Context&) override {
    open_feature_sums(state, empty, (config_.widen ? 2 : 1) * features_);
  }

  Tensor grow(const Heads& given, State& state, Context& context) override {
    const auto heads = mapped(given);
    const auto q = query_features(heads), k = key_features(heads, context);
    return normalised(grow_feature_sums(q, k, heads.v, state), heads, context);
  }

  bool open_memory(State& state, const Heads& given, const Context& context) override {
    const auto memory = mapped(given);
    keep_memory_sums(state, key_features(memory, context), memory.v);
    return true;
  }

  Tensor read_memory(const Heads& given, State& state, Context& context) override {
    const auto queries = mapped(given);
    return normalised(read_memory_sums(query_features(queries), state), queries, context);
  }

 private:
  // A learned map is that of elu for rows W x: queries and keys [B, H, N, R].
  Heads mapped(Heads heads) const {
    if (!map_.defined()) return heads;
    for (auto* x : {&heads.q, &heads.k})
      if (x->defined()) *x = x->matmul(map_.transpose(-2, -1));
    return heads;
  }
  Tensor phi(const Tensor& x) const {
    switch (config_.map) {
      case Map::relu:
        return x.relu();
      case Map::square:
        return x.square();
      case Map::softmax:
        return x.softmax(-1);
      case Map::identity:
        return x;
      default:
        return elu_plus_one(x);
    }
  }
  Tensor key_phi(const Tensor& x, const Tensor& keep) const {
    if (config_.key_map == KeyMap::same) return phi(x);
    if (config_.key_map == KeyMap::exp) return bounded_exp(x);
    const auto visible = keep.defined() ? keep.unsqueeze(1).unsqueeze(1) : keep;  // [B, 1, 1, M]
    return masked_softmax(x.transpose(-2, -1), visible).transpose(-2, -1).to(x.scalar_type());
  }

  // What one operator can do, features, sums and quotient; otherwise nothing.
  std::optional<FeatureProduct> as_product(const Context& context) const {
    const auto map = feature_map();
    if (config_.widen || !map || config_.key_map == KeyMap::positions) return {};
    const auto& c = config_;
    FeatureProduct how = {
        .query_map = *map,
        .key_map = c.key_map == KeyMap::exp ? FeatureMap::exp : *map,
        .keep = c.official ? Tensor() : context.mask.keep,
        .causal = context.mask.causal,
        .normalised = c.normaliser == Normaliser::sum || c.normaliser == Normaliser::clamp};
    (c.normaliser == Normaliser::sum ? how.added : how.least) = c.epsilon;
    return how;
  }
  std::optional<FeatureMap> feature_map() const {
    switch (config_.map) {
      case Map::elu:
      case Map::learned:
        return FeatureMap::elu;
      case Map::relu:
        return FeatureMap::relu;
      case Map::square:
        return FeatureMap::square;
      case Map::identity:
        return FeatureMap::identity;
      default:
        return {};
    }
  }

  // Features are float32 at least, because z grows with the number of keys; bfloat16 has the range
  // of float32, and on a GPU its products are added up in float32.
  template <class F>
  Tensor features(const Tensor& x, const F& map) const {
    const bool narrow = x.is_cuda() && x.scalar_type() == at::kBFloat16;
    const auto y = narrow ? x : x.to(wide(x));
    return config_.widen ? at::cat({map(y), map(-y)}, -1) : map(y);
  }
  Tensor query_features(const Heads& heads) const {
    return features(heads.q, [&](const Tensor& x) { return phi(x); });
  }
  Tensor key_features(const Heads& heads, const Context& context) const {
    const auto keep = config_.official ? Tensor() : context.mask.keep;
    return without_padding(features(heads.k, [&](const Tensor& x) { return key_phi(x, keep); }),
                           keep);
  }

  Tensor normalised(const FeatureSums& sums, const Heads& heads, const Context& context) const {
    auto o = sums.values;
    const double epsilon = config_.epsilon;
    switch (config_.normaliser) {
      case Normaliser::sum:
        o = o / (sums.weights + epsilon);
        break;
      case Normaliser::clamp:
        o = o / sums.weights.clamp_min(epsilon);
        break;
      case Normaliser::rms:
        o = o * (o.square().mean(-1, true) + epsilon).rsqrt();
        break;
      case Normaliser::none:
        break;
    }
    return dropped(o.to(heads.q.scalar_type()), context);
  }
  Tensor dropped(const Tensor& o, const Context& context) const {
    return dropout(o, config_.dropout, is_training(), context, path_ + ".dropout");
  }

  Config config_;
  std::string path_;
  int64_t features_;  // before they are widened
  Tensor map_;        // W [H, R, D], or undefined
};

void check(const Config& c, const Site&) {
  require_option(c.features == 0 || c.map == Map::learned, "features", "is for map: learned",
                 "leave it out");
  require_option(c.map != Map::learned || c.key_map == KeyMap::same, "key_map",
                 "maps the channels of a key, but queries have features of map: learned",
                 "leave it out");
  const bool divides = c.normaliser == Normaliser::sum || c.normaliser == Normaliser::clamp;
  require_option(c.map != Map::identity || !divides, "normaliser",
                 "divides by the sum of weights, but map: identity gives weights of any sign",
                 "set normaliser to rms or none");
}

Promises promises(const Config& c) {
  const bool stepwise = c.key_map != KeyMap::positions && !c.official;
  return {.padding = c.official ? Padding::visible : Padding::invisible,
          .future = stepwise ? Future::exact : Future::refused,
          .cross = !c.official,
          .decode = stepwise};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<LinearAttention>(site, c);
}

}  // namespace

Mechanism linear_mechanism() {
  return over_heads<Config>(
      {.name = "linear",
       .family = "kernel",
       .paper = "arXiv:2006.16236",
       .cost = "O(N D^2)",
       .summary = "A positive feature map in place of the exponential; keys "
                  "and values become one running sum.",
       .exact = "one key: its value; its own feature kernel, never softmax",
       .variants = {{"relu", "{map: relu, epsilon: 1e-3}"},
                    {"square", "{map: square, epsilon: 1e-3}"},
                    {"softmax", "{map: softmax, key_map: exp, normaliser: clamp, epsilon: 1e-3}"},
                    {"efficient", "{map: softmax, key_map: positions, normaliser: none}"},
                    {"rms", "{map: identity, normaliser: rms}"},
                    {"wide", "{widen: true}"},
                    {"learned", "{map: learned, features: 12}"},
                    {"official", "{official: true}"}}},
      promises, make, check);
}

}  // namespace longbow
