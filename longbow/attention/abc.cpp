// ABC, attention with bounded-memory control (Peng et al., 2021, arXiv:2110.02488): tokens are
// written into R slots, and queries read the slots by softmax:
//   K~_r = sum_j phi_jr k_j,   V~_r = sum_j phi_jr v_j,   o_i = softmax(q_i K~^T / sqrt D) V~.
// The control phi is one of
//   token     phi_jr = exp(a_jr) / sum_j' exp(a_j'r), a_j = W x_j: the paper's ABC-MLP; causally
//   the
//             sum runs up to the query's token
//   position  phi_jr learned for every position j: Linformer, causal as well
//   gate      K~_t = g_t K~_{t-1} + (1 - g_t) k_t^T, g_t = sigmoid(W x_t + b), and V~ alike
// Exact when R = M and every token has a slot of its own.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/features/feature_attention.h"
#include "longbow/nn/slots/slots.h"
#include "longbow/ops/pack_softmax.h"
#include "longbow/ops/running_weights.h"

namespace longbow {
namespace {

constexpr double kNothing = -1e30;  // the logarithm of what is in a slot before the first token
// Logits cut off here need no running maximum: sums of exp of any length stay in the range of
// float32.
constexpr double kSteepest = 32;

enum class Control { token, position, gate };
constexpr std::array<std::string_view, 3> names_of(Control) {
  return {"token", "position", "gate"};
}

struct Config {
  int64_t slots = 64;
  Control control = Control::token;
  bool share_heads = false;
  double clip = kSteepest;
  double gate_bias = 3;
  int64_t max_length = 0;
  bool hide_unwritten = false;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("slots", c.slots, "slots that keys and values are written into", range(1, 65536));
  v("control", c.control,
    "what determines the write weights: the token, by a softmax over tokens; its position; or the "
    "token, by a gate between it and the contents of the slot (then causal only)");
  v("share_heads", c.share_heads, "all heads write with the same weights");
  v("clip", c.clip,
    "control logits are clipped to this magnitude; with 0 = no clipping, or above 32, the causal "
    "form keeps a running maximum, which is slower",
    at_least(0));
  v("gate_bias", c.gate_bias, "initial bias of a gate; memory lasts about exp(bias) tokens");
  v("max_length", c.max_length,
    "longest sequence of keys, for the control by position; 0 = the model's max_length",
    at_least(0));
  v("hide_unwritten", c.hide_unwritten,
    "with the control by position, slots without any weight are hidden, not zero");
  v("dropout", c.dropout, "dropout rate on the read weights", range(0, 0.99));
}

// Whether the causal form adds up the weights of tokens as they are, without a running maximum.
bool is_bounded(const Config& c) {
  return c.control == Control::token && c.clip > 0 && c.clip <= kSteepest;
}

class Abc : public AttentionImpl {
 public:
  Abc(const Site& site, const Config& config)
      : config_(config),
        heads_(site.shape.heads),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))) {
    const int64_t own = config.share_heads ? 1 : heads_, r = config.slots;
    if (config.control == Control::position) {
      longest_ = config.max_length > 0 ? config.max_length : site.source_length();
      TORCH_CHECK(longest_ > 0, "abc: needs max_length, here or in the model");
      const double deviation = std::sqrt(2.0 / static_cast<double>(r + longest_));
      control_ =
          parameter("control", initial_normal(site, "control", {own, longest_, r}, deviation));
      return;
    }
    // Before a softmax over tokens a bias would be the same for all of them and cancel.
    control_ = parameter("control", initial_matrix(site, "control", own * r, site.source_width()));
    if (config.control == Control::gate)
      bias_ = parameter("gate_bias", at::full({own * r}, config.gate_bias), {.decay = false});
  }

  Tensor attend(const Heads& heads, Context& context) override {
    if (context.mask.causal) return written_and_read(heads, context, nullptr);
    return read(heads.q, written(heads, context.mask.keep), context);
  }

  void open(State& state, const Heads& empty, int64_t capacity, Context&) override {
    open_slots(state, empty, config_.slots);
    const auto like = empty.k.options().dtype(wide(empty.k));
    if (config_.control == Control::position) check_length(capacity);
    if (config_.control != Control::gate)
      state.add("mass", {empty.k.size(0), heads_, 1, config_.slots}, like,
                config_.control == Control::token && !is_bounded(config_) ? kNothing : 0);
  }

  Tensor grow(const Heads& heads, State& state, Context& context) override {
    return written_and_read(heads, context, &state);
  }

  bool open_memory(State& state, const Heads& memory, const Context& context) override {
    const auto slots = written(memory, context.mask.keep);
    state.lane = {{"slot_keys", slots.keys}, {"slot_values", slots.values}};
    if (slots.visible.defined()) state.lane["visible"] = slots.visible;
    for (const auto& [name, tensor] : state.lane) state.fill[name] = 0;
    return true;
  }

  Tensor read_memory(const Heads& queries, State& state, Context& context) override {
    const auto& lane = state.lane;
    const auto visible = lane.count("visible") ? lane.at("visible") : Tensor();
    return read(queries.q, {lane.at("slot_keys"), lane.at("slot_values"), visible}, context);
  }

 private:
  void check_length(int64_t keys) const {
    TORCH_CHECK(keys <= longest_, "abc: ", keys, " keys, but max_length is ", longest_);
  }
  Weighing weighing() const { return {config_.dropout, is_training(), path_}; }

  Tensor written_and_read(const Heads& heads, Context& context, State* state) {
    auto how = writing(heads, context, state);
    how.scale = scale_;
    return read_slots(heads, how, weighing(), context, state);
  }

  struct Slots {
    Tensor keys, values, visible;  // [B, H, R, D] both; [B, H, 1, R], undefined = all
  };
  Tensor read(const Tensor& q, const Slots& slots, Context& context) const {
    return softmax_read(q, slots.keys * scale_, slots.values, slots.visible, weighing(), context);
  }
  // Of a whole sequence. A softmax over tokens is attention whose scores are the logits, and those
  // are the products of unit vectors and themselves.
  Slots written(const Heads& heads, const Tensor& keep) const {
    const auto unit =
        at::eye(config_.slots, heads.k.options()).expand({heads.k.size(0), heads_, -1, -1});
    if (config_.control == Control::token && has_pack_kernel(unit, unit, unit) &&
        has_pack_kernel(heads.k.narrow(2, 0, 1), heads.k, heads.v)) {
      const auto a = logits(heads, heads.k.scalar_type());
      return {pack_softmax(unit, a, heads.k, keep), pack_softmax(unit, a, heads.v, keep), {}};
    }
    const auto phi = weights(heads, keep);  // [B, H, R, M]
    const auto packed = [&](const Tensor& rows) {
      return phi.matmul(rows.to(phi.scalar_type())).to(rows.scalar_type());
    };
    return {packed(heads.k), packed(heads.v),
            config_.hide_unwritten ? phi.ne(0).any(-1).unsqueeze(2) : Tensor()};
  }

  // phi of a whole sequence, zero for padded tokens: [B, H, R, M].
  Tensor weights(const Heads& heads, const Tensor& keep) const {
    if (config_.control == Control::position)
      return without_padding(by_position(heads, {}), keep).transpose(-2, -1);
    return masked_softmax(logits(heads, wide(heads.k)).transpose(-2, -1), visible_keys(keep));
  }

  Writing writing(const Heads& heads, const Context& context, State* state) const {
    const auto& keep = context.mask.keep;
    const auto type = slot_type(heads.k, heads.v, config_.slots, state);
    auto* mass = state && config_.control != Control::gate ? &state->lane.at("mass") : nullptr;
    const auto running = [&](const Tensor& sums) {  // after the past, which becomes the last
      const auto all = mass ? sums + *mass : sums;
      if (mass) *mass = all.narrow(2, all.size(2) - 1, 1);
      return all;
    };
    if (config_.control == Control::position) {
      const auto phi =
          without_padding(by_position(heads, state ? context.positions : Tensor()), keep);
      return {.weights = phi.to(type),
              .visible = config_.hide_unwritten ? running(phi.abs().cumsum(2)) > 0 : Tensor()};
    }
    // w = exp(a) and z_t, the sum of w up to t, which is never less than any w.
    if (is_bounded(config_)) {
      const double least = std::exp(-kSteepest - 1);
      const auto y = unclipped(heads);
      if (!state && type == y.scalar_type() && has_running_weights_kernel(y)) {
        const auto by_head = [&](const Tensor& t) {
          return split_heads(t, own_heads()).expand({-1, heads_, -1, -1});
        };
        const auto all = running_weights(y, keep, config_.clip);
        return {.weights = by_head(all.weights),
                .divisor = by_head(all.sums),
                .least = least,
                .again = by_head(all.again)};
      }
      const auto w = without_padding(logits(heads, type).exp(), keep);
      return {.weights = w, .divisor = running(running_sums(w)), .least = least};
    }
    const auto a = logits(heads, wide(heads.k));
    const auto gate = config_.control == Control::gate ? a : gate_of(a, keep, mass);
    return {.weights = without_padding(at::sigmoid(-gate), keep),
            .log_keep = without_padding(at::log_sigmoid(gate), keep)};
  }

  // K~_t = (z_{t-1} K~_{t-1} + exp(a_t) k_t^T) / z_t is a gate with the logit ln z_{t-1} - a_t: ln
  // z, like a running maximum, keeps exp in range.
  static Tensor gate_of(const Tensor& logits, const Tensor& keep, Tensor* mass) {
    const auto a = keep.defined()
                       ? logits.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(-1), kNothing)
                       : logits;
    const auto before = mass ? *mass : at::full_like(a.narrow(2, 0, 1), kNothing);
    const auto z = at::cat({before, at::logaddexp(before, a.logcumsumexp(2))}, 2);  // ln z
    if (mass) *mass = z.narrow(2, a.size(2), 1);
    return z.narrow(2, 0, a.size(2)) - a;
  }

  int64_t own_heads() const { return config_.share_heads ? 1 : heads_; }
  // a before it is clipped, heads beside each other: [B, M, H R].
  Tensor unclipped(const Heads& heads) const { return at::linear(heads.source, control_, bias_); }
  // a: [B, H, M, R].
  Tensor logits(const Heads& heads, at::ScalarType type) const {
    const auto a = split_heads(unclipped(heads).to(type), own_heads());
    const auto cut = config_.clip > 0 ? a.clamp(-config_.clip, config_.clip) : a;
    return cut.expand({-1, heads_, -1, -1});
  }

  // The control of the first M positions, or of those named [B, T]: [B, H, M, R].
  Tensor by_position(const Heads& heads, const Tensor& positions) const {
    const int64_t b = heads.k.size(0), m = heads.k.size(2);
    const auto table = control_.to(wide(control_));
    if (positions.defined())
      return table.index_select(1, positions.expand({b, m}).flatten().clamp_max(longest_ - 1))
          .unflatten(1, {b, m})
          .transpose(0, 1)
          .expand({-1, heads_, -1, -1});
    check_length(m);
    return table.narrow(1, 0, m).unsqueeze(0).expand({b, heads_, -1, -1});
  }

  Config config_;
  int64_t heads_, longest_ = 0;
  std::string path_;
  double scale_;
  Tensor control_;  // [H R, Cm] or [R, Cm]; by position [H or 1, max length, R]
  Tensor bias_;     // of a gate: [H R] or [R]
};

void check(const Config& c, const Site&) {
  require_option(c.control == Control::position || !c.hide_unwritten, "hide_unwritten",
                 "is for control: position", "leave it out; other controls write every slot");
}

Promises promises(const Config& c) {
  const bool gated = c.control == Control::gate,
             fades = c.control != Control::position && !is_bounded(c);
  return {.future = Future::exact,
          .bidirectional = !gated,
          .cross = !gated,
          .decode = true,
          .positional = c.control != Control::token,
          .causal_launches = fades ? Launches::logarithmic : Launches::constant};
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Abc>(site, c);
}

}  // namespace

Mechanism abc_mechanism() {
  return over_heads<Config>(
      {.name = "abc",
       .family = "low rank",
       .paper = "arXiv:2110.02488",
       .cost = "O(N R D)",
       .summary = "Tokens are written into a fixed number of slots with learned weights; queries "
                  "read the slots.",
       .exact = "a slot for every token: softmax (causal too, by position with hide_unwritten); no "
                "control: the mean of the values",
       .variants = {{"few", "{slots: 5}"},
                    {"running", "{slots: 5, clip: 0}"},
                    {"steep", "{slots: 5, clip: 40}"},
                    {"share_heads", "{slots: 16, share_heads: true, clip: 2}"},
                    {"position", "{slots: 6, control: position}"},
                    {"hidden",
                     "{slots: 6, control: position, share_heads: true, "
                     "hide_unwritten: true}"},
                    {"gate", "{slots: 6, control: gate, gate_bias: 1}"}}},
      promises, make, check);
}

}  // namespace longbow
