// Linear attention (Katharopoulos et al., 2020, arXiv:2006.16236): the softmax kernel is replaced
// by phi(q) . phi(k) with a positive feature map, so sums over keys are formed once:
//   o_i = S^T phi(q_i) / (z . phi(q_i) + eps),   S = sum_j phi(k_j) v_j^T,   z = sum_j phi(k_j).
// Causally S and z are running sums, which are also the decoding state. A column of ones beside v
// carries z.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/ops/causal_product.h"

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
    const auto q = features(heads.q), k = key_features(heads, context.mask.keep);
    const auto v = with_ones(heads.v);
    const int64_t queries = q.size(2), keys = k.size(2);
    if (!context.mask.causal) return normalised(q.matmul(k.transpose(-2, -1).matmul(v)), heads);
    if (queries == keys) return normalised(causal_product(q, k, v), heads);
    const int64_t extra = keys - queries;  // aligned at the end: pad or cut the queries in front
    const auto square = at::constant_pad_nd(q, {0, 0, extra, 0});
    return normalised(at::constant_pad_nd(causal_product(square, k, v), {0, 0, -extra, 0}), heads);
  }

  void open(State& state, const Heads& empty, int64_t, Context&) override {
    const int64_t d = empty.k.size(3);
    state.add("sums", {empty.k.size(0), empty.k.size(1), d, d + 1},
              empty.k.options().dtype(wide(empty.k)));
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    auto& sums = state.lane.at("sums");
    const auto q = features(heads.q), k = key_features(heads, context.mask.keep),
               v = with_ones(heads.v);
    const auto y = q.matmul(sums) + causal_product(q, k, v);
    sums = sums + k.transpose(-2, -1).matmul(v);
    return normalised(y, heads);
  }

 private:
  // Features and sums are float32 at least: z grows with the number of keys.
  Tensor features(const Tensor& x) const {
    const auto y = x.to(wide(x));
    if (config_.map == Map::relu) return y.relu();
    return config_.map == Map::square ? y.square() : at::elu(y) + 1;
  }

  // A padded key loses its features; zeroing the key itself would leave phi(0) in the denominator.
  Tensor key_features(const Heads& heads, const Tensor& keep) const {
    const auto k = features(heads.k);
    return keep.defined() ? k * keep.unsqueeze(1).unsqueeze(-1).to(k.scalar_type()) : k;
  }

  static Tensor with_ones(const Tensor& v) { return at::constant_pad_nd(v.to(wide(v)), {0, 1}, 1); }

  Tensor normalised(const Tensor& sums, const Heads& heads) const {
    const int64_t d = heads.v.size(3);
    return (sums.narrow(-1, 0, d) / (sums.narrow(-1, d, 1) + config_.epsilon))
        .to(heads.v.scalar_type());
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
