// cosFormer (Qin et al., 2022, arXiv:2202.08791): non-negative features and a weight that falls
// with distance,
//   o_i = sum_j w_ij v_j / max(sum_j w_ij, eps),   w_ij = relu(q_i) . relu(k_j) cos(a_i - a_j),
//   a_t = pi t / 2M.
// cos(a - b) = cos a cos b + sin a sin b, so w_ij is a product of features [relu(x) cos a, relu(x)
// sin a] and the sums over keys are formed once. M is the longest sequence: all angles are in
// [0, pi/2] and no term is negative. For M -> infinity it is linear attention with the map relu.
#include <ATen/ATen.h>

#include <numbers>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/features/feature_attention.h"
#include "longbow/nn/features/feature_maps.h"
#include "longbow/ops/feature_product.h"

namespace longbow {
namespace {

enum class Map { relu, elu };
constexpr std::array<std::string_view, 2> names_of(Map) {
  return {"relu", "elu"};
}
enum class Length { fixed, current };
constexpr std::array<std::string_view, 2> names_of(Length) {
  return {"fixed", "current"};
}
enum class Memory { content, positions, proportions };
constexpr std::array<std::string_view, 3> names_of(Memory) {
  return {"content", "positions", "proportions"};
}

struct Config {
  Map map = Map::relu;
  int64_t max_length = 0;
  Length length = Length::fixed;
  Memory memory = Memory::content;
  double epsilon = 1e-6;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("map", c.map, "feature map: relu(x) or elu(x) + 1");
  v("max_length", c.max_length,
    "M, the distance at which the weight reaches zero; 0 = the model's max_length", at_least(0));
  v("length", c.length,
    "M is max_length, or the number of real tokens at hand (then not causal, no decoding)");
  v("memory", c.memory,
    "a memory is read by content alone, by positions counted as those of the queries, or by "
    "positions as fractions of its longest length");
  v("epsilon", c.epsilon, "smallest denominator", above(0));
  v("dropout", c.dropout, "rate on what is read", range(0, 0.99));
}

class Cosformer : public AttentionImpl {
 public:
  Cosformer(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        longest_(config.max_length > 0 ? config.max_length : model_length(site, config)),
        longest_memory_(site.cross ? site.shape.source_length() : longest_) {
    TORCH_CHECK(config.length == Length::current || longest_ > 0,
                "cosformer: needs max_length, here or in the model");
  }

  Tensor attend(const Heads& heads, Context& context) override {
    const auto angles = angles_of(heads, context);
    const auto map = config_.map == Map::relu ? FeatureMap::relu : FeatureMap::elu;
    FeatureProduct how = {.query_map = map,
                          .key_map = map,
                          .query_turns = angles.queries,
                          .key_turns = angles.keys,
                          .keep = context.mask.keep,
                          .causal = context.mask.causal,
                          .least = config_.epsilon};
    if (has_feature_kernel(heads.q, heads.k, heads.v, how)) {
      for (auto* a : {&how.query_turns, &how.key_turns})
        if (a->defined()) *a = at::stack({a->cos(), a->sin()}, -1);  // [1 or B, N, 2]
      return dropped(feature_product(heads.q, heads.k, heads.v, how), context);
    }
    auto q = features(heads.q), k = features(heads.k);
    if (angles.queries.defined()) {
      q = rotated(q, angles.queries);
      k = rotated(k, angles.keys);
    }
    return normalised(
        feature_sums(q, without_padding(k, context.mask.keep), heads.v, context.mask.causal), heads,
        context);
  }

  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    check_length(capacity, longest_);
    open_feature_sums(state, empty, 2 * empty.k.size(3));
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    const auto m = lengths_of(heads, context);
    const auto q = rotated(features(heads.q), angle(context.positions, m.queries));
    const auto k = rotated(features(heads.k), angle(context.positions, m.keys));
    return normalised(grow_feature_sums(q, without_padding(k, context.mask.keep), heads.v, state),
                      heads, context);
  }

  bool open_memory(State& state, const Heads& memory, const Context& context) override {
    auto k = features(memory.k);
    if (config_.memory != Memory::content) {
      check_length(k.size(2), longest_keys());
      const auto j = positions_of(memory.source, {.mask = {.keep = context.mask.keep}});
      k = rotated(k, angle(j, length_like(memory.k, longest_keys())));
    }
    keep_memory_sums(state, without_padding(k, context.mask.keep), memory.v);
    return true;
  }

  Tensor read_memory(const Heads& queries, State& state, Context& context) override {
    auto q = features(queries.q);
    if (config_.memory != Memory::content)
      q = rotated(q, angle(context.positions, length_like(q, longest_)));
    return normalised(read_memory_sums(q, state), queries, context);
  }

 private:
  // Features, angles and sums are float32 at least: a half type cannot tell positions beyond 2048
  // apart.
  Tensor features(const Tensor& x) const {
    const auto y = x.to(wide(x));
    return config_.map == Map::relu ? y.relu() : elu_plus_one(y);
  }

  // a = pi t / 2M, [1 or B, N].
  static Tensor angle(const Tensor& positions, const Tensor& m) {
    return positions.to(m.scalar_type()) * (std::numbers::pi / 2 / m);
  }
  // Undefined where a memory is read by content alone.
  struct Angles {
    Tensor queries, keys;
  };
  Angles angles_of(const Heads& heads, const Context& context) const {
    const auto& memory = context.memory;
    if (memory.defined() && config_.memory == Memory::content) return {};
    check_length(heads.q.size(2), longest_);
    check_length(heads.k.size(2), longest_keys());
    const auto i = positions_of(heads.x, context);
    const auto j =
        memory.defined() ? positions_of(memory, {.mask = {.keep = context.mask.keep}}) : i;
    const auto m = lengths_of(heads, context);
    return {angle(i, m.queries), angle(j, m.keys)};
  }
  // [x cos a, x sin a]: [B, H, N, D] -> [B, H, N, 2 D].
  static Tensor rotated(const Tensor& x, const Tensor& angles) {
    const auto a = angles.unsqueeze(1).unsqueeze(-1);
    return at::cat({x * a.cos(), x * a.sin()}, -1);
  }

  // M, [1, 1], or [B, 1] when it is the number of real tokens: one for queries and keys, unless a
  // memory is read by proportions.
  struct Lengths {
    Tensor queries, keys;
  };
  Lengths lengths_of(const Heads& heads, const Context& context) const {
    const auto options = heads.q.options().dtype(wide(heads.q));
    const auto number = [&](int64_t n) { return length_like(heads.q, n); };
    if (config_.length == Length::fixed)
      return {number(longest_), number(context.memory.defined() ? longest_keys() : longest_)};
    const auto count = [&](const Tensor& keep, int64_t tokens) {
      return keep.defined() ? keep.sum(1, true).clamp_min(1).to(options.dtype()) : number(tokens);
    };
    const auto keys = count(context.mask.keep, heads.k.size(2));
    if (!context.memory.defined()) return {keys, keys};
    const auto queries = count(context.mask.query_keep, heads.q.size(2));
    const auto longer = at::maximum(keys, queries);
    return {longer, longer};
  }
  static Tensor length_like(const Tensor& x, int64_t n) {
    return at::full({1, 1}, static_cast<double>(n), x.options().dtype(wide(x)));
  }
  int64_t longest_keys() const {
    return config_.memory == Memory::proportions ? longest_memory_ : longest_;
  }

  Tensor normalised(const FeatureSums& sums, const Heads& heads, const Context& context) const {
    const auto o = sums.values / sums.weights.clamp_min(config_.epsilon);
    return dropped(o.to(heads.q.scalar_type()), context);
  }
  Tensor dropped(const Tensor& o, const Context& context) const {
    return dropout(o, config_.dropout, is_training(), context, path_ + ".dropout");
  }

  // Further apart than M the cosine is negative.
  void check_length(int64_t tokens, int64_t longest) const {
    TORCH_CHECK(config_.length == Length::current || tokens <= longest, "cosformer: ", tokens,
                " tokens, but max_length is ", longest);
  }

  static int64_t model_length(const Site& site, const Config& config) {
    const auto& shape = site.shape;
    return site.cross && config.memory != Memory::proportions
               ? std::max(shape.max_length, shape.source_length())
               : shape.max_length;
  }

  Config config_;
  std::string path_;
  int64_t longest_, longest_memory_;
};

void check(const Config& c, const Site&) {
  require_option(c.length == Length::fixed || c.memory != Memory::proportions, "memory",
                 "is proportions, which are those of a fixed length",
                 "leave length out, or set memory to content or positions");
}

Promises promises(const Config& c) {
  const bool fixed = c.length == Length::fixed;
  return {.future = fixed ? Future::exact : Future::refused,
          .cross = true,
          .decode = fixed,
          .positional = true};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Cosformer>(site, c);
}

}  // namespace

Mechanism cosformer_mechanism() {
  return over_heads<Config>(
      {.name = "cosformer",
       .family = "kernel",
       .paper = "arXiv:2202.08791",
       .cost = "O(N D^2)",
       .summary = "Linear attention with relu features and a cosine that favours near tokens.",
       .exact = "one key: its value; max_length -> infinity: linear attention with relu",
       .variants = {{"elu", "{map: elu}"},
                    {"current", "{length: current}"},
                    {"positions", "{memory: positions}"},
                    {"proportions", "{memory: proportions}"},
                    {"reference", "{length: current, memory: positions}"}}},
      promises, make, check);
}

}  // namespace longbow
