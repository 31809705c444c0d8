// AFT, the attention free transformer (Zhai et al., 2021, arXiv:2105.14103): every channel weighs
// the keys by itself, and the query is only a gate,
//   o_t = sigmoid(q_t) * sum_j e^{k_j + w_tj} v_j / sum_j e^{k_j + w_tj}    (* channel by channel)
// simple: w = 0;   full: w_tj is learned;   local: learned where |t - j| < window, else 0;
// conv: depends on j - t and the head only, where |t - j| < window, else 0.
// Distant tokens count in every form. Biases enter by two matrix products, e^w (e^k v) and e^w e^k,
// one tile of queries at a time; keys outside all windows of a tile enter by running sums.
#include <ATen/ATen.h>

#include <limits>

#include "longbow/attention/aft/channel_tiles.h"
#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/softmax/softmax.h"
#include "longbow/ops/channel_mean.h"
#include "longbow/ops/running_mean.h"

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
  int64_t inner_width = 0;
  int64_t max_length = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("form", c.form,
    "position bias: none; one per pair of tokens; per pair within the window; per distance and "
    "head within the window");
  v("window", c.window, "local and conv: pairs less than this far apart have a bias",
    range(1, 65536));
  v("rank", c.rank, "full and local: the bias is a product of two factors this wide; 0 = free",
    range(0, 65536));
  v("head_keys", c.head_keys, "conv: one key for all channels of a head, as in the paper");
  v("inner_width", c.inner_width,
    "channels of queries, keys and values; 0 = all heads of the model", at_least(0));
  v("max_length", c.max_length, "full and local: longest sequence; 0 = the model's max_length",
    at_least(0));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kDeviation = 0.01;  // of initial biases
constexpr int64_t kPiece = 16;       // tokens of an extension that are weighed at a time

class Aft : public MixerImpl {
 public:
  Aft(const Site& site, const Config& config)
      : config_(config),
        groups_(config.form == Form::conv ? site.shape.heads : 1),
        inner_(config.inner_width > 0 ? config.inner_width : site.shape.inner()),
        longest_(config.max_length > 0 ? config.max_length : site.shape.max_length),
        reach_(config.window - 1) {
    const bool conv = config.form == Form::conv;
    const auto& shape = site.shape;
    const int64_t source = site.cross ? shape.source_width() : shape.width;
    query_ = linear(site, "query", shape.width, inner_);
    key_ = linear(site, "key", source, conv && config.head_keys ? groups_ : inner_);
    value_ = linear(site, "value", source, inner_);
    output_ = linear(site, "output", inner_, shape.width);
    if (config.form == Form::simple) return;
    if (conv) {
      taps_ = parameter("taps", initial_normal(site, "taps", {groups_, 2 * reach_ + 1}, kDeviation),
                        {.decay = false});
      gain_ = parameter("gain", at::zeros({groups_, 1}), {.decay = false});
      shift_ = parameter("shift", at::zeros({groups_, 1}), {.decay = false});
      return;
    }
    TORCH_CHECK(longest_ > 0, "aft: needs max_length, here or in the model");
    reach_ = std::min(reach_, longest_ - 1);
    const auto table = [&](const std::string& name, int64_t columns) {
      return parameter(name, initial_normal(site, name, {longest_, columns}, kDeviation));
    };
    if (config.rank == 0) {
      bias_ = table("bias", config.form == Form::full ? longest_ : 2 * reach_ + 1);
      return;
    }
    left_ = table("left", config.rank);
    right_ = table("right", config.rank);
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto& mask = context.mask;
    if (config_.form == Form::simple && !mask.causal && !context.memory.defined()) {
      const auto rows = project_together(x, {query_.get(), key_.get(), value_.get()});
      const auto mean = channel_mean(rows[1], rows[2], mask.keep).unsqueeze(1);
      return (*output_)(rows[0].sigmoid() * mean.to(x.scalar_type()));
    }
    const bool even = inner_ % 2 == 0;  // which the kernel's channels are
    if (config_.form == Form::simple && !context.memory.defined() && even &&
        has_running_kernel(x)) {
      const auto rows = project_together(x, {query_.get(), key_.get(), value_.get()});
      return (*output_)(running_mean(rows[0], rows[1], rows[2], mask.keep));
    }
    const auto& source = context.memory.defined() ? context.memory : x;
    const auto k = keys(source, context.mask.keep), v = values(source);
    return gated(x, sums(k, v, x.size(1), context.mask.causal).mean());
  }

  // simple: the sums so far, or the mean of a memory. local, conv: the sums of all tokens that have
  // left the window, and the others themselves. full: all keys and values.
  void open(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    const auto& weight = value_->weight;
    const auto options = weight.options().dtype(wide(weight)).requires_grad(false);
    const auto rows = [&](int64_t width) {
      return at::empty({lanes, groups_, 0, width / groups_}, options);
    };
    const auto k = rows(key_->weight.size(0)), v = rows(inner_);
    if (context.memory.defined()) {
      state.add("memory", {lanes, 1, 1, inner_}, options) =
          all_keys(keys(context.memory, context.mask.keep), values(context.memory)).mean();
      return;
    }
    check_length(capacity);
    if (config_.form == Form::simple) return open_channel_sums(state, k, v);
    if (config_.form != Form::full) return open_window(state, k, v, reach_);
    open_cache(state, {.q = k, .k = k, .v = v, .x = {}, .source = {}}, capacity);
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    if (state.lane.count("memory")) return gated(x, state.lane.at("memory"));
    const auto k = keys(x, context.mask.keep), v = values(x);
    if (config_.form == Form::simple) return gated(x, grow_channel_sums(k, v, state).mean());
    const auto body = [&](const Heads& piece, Context& inner) {
      return config_.form == Form::full ? read_cache(piece, state, inner)
                                        : read_window(piece, state, inner);
    };
    return gated(x, in_pieces({k, k, v, x, x}, context, kPiece, body));
  }

 private:
  // Keys and sums are float32 at least. [B, G, M, D], where a group G is a head of conv and else
  // all channels; hidden keys are -infinity.
  Tensor keys(const Tensor& source, const Tensor& keep) const {
    auto k = (*key_)(source);
    k = split_heads(k.to(wide(k)), groups_);
    return keep.defined() ? k.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(-1), -kInfinity)
                          : k;
  }
  Tensor values(const Tensor& source) const {
    const auto v = (*value_)(source);
    return split_heads(v.to(wide(v)), groups_);
  }
  Tensor gated(const Tensor& x, const Tensor& mean) const {
    return (*output_)(((*query_)(x).sigmoid() * merge_heads(mean)).to(x.scalar_type()));
  }

  ChannelSums sums(const Tensor& k, const Tensor& v, int64_t queries, bool causal) const {
    const int64_t n = k.size(2);
    check_length(n);
    if (config_.form == Form::simple)
      return causal ? running(each_key(k, v)).padded(queries - n, 0) : all_keys(k, v);
    if (config_.form == Form::conv) return windowed_sums(k, v, by_distance().unsqueeze(1), causal);
    if (config_.form == Form::local)
      return windowed_sums(k, v, by_distance().narrow(0, 0, n).unsqueeze(0), causal);
    const auto corner = [&](const Tensor& table, int64_t columns) {
      return table.narrow(0, 0, n).narrow(1, 0, columns);
    };
    return paired_sums(k, v,
                       bias_.defined()
                           ? PairBias{corner(bias_, n)}
                           : PairBias{corner(left_, config_.rank), corner(right_, config_.rank)},
                       causal);
  }

  // The rows of a table [L, columns] for the tokens of an extension, [B, 1, T, columns].
  Tensor rows(const Tensor& table, const Context& context) const {
    return at::embedding(table, context.positions.clamp_max(longest_ - 1)).unsqueeze(1);
  }

  Tensor read_window(const Heads& piece, State& state, const Context& context) const {
    const auto taps = config_.form == Form::conv
                          ? by_distance().unsqueeze(1).expand({-1, piece.k.size(2), -1})
                          : rows(by_distance(), context);
    return grow_window(piece.k, piece.v, taps, context.mask.keep, state).mean();
  }

  Tensor read_cache(const Heads& piece, State& state, const Context& context) const {
    const auto all = grow_cache(piece, state, context);
    const int64_t more = all.k.size(2) - longest_;  // the columns of all slots, padded or cut
    const auto bias =
        bias_.defined()
            ? PairBias{at::constant_pad_nd(rows(bias_, context), {0, more})}
            : PairBias{rows(left_, context), at::constant_pad_nd(right_, {0, 0, 0, more})};
    return biased_sums(all.k, all.v, bias, all.visible.logical_not()).mean();
  }

  // local [L, 2 reach + 1], conv [H, 2 reach + 1].
  Tensor by_distance() const {
    if (config_.form == Form::conv) {
      const auto taps = taps_.to(wide(taps_)), centred = taps - taps.mean(1, true);
      return gain_ * centred * (centred.square().mean(1, true) + 1e-12).rsqrt() + shift_;
    }
    if (bias_.defined()) return bias_;
    const auto around = at::constant_pad_nd(right_, {0, 0, reach_, reach_});
    return left_.unsqueeze(1)
        .matmul(around.unfold(0, 2 * reach_ + 1, 1))  // [L, 1, R] [L, R, 2 reach + 1]
        .squeeze(1);
  }

  void check_length(int64_t tokens) const {
    const bool any = config_.form == Form::simple || config_.form == Form::conv;
    TORCH_CHECK(any || tokens <= longest_, "aft: ", tokens, " tokens, but max_length is ",
                longest_);
  }

  Config config_;
  int64_t groups_, inner_, longest_, reach_;
  std::shared_ptr<Linear> query_, key_, value_, output_;
  Tensor bias_, left_, right_;  // full [L, L], local [L, 2 reach + 1]; or two factors [L, R]
  Tensor taps_, gain_, shift_;  // conv: [H, 2 reach + 1], [H, 1], [H, 1]
};

// The bias of full is a matrix over all pairs.
void check(const Config& c, const Site& site) {
  const int64_t heads = site.shape.heads;
  require_option(
      c.form != Form::conv || c.inner_width % heads == 0, "inner_width",
      c10::str("is ", c.inner_width, ", but form: conv divides it among ", heads, " heads"),
      "take a multiple of the heads");
}

Promises promises(const Config& c) {
  const bool simple = c.form == Form::simple;
  const bool full = c.form == Form::full;
  const double exponent = full ? 2 : 1;
  return {.future = Future::exact,
          .cross = simple,
          .decode = true,
          .positional = !simple,
          .time = exponent,
          .memory = exponent,
          .launches = full     ? Launches::growing
                      : simple ? Launches::constant
                               : Launches::logarithmic,
          .causal_launches = full ? Launches::growing : Launches::logarithmic};
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
       .summary = "Each channel has its own weights over the keys; the query is only a gate.",
       .exact = "one key: its value, gated; local with window >= N: full; never softmax",
       .variants = {{"full", "{form: full}"},
                    {"full_rank", "{form: full, rank: 3}"},
                    {"local", "{form: local, window: 4}"},
                    {"local_rank", "{form: local, window: 5, rank: 3}"},
                    {"conv", "{form: conv, window: 6}"},
                    {"conv_channel", "{form: conv, window: 3, head_keys: false}"}}},
      promises, make, check);
}

}  // namespace longbow
