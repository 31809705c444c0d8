// AFT, the attention free transformer (Zhai et al., 2021, arXiv:2105.14103): every channel weighs
// the keys by itself, and the query is only a gate,
//   o_t = sigmoid(q_t) * sum_j e^{k_j + w_tj} v_j / sum_j e^{k_j + w_tj}      (* channel by
//   channel) simple: w = 0;   full: w_tj is learned;   local: learned where |t - j| < window, else
//   0; conv: depends on j - t and the head only, where |t - j| < window, else 0.
// Distant tokens count in every form. Keys outside the window enter by running sums, those inside
// one diagonal at a time. All sums are kept relative to the joint maximum of k + w so far, one for
// each query and channel, so nothing can overflow and no sum can underflow to zero.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/softmax.h"

namespace longbow {
namespace {

enum class Form { simple, full, local, conv };
constexpr std::array<std::string_view, 4> names_of(Form) {
  return {"simple", "full", "local", "conv"};
}

struct Config {
  Form form = Form::simple;
  int64_t window = 32;
  int64_t rank = 0;
  bool head_keys = true;
  int64_t max_length = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("form", c.form,
    "position bias: none; one per pair of tokens; per pair within the window; per distance and "
    "head "
    "within the window");
  v("window", c.window, "local and conv: pairs less than this far apart have a bias",
    range(1, 65536));
  v("rank", c.rank, "full and local: the bias is a product of two factors this wide; 0 = free",
    range(0, 65536));
  v("head_keys", c.head_keys, "conv: one key for all channels of a head, as in the paper");
  v("max_length", c.max_length, "full and local: longest sequence; 0 = what the model is built for",
    at_least(0));
}

constexpr double kLowest = std::numeric_limits<float>::lowest();  // the maximum of no keys
constexpr double kDeviation = 0.01;                               // of initial biases
constexpr int64_t kPiece = 16;  // tokens of an extension that are weighed at a time

// Sums over some keys, relative to their largest one: values = sum_j e^{k_j - max} v_j, and weights
// the same without v. [B, N, C] each. The maximum cancels, so it needs no gradient.
struct Sums {
  Tensor max, values, weights;

  // A query that sees no key reads zero.
  Tensor mean() const { return values / (weights + weights.eq(0)); }
  template <class F>
  Sums each(const F& f) const {
    return {f(max, kLowest), f(values, 0.0), f(weights, 0.0)};
  }
  // Moved along the tokens; what is missing are sums of no keys.
  Sums padded(int64_t before, int64_t after) const {
    return each([&](const Tensor& t, double none) {
      return at::constant_pad_nd(t, {0, 0, before, after}, none);
    });
  }
  Sums narrow(int64_t first, int64_t count) const {
    return each([&](const Tensor& t, double) { return t.narrow(1, first, count); });
  }
};

// Each key alone; a hidden key is -infinity and has no weight.
Sums alone(const Tensor& k, const Tensor& v) {
  const auto max = k.detach().clamp_min(kLowest);
  const auto weights = (k - max).exp();
  return {max, weights * v, weights};
}

Sums joined(const Sums& a, const Sums& b) {
  const auto max = at::maximum(a.max, b.max);
  const auto left = (a.max - max).exp(), right = (b.max - max).exp();
  return {max, a.values * left + b.values * right, a.weights * left + b.weights * right};
}

// Sums over keys 0..t for every t: neighbours are joined, the half as long sequence is solved, and
// what lies between is filled in. O(N) in all.
Sums running(const Sums& x) {
  const int64_t n = x.max.size(1), half = n / 2;
  if (n == 1) return x;
  const auto every_second = [&](int64_t first) {
    return x.each([&](const Tensor& t, double) { return t.slice(1, first, n, 2); });
  };
  const auto even = every_second(0), odd = every_second(1);
  const auto odds = running(joined(even.narrow(0, half), odd));
  const auto evens = joined(odds.padded(1, n % 2 - 1), even), filled = odds.padded(0, n % 2);
  const auto interleaved = [&](const Tensor& a, const Tensor& b) {
    return at::stack({a, b}, 2).flatten(1, 2).narrow(1, 0, n);
  };
  return {interleaved(evens.max, filled.max), interleaved(evens.values, filled.values),
          interleaved(evens.weights, filled.weights)};
}

using torch::autograd::AutogradContext, torch::autograd::variable_list;

// Pairs (t, t + offset) of a sequence: where they begin, and their biases. The table is [N, N], or
// [N or 1, 2 reach + 1, 1 or C].
struct Diagonal {
  int64_t offset, count, query, key;
  Diagonal(int64_t tokens, int64_t away)
      : offset(away),
        count(tokens - std::abs(away)),
        query(std::max<int64_t>(0, -away)),
        key(std::max<int64_t>(0, away)) {}
  Tensor queries(const Tensor& t) const { return t.narrow(1, query, count); }
  Tensor keys(const Tensor& t) const { return t.narrow(1, key, count); }
  Tensor biases(const Tensor& table) const {  // [count or 1, 1 or C]
    if (table.dim() == 2) return table.diagonal(offset).unsqueeze(-1);
    const auto rows = table.size(0) > 1 ? table.narrow(0, query, count) : table;
    return rows.select(1, offset + (table.size(1) - 1) / 2);
  }
};

// The mean of v under e^{k + bias} over the keys t - reach .. t + ahead and those in `rest`, which
// stands for all others. k, v [B, N, C].
struct Banded : torch::autograd::Function<Banded> {
  static Tensor forward(AutogradContext* context, const Tensor& k, const Tensor& v,
                        const Tensor& table, const Tensor& rest_max, const Tensor& rest_values,
                        const Tensor& rest_weights, int64_t reach, int64_t ahead) {
    const auto max = rest_max.clone(), values = rest_values.clone(), weights = rest_weights.clone();
    for (int64_t offset = -reach; offset <= ahead; ++offset) {
      const Diagonal diagonal(k.size(1), offset);
      const auto score = diagonal.keys(k) + diagonal.biases(table);
      const auto before = diagonal.queries(max), now = at::maximum(before, score);
      const auto scale = (before - now).exp_(), weight = (score - now).exp_();
      before.copy_(now);
      diagonal.queries(weights).mul_(scale).add_(weight);
      diagonal.queries(values).mul_(scale).addcmul_(weight, diagonal.keys(v));
    }
    const auto sum = weights + weights.eq(0);
    const auto mean = values.div_(sum);
    context->save_for_backward({k, v, table, rest_max, mean, max + sum.log()});
    context->saved_data["reach"] = reach;
    context->saved_data["ahead"] = ahead;
    return mean;
  }

  // With p_tj = e^{k_j + w_tj - L_t}, L the logarithm of the sum: d (k + w)_tj = g_t p_tj (v_j -
  // o_t).
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "aft: a position bias has no second derivative");
    const auto saved = context->get_saved_variables();
    const auto &k = saved[0], &v = saved[1], &table = saved[2], &mean = saved[4], &log = saved[5];
    const auto &g = gradients[0], dk = at::zeros_like(k), dv = at::zeros_like(v),
               dtable = at::zeros_like(table);
    const int64_t reach = context->saved_data["reach"].toInt(),
                  ahead = context->saved_data["ahead"].toInt();
    for (int64_t offset = -reach; offset <= ahead; ++offset) {
      const Diagonal diagonal(k.size(1), offset);
      const auto score = diagonal.keys(k) + diagonal.biases(table);
      const auto share = (score - diagonal.queries(log)).exp_().mul_(diagonal.queries(g));
      diagonal.keys(dv).add_(share);
      const auto slope = (diagonal.keys(v) - diagonal.queries(mean)).mul_(share);
      diagonal.keys(dk).add_(slope);
      auto biases = diagonal.biases(dtable);
      biases.add_(slope.sum_to_size(biases.sizes()));
    }
    const auto rest = (saved[3] - log).exp_().mul_(g);
    return {dk, dv, dtable, Tensor(), rest, -rest * mean, Tensor(), Tensor()};
  }
};

class Aft : public MixerImpl {
 public:
  Aft(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        inner_(site.shape.inner()),
        longest_(config.max_length > 0 ? config.max_length : site.shape.max_length),
        reach_(config.window - 1) {
    const auto& shape = site.shape;
    const int64_t source = site.cross ? shape.source_width() : shape.width;
    query_ = linear(site, "query", shape.width, inner_);
    key_ = linear(site, "key", source, one_key_per_head() ? heads_ : inner_);
    value_ = linear(site, "value", source, inner_);
    output_ = linear(site, "output", inner_, shape.width);
    if (config.form == Form::simple) return;
    if (config.form == Form::conv) {
      taps_ = parameter("taps", initial_normal(site, "taps", {heads_, 2 * reach_ + 1}, kDeviation),
                        {.decay = false});
      gain_ = parameter("gain", at::zeros({heads_, 1}), {.decay = false});
      shift_ = parameter("shift", at::zeros({heads_, 1}), {.decay = false});
      return;
    }
    TORCH_CHECK(longest_ > 0, "aft: needs max_length, here or in the model");
    reach_ = config.form == Form::full ? longest_ - 1 : std::min(config.window, longest_) - 1;
    const auto table = [&](const std::string& name, int64_t columns) {
      return parameter(name, initial_normal(site, name, {longest_, columns}, kDeviation));
    };
    if (config.rank > 0) {
      left_ = table("left", config.rank);
      right_ = table("right", config.rank);
    } else {
      bias_ = table("bias", config.form == Form::full ? longest_ : 2 * reach_ + 1);
    }
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto& source = context.memory.defined() ? context.memory : x;
    const auto k = keys(source, context.mask.keep), v = values(source);
    const bool causal = context.mask.causal;
    if (config_.form != Form::simple) return gated(x, banded(k, v, causal));
    if (!causal) return gated(x, total(k, v).mean());
    return gated(x, running(alone(k, v)).padded(x.size(1) - k.size(1), 0).mean());
  }

  // simple: the running sums, or the mean of a memory; other forms: all keys and values.
  void open(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    const auto& weight = value_->weight;
    const auto options = weight.options().dtype(wide(weight)).requires_grad(false);
    if (context.memory.defined()) {
      const auto k = keys(context.memory, context.mask.keep);
      state.add("memory", {lanes, 1, inner_}, options) = total(k, values(context.memory)).mean();
    } else if (config_.form == Form::simple) {
      state.add("max", {lanes, 1, inner_}, options, kLowest);
      state.add("values", {lanes, 1, inner_}, options);
      state.add("weights", {lanes, 1, inner_}, options);
    } else {
      check_length(capacity);
      const auto none = at::zeros({lanes, 1, 0, inner_}, options);
      open_cache(state, {.q = none, .k = none, .v = none, .x = {}, .source = {}}, capacity);
    }
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    auto& lane = state.lane;
    if (lane.count("memory")) return gated(x, lane.at("memory"));
    const auto k = keys(x, context.mask.keep), v = values(x);
    if (config_.form != Form::simple) return gated(x, read(x, k, v, state, context));
    auto &max = lane.at("max"), &sums = lane.at("values"), &weights = lane.at("weights");
    const auto fresh = alone(k, v);
    const auto all = running({at::cat({max, fresh.max}, 1), at::cat({sums, fresh.values}, 1),
                              at::cat({weights, fresh.weights}, 1)});
    const auto last = all.narrow(x.size(1), 1);
    max = last.max, sums = last.values, weights = last.weights;
    return gated(x, all.narrow(1, x.size(1)).mean());
  }

 private:
  bool one_key_per_head() const { return config_.form == Form::conv && config_.head_keys; }

  Tensor by_channel(const Tensor& per_head) const {  // [..., H] -> [..., C]
    return per_head.unsqueeze(-1).expand({-1, -1, -1, inner_ / heads_}).flatten(-2);
  }

  // Keys and sums are float32 at least.
  Tensor keys(const Tensor& source, const Tensor& keep) const {
    auto k = (*key_)(source);
    k = k.to(wide(k));
    if (one_key_per_head()) k = by_channel(k);
    if (!keep.defined()) return k;
    return k.masked_fill(keep.logical_not().unsqueeze(-1),
                         -std::numeric_limits<double>::infinity());
  }
  Tensor values(const Tensor& source) const {
    const auto v = (*value_)(source);
    return v.to(wide(v));
  }
  Tensor gated(const Tensor& x, const Tensor& mean) const {
    return (*output_)(((*query_)(x).sigmoid() * mean).to(x.scalar_type()));
  }

  static Sums total(const Tensor& k, const Tensor& v) {  // [B, 1, C]
    const auto max = k.detach().amax(1, true).clamp_min(kLowest);
    const auto weights = (k - max).exp();
    return {max, (weights * v).sum(1, true), weights.sum(1, true)};
  }

  Tensor banded(const Tensor& k, const Tensor& v, bool causal) const {
    const int64_t n = k.size(1), reach = std::min(reach_, n - 1), ahead = causal ? 0 : reach;
    check_length(n);
    Sums rest = {at::full_like(k, kLowest), at::zeros_like(v), at::zeros_like(v)};
    if (reach < n - 1) {
      const int64_t window = reach + 1;
      const auto turned = [](const Tensor& t, double) { return t.flip(1); };
      const auto keys = alone(k, v);
      rest = running(keys).padded(window, -window);
      if (!causal)
        rest = joined(rest, running(keys.each(turned)).each(turned).padded(-window, window));
    }
    const auto table = config_.form == Form::full ? pairs().narrow(0, 0, n).narrow(1, 0, n)
                                                  : near_pairs().narrow(0, 0, rows(n));
    return Banded::apply(k, v, table.to(k.scalar_type()), rest.max, rest.values, rest.weights,
                         reach, ahead);
  }

  // An extension against the cache, every pair on its own: softmax over slots, channel by channel.
  Tensor read(const Tensor& x, const Tensor& k, const Tensor& v, State& state, Context& context) {
    const Heads heads = {k.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), x, x};
    const auto body = [&](const Heads& piece, Context& inner) {
      const auto cached = grow_cache(piece, state, inner);
      const auto scores = cached.k + biases(inner.positions, cached.k.size(2));  // [B, T, S, C]
      const auto weights = masked_softmax(scores.transpose(-2, -1), cached.visible.transpose(1, 2));
      return (weights * cached.v.transpose(-2, -1)).sum(-1).unsqueeze(1);  // [B, 1, T, C]
    };
    return in_pieces(heads, context, kPiece, body).squeeze(1);
  }

  // w_tj for queries at `positions` [B, T] and the keys 0 .. slots - 1: [B, T, slots, 1 or C].
  Tensor biases(const Tensor& positions, int64_t slots) const {
    const auto t = positions.unsqueeze(-1), j = at::arange(slots, positions.options());
    const auto row = config_.form == Form::conv ? at::zeros_like(t) : t.clamp_max(longest_ - 1);
    if (config_.form == Form::full)
      return at::index(pairs(), {row, j.clamp_max(longest_ - 1)}).unsqueeze(-1);
    const auto away = j - t;
    return at::index(near_pairs(), {row, (away + reach_).clamp(0, 2 * reach_)})
        .masked_fill((away.abs() > reach_).unsqueeze(-1), 0);
  }

  Tensor pairs() const { return bias_.defined() ? bias_ : left_.matmul(right_.t()); }  // [L, L]

  // Biases by distance: [L, 2 reach + 1, 1] for local, [1, 2 reach + 1, C] for conv.
  Tensor near_pairs() const {
    if (config_.form == Form::conv) {
      const auto centred = taps_ - taps_.mean(1, true);
      const auto taps = gain_ * centred * (centred.square().mean(1, true) + 1e-12).rsqrt() + shift_;
      return by_channel(taps.t().unsqueeze(0));
    }
    if (bias_.defined()) return bias_.unsqueeze(-1);
    const auto around = at::constant_pad_nd(right_, {0, 0, reach_, reach_});
    return left_.unsqueeze(1)
        .matmul(around.unfold(0, 2 * reach_ + 1, 1))  // [L, 1, R] [L, R, 2 reach + 1]
        .transpose(1, 2);
  }
  int64_t rows(int64_t tokens) const { return config_.form == Form::conv ? 1 : tokens; }

  void check_length(int64_t tokens) const {
    TORCH_CHECK(config_.form == Form::conv || tokens <= longest_, "aft: ", tokens,
                " tokens, but max_length is ", longest_);
  }

  Config config_;
  int64_t heads_, inner_, longest_, reach_;
  std::shared_ptr<Linear> query_, key_, value_, output_;
  Tensor bias_, left_, right_;  // full [L, L], local [L, 2 reach + 1]; or two factors [L, R]
  Tensor taps_, gain_, shift_;  // conv: [H, 2 reach + 1], [H, 1], [H, 1]
};

Promises promises(const Config& c) {
  const bool simple = c.form == Form::simple;
  const double exponent = c.form == Form::full ? 2 : 1;
  return {.future = Future::exact,
          .cross = simple,
          .decode = true,
          .positional = !simple,
          .time = exponent,
          .memory = exponent};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<Aft>(site, c);
}

}  // namespace

Mechanism aft_mechanism() {
  return over_tokens<Config>(
      {.name = "aft",
       .family = "additive",
       .paper = "arXiv:2105.14103",
       .cost = "simple O(N C), local and conv O(N W C), full O(N^2 C)",
       .summary =
           "Every channel weighs the keys by itself; the query is a gate, and a learned bias "
           "knows positions.",
       .exact = "one key: its value, gated; local with window >= N: full; never softmax",
       .variants = {{"full", "{form: full}"},
                    {"full_rank", "{form: full, rank: 3}"},
                    {"local", "{form: local, window: 4}"},
                    {"local_rank", "{form: local, window: 5, rank: 3}"},
                    {"conv", "{form: conv, window: 6}"},
                    {"conv_channel", "{form: conv, window: 3, head_keys: false}"}}},
      promises, make);
}

}  // namespace longbow
