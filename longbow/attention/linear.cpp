// Linear attention (Katharopoulos et al., 2020, arXiv:2006.16236): the softmax kernel is replaced
// by phi(q) . phi(k) with a positive feature map, so sums over keys are formed once:
//   o_i = S^T phi(q_i) / (z . phi(q_i) + eps),   S = sum_j phi(k_j) v_j^T,   z = sum_j phi(k_j).
// Causally S and z are running sums, which are also the decoding state.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/feature_attention.h"

namespace longbow {
namespace {

enum class Map { elu, relu, square };
constexpr std::array<std::string_view, 3> names_of(Map) {
  return {"elu", "relu", "square"};
}

struct Config {
  Map map = Map::elu;
  double epsilon = 1e-6;
};
template <class V>
void fields(V& v, Config& c) {
  v("map", c.map, "feature map: elu(x) + 1, relu(x), or x squared");
  v("epsilon", c.epsilon, "added to the denominator", above(0));
}

class LinearAttention : public AttentionImpl {
 public:
  explicit LinearAttention(const Config& config) : config_(config) {}

  Tensor attend(const Heads& heads, Context& context) override {
    const auto q = features(heads.q), k = key_features(heads, context);
    return normalised(feature_sums(q, k, heads.v, context.mask.causal), heads);
  }

  void open(State& state, const Heads& empty, int64_t, Context&) override {
    open_feature_sums(state, empty, empty.k.size(3));
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    const auto q = features(heads.q), k = key_features(heads, context);
    return normalised(grow_feature_sums(q, k, heads.v, state), heads);
  }

 private:
  // Features and sums are float32 at least: z grows with the number of keys.
  Tensor features(const Tensor& x) const {
    const auto y = x.to(wide(x));
    if (config_.map == Map::relu) return y.relu();
    return config_.map == Map::square ? y.square() : at::elu(y) + 1;
  }

  Tensor key_features(const Heads& heads, const Context& context) const {
    return without_padding(features(heads.k), context.mask.keep);
  }

  Tensor normalised(const FeatureSums& sums, const Heads& heads) const {
    return (sums.values / (sums.weights + config_.epsilon)).to(heads.v.scalar_type());
  }

  Config config_;
};

Promises promises(const Config&) {
  return {.future = Future::exact, .cross = true, .decode = true};
}

Attention make(const Site&, const Config& c) {
  return std::make_shared<LinearAttention>(c);
}

}  // namespace

Mechanism linear_mechanism() {
  return over_heads<Config>({.name = "linear",
                             .family = "kernel",
                             .paper = "arXiv:2006.16236",
                             .cost = "O(N D^2)",
                             .summary = "A positive feature map in place of the exponential; keys "
                                        "and values become one running sum.",
                             .exact = "one key: its value; its own feature kernel, never softmax",
                             .variants = {{"relu", "{map: relu, epsilon: 1e-3}"},
                                          {"square", "{map: square, epsilon: 1e-3}"}}},
                            promises, make);
}

}  // namespace longbow
