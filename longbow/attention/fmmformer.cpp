// FMMformer (Nguyen et al., 2021, arXiv:2108.02347): as in the fast multipole method, near tokens
// are read exactly and far ones through a few kernels of low rank:
//   o_i = w * near_i + sum_l u_l * far_i^l,
//   near_i  = softmax attention over |i - j| <= band,
//   far_i^l = S_l^T phi_l(q_i) / (z_l . phi_l(q_i) + eps),   S_l = sum_j phi_l(k_j) v_j^T,
//   z_l = sum_j phi_l(k_j),
// with learned blend weights w, u_l. Keys inside the band count in both fields.
// Exact when the band covers the sequence and u = 0; with w = 0 and one map it is linear attention.
#include <ATen/ATen.h>

#include <set>
#include <vector>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/features/feature_attention.h"
#include "longbow/nn/features/feature_maps.h"
#include "longbow/nn/softmax/band.h"
#include "longbow/nn/softmax/blocks.h"
#include "longbow/ops/blend.h"
#include "longbow/ops/feature_product.h"

namespace longbow {
namespace {

enum class Map { elu, elu_flip, tanh };
constexpr std::array<std::string_view, 3> names_of(Map) {
  return {"elu", "elu_flip", "tanh"};
}
enum class Blend { free, sigmoid, alpha, far, product };
constexpr std::array<std::string_view, 5> names_of(Blend) {
  return {"free", "sigmoid", "alpha", "far", "product"};
}
enum class Per { channel, head, layer };
constexpr std::array<std::string_view, 3> names_of(Per) {
  return {"channel", "head", "layer"};
}
enum class FarNorm { denominator, none };
constexpr std::array<std::string_view, 2> names_of(FarNorm) {
  return {"denominator", "none"};
}

struct Config {
  int64_t band = 10;
  std::vector<Map> maps = {Map::elu};
  Blend blend = Blend::free;
  Per per = Per::channel;
  FarNorm far_norm = FarNorm::denominator;
  int64_t length = 0;
  double epsilon = 1e-6;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("band", c.band, "near field: keys at most this many tokens away", range(0, 65536));
  v("maps", c.maps,
    "far field: elu(x) + 1, elu(-x) + 1 (elu_flip), tanh(x) + 1, each at most once");
  v("blend", c.blend,
    "weights of the fields: free; sigmoids of free ones; alpha near + (1 - alpha) mean of far; "
    "near + u mean of far; w near + u sum_l r_l far_l (product)");
  v("per", c.per, "a blend weight for each channel, for each head, or for the layer");
  v("far_norm", c.far_norm,
    "far sums are divided by the sum of their weights, or by the root of a number of keys");
  v("length", c.length, "that number of keys; 0 = those that the query sees", at_least(0));
  v("epsilon", c.epsilon, "added to the denominator of the far field", above(0));
  v("dropout", c.dropout, "rate on the weights of the near field", range(0, 0.99));
}

class FMMformer : public AttentionImpl {
 public:
  FMMformer(const Site& site, const Config& config)
      : config_(config),
        rank_(static_cast<int64_t>(config.maps.size())),
        crossing_(site.cross),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    const int64_t heads = config.per == Per::layer ? 1 : site.shape.heads;
    const int64_t width = config.per == Per::channel ? site.shape.head() : 1;
    add_weights(heads, width);
  }

  Tensor attend(const Heads& heads, Context& context) override {
    if (crossing_ || context.memory.defined())
      return blended({}, far_fields(heads, context), heads);
    const auto by_field = heads_for(heads, 2);
    const auto near = near_field(by_field[0], context);
    return blended(near, far_fields(by_field[1], context), heads);
  }

  // The sums of the far field, and a ring of the last `band` keys.
  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    auto side_by_side = empty;
    side_by_side.v = beside(empty.v);
    open_feature_sums(state, side_by_side, empty.k.size(3));
    open_ring(state, empty, std::max<int64_t>(std::min(config_.band, capacity), 1));
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    const auto q = features(heads.q), k = key_features(heads, context);
    const auto far = normalised(grow_feature_sums(q, k, beside(heads.v), state), [&] {
      return (context.positions + 1).unsqueeze(1).unsqueeze(-1);  // [B, 1, T, 1]
    });
    if (crossing_) return blended({}, far, heads);
    return blended(grow_ring(scaled(heads), state, within(config_.band, 0), weighing(), context),
                   far, heads);
  }

  // A memory is read by the far field alone.
  bool open_memory(State& state, const Heads& memory, const Context& context) override {
    keep_memory_sums(state, key_features(memory, context), beside(memory.v));
    const auto& keep = context.mask.keep;
    state.lane["seen"] = keep.defined() ? keep.sum(1).view({-1, 1, 1, 1})
                                        : at::full({memory.k.size(0), 1, 1, 1}, memory.k.size(2),
                                                   memory.k.options().dtype(at::kLong));
    state.fill["seen"] = 0;
    return true;
  }

  Tensor read_memory(const Heads& queries, State& state, Context&) override {
    const auto sums = read_memory_sums(features(queries.q), state);
    return blended({}, normalised(sums, [&] { return state.lane.at("seen"); }), queries);
  }

 private:
  void add_weights(int64_t heads, int64_t width) {
    const auto add = [&](const std::string& name, const Tensor& start) {
      return parameter(name, start, {.decay = false});
    };
    const auto blend = config_.blend;
    const bool each = blend == Blend::free || blend == Blend::sigmoid,
               product = blend == Blend::product;
    if (blend == Blend::alpha) {
      alpha_ = add("alpha", at::full({heads, width}, 0.5));
      return;
    }
    const double start = blend == Blend::free ? 1 / static_cast<double>(rank_) : 0;
    far_ = add("far", at::full({each ? rank_ : 1, heads, width}, start));
    if (product) ratio_ = add("ratio", (at::arange(rank_) == 0).to(at::kFloat).view({rank_, 1, 1}));
    if (blend != Blend::far && !crossing_)
      near_ = add("near", at::full({heads, width}, product ? 1.0 : 0.0));
  }

  // One for each map, [B, H, N, D].
  std::vector<Tensor> far_fields(const Heads& heads, const Context& context) const {
    const FeatureProduct how = {
        .keep = context.mask.keep, .causal = context.mask.causal, .added = config_.epsilon};
    if (config_.far_norm == FarNorm::denominator &&
        has_feature_kernel(heads.q, heads.k, heads.v, how)) {
      std::vector<Tensor> fields;
      for (const auto map : config_.maps) fields.push_back(far_field(map, heads, how));
      return fields;
    }
    const bool causal = context.mask.causal;
    const auto q = features(heads.q), k = key_features(heads, context);  // [B, L H, N, D]
    return normalised(feature_sums(q, k, beside(heads.v), causal), [&] {
      const auto one = [](const Tensor& x) {
        return at::ones_like(x.narrow(1, 0, 1).narrow(3, 0, 1));
      };
      const auto keys = without_padding(one(k), context.mask.keep);
      return feature_sums(one(q), keys, one(k), causal).weights;
    });
  }
  // By kernels that form the features, where these have the map.
  static Tensor far_field(Map map, const Heads& heads, FeatureProduct how) {
    if (map == Map::tanh)
      return feature_product(tanh_plus_one(heads.q), tanh_plus_one(heads.k), heads.v, how);
    how.query_map = how.key_map = FeatureMap::elu;
    const bool flip = map == Map::elu_flip;
    return feature_product(flip ? -heads.q : heads.q, flip ? -heads.k : heads.k, heads.v, how);
  }

  Tensor near_field(const Heads& heads, Context& context) {
    const int64_t ahead = context.mask.causal ? 0 : config_.band;
    return read_window(heads, config_.band, ahead, weighing(), context, scale_)
        .mean.to(heads.v.scalar_type());
  }

  Heads scaled(Heads heads) const {
    heads.q = heads.q * scale_;
    return heads;
  }
  Weighing weighing() const { return {config_.dropout, is_training(), path_}; }

  // The maps stand side by side as heads do: [B, H, N, D] -> [B, L H, N, D], float32 at least.
  Tensor features(const Tensor& x) const {
    const auto y = x.to(wide(x));
    std::vector<Tensor> mapped;
    for (const auto map : config_.maps)
      mapped.push_back(map == Map::tanh ? tanh_plus_one(y)
                                        : elu_plus_one(map == Map::elu ? y : -y));
    return at::cat(mapped, 1);
  }
  Tensor key_features(const Heads& heads, const Context& context) const {
    return without_padding(features(heads.k), context.mask.keep);
  }
  Tensor beside(const Tensor& v) const { return v.repeat({1, rank_, 1, 1}); }

  // For each map; `count` says how many keys a query sees, [B, 1, N, 1].
  template <class F>
  std::vector<Tensor> normalised(const FeatureSums& sums, const F& count) const {
    const auto divided = [&] {
      if (config_.far_norm == FarNorm::denominator)
        return sums.values / (sums.weights + config_.epsilon);
      if (config_.length > 0) return sums.values / std::sqrt(static_cast<double>(config_.length));
      return sums.values * count().clamp_min(1).to(sums.values.scalar_type()).rsqrt();
    };
    return divided().chunk(rank_, 1);
  }

  // w near + sum_l u_l far_l; without `near` the far fields alone.
  Tensor blended(const Tensor& near, const std::vector<Tensor>& far, const Heads& heads) const {
    const auto type = far[0].scalar_type();
    const std::vector<int64_t> each = {rank_, heads.q.size(1), heads.q.size(3)};
    auto weights = far_weights().to(type).expand(each);
    if (!near.defined()) return blend(far, weights).to(heads.q.scalar_type());
    std::vector<Tensor> fields = {near.to(type)};
    fields.insert(fields.end(), far.begin(), far.end());
    const auto own =
        config_.blend == Blend::far ? at::ones({}, weights.options()) : near_weight().to(type);
    weights = at::cat({own.expand({1, each[1], each[2]}), weights});
    return blend(fields, weights).to(heads.q.scalar_type());
  }
  Tensor near_weight() const {
    if (config_.blend == Blend::alpha) return alpha_;
    return config_.blend == Blend::sigmoid ? near_.sigmoid() : near_;
  }
  Tensor far_weights() const {  // [L or 1, H, D]
    const auto rank = static_cast<double>(rank_);
    switch (config_.blend) {
      case Blend::alpha:
        return (1 - alpha_).unsqueeze(0) / rank;
      case Blend::far:
        return far_ / rank;
      case Blend::product:
        return far_ * ratio_;
      case Blend::sigmoid:
        return far_.sigmoid();
      default:
        return far_;
    }
  }

  Config config_;
  int64_t rank_;
  bool crossing_;
  std::string path_;
  double scale_;
  // [H, D], [L or 1, H, D], [H, D], [L, 1, 1]; 1 in place of H or D for what shares a weight
  Tensor near_, far_, alpha_, ratio_;
};

void check(const Config& c, const Site&) {
  const std::set<Map> different(c.maps.begin(), c.maps.end());
  require_option(!c.maps.empty(), "maps", "is empty, but the far field needs one",
                 "write maps: [elu]");
  require_option(different.size() == c.maps.size(), "maps", "names a map twice",
                 "name each at most once");
  require_option(c.length == 0 || c.far_norm == FarNorm::none, "length",
                 "is for far_norm: none, but there is a denominator",
                 "leave length out, or set far_norm: none");
}

Promises promises(const Config&) {
  return {.future = Future::exact, .cross = true, .decode = true, .positional = true};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<FMMformer>(site, c);
}

}  // namespace

Mechanism fmmformer_mechanism() {
  return over_heads<Config>(
      {.name = "fmmformer",
       .family = "kernel",
       .paper = "arXiv:2108.02347",
       .cost = "O(N (W + L D) D)",
       .summary = "A band of softmax attention for near tokens, feature maps for the far ones.",
       .exact = "band >= N - 1 and no far weight: softmax; one map and no near weight: linear",
       .variants = {{"sigmoid",
                     "{band: 3, maps: [elu, elu_flip, tanh], blend: sigmoid, per: head}"},
                    {"alpha", "{band: 40, maps: [elu_flip, elu], blend: alpha, per: layer}"},
                    {"far", "{band: 2, maps: [elu, elu_flip], blend: far}"},
                    {"product",
                     "{maps: [elu, tanh], blend: product, per: head, far_norm: none, length: 64}"},
                    {"sums", "{band: 0, maps: [tanh, elu], far_norm: none}"}}},
      promises, make, check);
}

}  // namespace longbow
