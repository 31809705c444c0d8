// Synthesizer (Tay et al., 2020, arXiv:2005.00743): the logits of attention need not be products of
// queries and keys. They are a sum of synthetic parts, o_i = softmax_j(sum_m alpha_m S^m_ij) v_j:
//   dense               S_ij = (W_2 relu(W_1 x_i + b_1) + b_2)_j        from token i alone
//   random              S_ij = R_ij                                     from the positions alone
//   factorised_dense    S_ij = A(x_i)_(j div c) C(x_i)_(j mod c)
//   factorised_random   S_ij = (R_1 R_2^T)_ij
//   dot_product         S_ij = q_i . k_j / sqrt D                       what softmax attention has
// with alpha the softmax of learned numbers, one a part. Exact when only the dot product counts.
#include <ATen/ATen.h>

#include <cmath>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/softmax/tiles.h"

namespace longbow {
namespace {

struct Config {
  bool dense = false, random = true, factorised_dense = false, factorised_random = false,
       dot_product = true;
  int64_t hidden = 0, rows = 0, rank = 8;
  bool fixed = false, official = false;
  double dropout = 0;

  int64_t parts() const {
    return dense + random + factorised_dense + factorised_random + dot_product;
  }
  bool synthetic() const { return dense || random || factorised_dense || factorised_random; }
  // Parts that are not a product of a row for the query and a row for the key.
  bool stores_pairs() const { return random || factorised_dense || (official && dense); }
};
template <class V>
void fields(V& v, Config& c) {
  v("dense", c.dense, "logits from each token by a layer with a hidden relu");
  v("random", c.random, "a matrix of logits for each head");
  v("factorised_dense", c.factorised_dense,
    "logits from each token as the outer product of two short rows");
  v("factorised_random", c.factorised_random, "a matrix of logits of low rank for each head");
  v("dot_product", c.dot_product, "products of queries and keys");
  v("hidden", c.hidden, "hidden units a head of the dense parts; 0 = the head width", at_least(0));
  v("rows", c.rows, "factorised_dense: length of the first row; 0 = near the root of max_length",
    at_least(0));
  v("rank", c.rank, "factorised_random: the rank", range(1, 65536));
  v("fixed", c.fixed, "the random matrices are not trained");
  v("official", c.official,
    "as the released Long Range Arena code: parts are summed with weight 1, padding is hidden only "
    "beside a dot product, and dense logits are laid out in the wrong order of heads and tokens");
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

class Synthesizer : public MixerImpl {
 public:
  Synthesizer(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        head_(site.shape.head()),
        hidden_(config.hidden > 0 ? config.hidden : head_),
        longest_(site.shape.max_length),
        path_(site.path) {
    TORCH_CHECK(longest_ > 0 || !config.synthetic(),
                "synthesizer: synthetic logits need the longest sequence; set max_length");
    const int64_t width = site.shape.width;
    value_ = linear(site, "value", width, heads_ * head_);
    output_ = linear(site, "output", heads_ * head_, width);
    if (config.dot_product) {
      query_ = linear(site, "query", width, heads_ * head_);
      key_ = linear(site, "key", width, heads_ * head_);
    }
    if (config.dense) {
      dense_ = linear(site, "dense", width, heads_ * hidden_);
      dense_logits_ = spread(site, "dense_logits", longest_);
    }
    if (config.factorised_dense) {
      rows_ = config.rows > 0 ? std::min(config.rows, longest_) : root();
      columns_ = (longest_ + rows_ - 1) / rows_;
      factors_ = linear(site, "factors", width, heads_ * hidden_);
      factor_rows_ = spread(site, "factor_rows", rows_);
      factor_columns_ = spread(site, "factor_columns", columns_);
    }
    if (config.random) random_ = table(site, "random", longest_);
    if (config.factorised_random) {
      random_left_ = table(site, "random_left", config.rank);
      random_right_ = table(site, "random_right", config.rank);
    }
    if (config.parts() > 1 && !config.official)
      mixture_ = parameter("mixture", at::zeros({config.parts()}), {.decay = false});
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const int64_t n = x.size(1);
    check(n, "tokens");
    const auto k = keys(x), v = split_heads((*value_)(x), heads_);
    Mask mask = context.mask;
    if (config_.official && !config_.dot_product) mask.keep = Tensor();
    const auto first = [&](const Tensor& table) { return table.narrow(1, 0, n).unsqueeze(0); };
    const auto logits = logits_of(x, k, n, first);
    if (logits.pairs.defined() || context.maps)
      return finished(read(logits.all(), v, visible_pairs(mask, n, n, x.device()), context));
    const auto y =
        tiled_softmax(logits.left, logits.right, v, Seen::by(mask), {}, weighing(), context);
    return finished(y.to(v.scalar_type()));
  }

  // Values of all tokens so far; keys too where there is a dot product.
  void open(State& state, int64_t lanes, int64_t capacity, Context&) override {
    check(capacity, "tokens of a state");
    const auto options = value_->weight.options().requires_grad(false);
    state.add("values", {lanes, heads_, capacity + 1, head_}, options);
    if (config_.dot_product) state.add("keys", {lanes, heads_, capacity + 1, head_}, options);
  }

  // One row of logits for each new token.
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    auto& values = state.lane.at("values");
    const int64_t capacity = values.size(2) - 1;
    const auto k = keys(x), v = split_heads((*value_)(x), heads_);
    const auto slots = slots_of({.k = v}, context, capacity);
    write_slots(values, slots, v);
    if (k.defined()) write_slots(state.lane.at("keys"), slots, k);
    const auto places = context.positions.clamp_max(capacity - 1);  // of padded tokens
    const auto at_places = [&](const Tensor& table) {               // [B, H, T, E]
      return table.index_select(1, places.flatten()).unflatten(1, places.sizes()).transpose(0, 1);
    };
    const auto past = k.defined() ? state.lane.at("keys").narrow(2, 0, capacity) : k;
    const auto visible = at::arange(capacity, slots.options()) <= places.unsqueeze(-1);
    return finished(read(logits_of(x, past, capacity, at_places).all(),
                         values.narrow(2, 0, capacity), visible.unsqueeze(1), context));
  }

 private:
  // S = left right^T + pairs, in float32 at least: [B or 1, H, N, E], [B or 1, H, M, E] and
  // [B or 1, H, N, M]. Undefined where no part has that form.
  struct Logits {
    Tensor left, right, pairs;

    Tensor all() const {
      if (!left.defined()) return pairs;
      const auto products = left.matmul(right.transpose(-2, -1));
      return pairs.defined() ? products + pairs : products;
    }
  };

  // The parts in turn, each times its alpha. `of_queries` takes those rows of a table [H, L, E]
  // that belong to the queries.
  using Rows = std::function<Tensor(const Tensor&)>;
  Logits logits_of(const Tensor& x, const Tensor& k, int64_t keys, const Rows& of_queries) const {
    const auto type = wide(x);
    const auto alpha = mixture_.defined() ? mixture_.to(type).softmax(0) : mixture_;
    int64_t part = 0;
    const auto share = [&](const Tensor& s) { return alpha.defined() ? s * alpha[part++] : s; };
    const auto of_keys = [&](const Tensor& table) {
      return table.narrow(1, 0, keys).unsqueeze(0).to(type);
    };
    std::vector<Tensor> left, right;
    Tensor pairs;
    const auto add = [&](const Tensor& s) { pairs = pairs.defined() ? pairs + s : s; };
    if (config_.dense) {
      const auto h = share(with_one(hidden(*dense_, x).to(type)));  // [B, H, N, e + 1]
      const auto w = of_keys(dense_logits_);                        // [1, H, M, e + 1]
      if (config_.official) {
        const auto s = h.matmul(w.transpose(-2, -1));
        add(s.transpose(1, 2).reshape(s.sizes()));  // [B, N, H, M] read as [B, H, N, M]
      } else {
        left.push_back(h);
        right.push_back(w);
      }
    }
    if (config_.random) add(share(of_queries(random_).narrow(-1, 0, keys).to(type)));
    if (config_.factorised_dense) add(share(outer(x, keys)));
    if (config_.factorised_random) {
      left.push_back(share(of_queries(random_left_).to(type)));
      right.push_back(of_keys(random_right_));
    }
    if (config_.dot_product) {
      const double scale = 1 / std::sqrt(static_cast<double>(head_));
      left.push_back(share(split_heads((*query_)(x), heads_).to(type) * scale));
      right.push_back(k.to(type));
    }
    return {beside(left, x.size(0)), beside(right, x.size(0)), pairs};
  }

  // One wide row of the factors of all parts; a tile wants a batch for itself.
  static Tensor beside(std::vector<Tensor> factors, int64_t batch) {
    if (factors.empty()) return {};
    for (auto& f : factors) f = f.expand({batch, -1, -1, -1});
    return factors.size() == 1 ? factors[0] : at::cat(factors, -1);
  }

  Tensor hidden(const Linear& layer, const Tensor& x) const {  // [B, H, N, e]
    return split_heads(layer(x).relu(), heads_);
  }
  static Tensor with_one(const Tensor& h) {  // the bias is one weight more
    return at::constant_pad_nd(h, {0, 1}, 1);
  }
  Tensor outer(const Tensor& x, int64_t keys) const {  // [B, H, N, M]
    const auto h = with_one(hidden(*factors_, x).to(wide(x)));
    const auto factor = [&](const Tensor& w, int64_t count) {
      return h.matmul(w.narrow(1, 0, count).to(h.dtype()).transpose(1, 2));
    };
    const auto a = factor(factor_rows_, (keys + columns_ - 1) / columns_),
               c = factor(factor_columns_, columns_);
    return (a.unsqueeze(-1) * c.unsqueeze(-2)).flatten(-2).narrow(-1, 0, keys);
  }

  // Weights that are the same for the whole batch are computed once.
  Tensor read(const Tensor& logits, const Tensor& v, const Tensor& visible,
              Context& context) const {
    auto weights = masked_softmax(logits, visible);
    if (context.maps) (*context.maps)[path_] = weights.detach().expand({v.size(0), -1, -1, -1});
    if (is_training() && config_.dropout > 0) weights = weights.expand({v.size(0), -1, -1, -1});
    const auto kept = dropout(weights, config_.dropout, is_training(), context, path_ + ".dropout")
                          .to(v.scalar_type());
    return kept.size(0) == v.size(0) ? kept.matmul(v)
                                     : at::einsum("hnm,bhmd->bhnd", {kept.squeeze(0), v});
  }

  Tensor finished(const Tensor& y) const { return (*output_)(merge_heads(y)); }
  Tensor keys(const Tensor& x) const {
    return config_.dot_product ? split_heads((*key_)(x), heads_) : Tensor();
  }
  Weighing weighing() const { return {config_.dropout, is_training(), path_}; }
  void check(int64_t tokens, const char* what) const {
    TORCH_CHECK(tokens <= longest_ || !config_.synthetic(), "synthesizer: ", tokens, " ", what,
                ", but max_length is ", longest_);
  }
  int64_t root() const {
    return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(longest_))));
  }

  // [H, out, e + 1]: from the hidden units of a head, with a bias as the last weight, which starts
  // at zero.
  Tensor spread(const Site& site, const std::string& name, int64_t out) {
    const double bound = std::sqrt(6 / static_cast<double>(hidden_ + out));
    const auto start = initial_uniform(site, name, {heads_, out, hidden_}, bound);
    return parameter(name, at::constant_pad_nd(start, {0, 1}));
  }
  // [H, L, columns]: a row for every position.
  Tensor table(const Site& site, const std::string& name, int64_t columns) {
    const double bound = std::sqrt(6 / static_cast<double>(longest_ + columns));
    const auto start = initial_uniform(site, name, {heads_, longest_, columns}, bound);
    return config_.fixed ? register_buffer(name, start) : parameter(name, start, {.decay = false});
  }

  Config config_;
  int64_t heads_, head_, hidden_, longest_, rows_ = 0, columns_ = 0;
  std::string path_;
  std::shared_ptr<Linear> query_, key_, value_, output_, dense_, factors_;
  Tensor dense_logits_, factor_rows_, factor_columns_, random_, random_left_, random_right_,
      mixture_;
};

void check(const Config& c, const Site&) {
  require_option(c.parts() > 0, "random", "is off as all other parts of the logits",
                 "switch on dense, random, factorised_dense, factorised_random or dot_product");
}

// The wrong order of dense logits reads those of later tokens.
Promises promises(const Config& c) {
  const bool mixed_up = c.official && c.dense, unmasked = c.official && !c.dot_product;
  const auto launches = c.stores_pairs() ? Launches::constant : Launches::growing;  // tiles
  return {.padding = mixed_up || unmasked ? Padding::visible : Padding::invisible,
          .future = mixed_up ? Future::refused : Future::exact,
          .decode = !mixed_up && !unmasked,
          .positional = c.synthetic(),
          .time = 2,
          .memory = c.stores_pairs() ? 2.0 : 1.0,
          .launches = launches,
          .causal_launches = launches};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Synthesizer>(site, c);
}

}  // namespace

Mechanism synthesizer_mechanism() {
  return over_tokens<Config>(
      {.name = "synthesizer",
       .family = "synthetic logits",
       .paper = "arXiv:2005.00743",
       .cost = "O(N^2 D)",
       .summary = "Logits that are learned for positions or made from single tokens, alone or "
                  "beside the dot product.",
       .exact = "dot_product alone: softmax; random zero: the mean of the values",
       .variants = {{"dense", "{dense: true, random: false, dot_product: false}"},
                    {"factorised_dense",
                     "{factorised_dense: true, random: false, dot_product: false, hidden: 5}"},
                    {"factorised_random", "{factorised_random: true, random: false, rank: 4}"},
                    {"fixed", "{dot_product: false, fixed: true}"},
                    {"official", "{dense: true, dot_product: false, official: true}"}}},
      promises, make, check);
}

}  // namespace longbow
