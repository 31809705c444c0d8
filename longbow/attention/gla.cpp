// Gated linear attention (Yang et al., 2023, arXiv:2312.06635): a matrix of keys and values for
// each head fades by gates that the token sets,
//   S_t = diag(exp(g_t)) S_{t-1} + k_t v_t^T,   o_t = S_t^T q_t / sqrt(D_k),
//   y_t = W_o (RMSNorm(o_t) * SiLU(W_g x_t)).
// The logarithm of the decay is one of
//   channel  g_t = ln sigmoid(W_2 W_1 x_t + b) / tau for each channel of the keys: GLA
//   head     g_t = ln sigmoid(W x_t + b) / tau for each head: simple GLA
//   fixed    g = ln(1 - 2^(-5-h)) for head h: retention (Sun et al., 2023, arXiv:2307.08621)
// With g = 0 it is causal linear attention without a normaliser, sum_{j <= t} (q_t . k_j) v_j.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/features/feature_attention.h"
#include "longbow/nn/layers/recurrence.h"
#include "longbow/ops/decayed_product.h"
#include "longbow/ops/log_gate.h"

namespace longbow {
namespace {

enum class Decay { channel, head, fixed };
constexpr std::array<std::string_view, 3> names_of(Decay) {
  return {"channel", "head", "fixed"};
}

struct Config {
  Decay decay = Decay::channel;
  int64_t key_width = 0, value_width = 0;
  int64_t gate_rank = 16;
  double gate_divisor = 16;
  bool rotary = false;
  int64_t convolution = 0;
  bool output_gate = true;
  double norm_epsilon = 1e-5;
  Backward backward = Backward::shared;
};
template <class V>
void fields(V& v, Config& c) {
  v("decay", c.decay,
    "what fades, and by whom: each channel of the keys or each head by the token, or each head by "
    "a fixed factor, 1 - 2^(-5-h)");
  v("key_width", c.key_width, "width of a head's queries and keys; 0 = half of the head width",
    at_least(0));
  v("value_width", c.value_width, "width of a head's values; 0 = the head width", at_least(0));
  v("gate_rank", c.gate_rank, "inner width of the decay by channel", at_least(1));
  v("gate_divisor", c.gate_divisor, "tau, divides the logarithm of the decay", above(0));
  v("rotary", c.rotary, "queries and keys are rotated by their positions, as in retention");
  v("convolution", c.convolution,
    "taps of a causal convolution over queries, keys and values, followed by SiLU; 0 = none",
    range(0, 1024));
  v("output_gate", c.output_gate, "multiply what is read by SiLU(W_g x)");
  v("norm_epsilon", c.norm_epsilon, "added to the mean square in the norm of what is read",
    range(1e-15, 1));
  v("backward", c.backward, kBackwardMeaning);
}

HeadsConfig heads_of(const Config& c, const Site& site) {
  const int64_t head = site.shape.head();
  return {.key_width = c.key_width > 0 ? c.key_width : std::max<int64_t>(1, head / 2),
          .value_width = c.value_width > 0 ? c.value_width : head,
          .convolution = c.convolution,
          .output_gate = c.output_gate,
          .norm_epsilon = c.norm_epsilon};
}

class Gla : public RecurrentHeads {
 public:
  Gla(const Site& site, const Config& config)
      : RecurrentHeads(site, heads_of(config, site)), config_(config) {
    const int64_t width = site.shape.width;
    const auto biased = [&](const std::string& name, int64_t in, int64_t out, bool bias) {
      return register_module(name, std::make_shared<Linear>(site.at(name), in, out, bias));
    };
    if (config.decay == Decay::channel)
      decay_in_ = biased("decay_in", width, config.gate_rank, false);
    if (config.decay == Decay::channel)
      decay_ = biased("decay", config.gate_rank, heads_ * key_width_, true);
    if (config.decay == Decay::head) decay_ = biased("decay", width, heads_, true);
  }

 protected:
  // The logarithm of the decay, [B, H, T, Dk or 1].
  Gates gates(const Tensor& x, const Context& context) const override {
    return {without_padding(log_decay(x), context.mask.keep)};
  }

  Tensor read(const Heads& heads, const Gates& gates, Tensor& sums, const Context& context,
              bool reversed) const override {
    return decayed_product(turned(heads.q, context), turned(heads.k, context), heads.v, gates[0],
                           how(reversed), sums);
  }
  BothReads read_both(const Heads& heads, const Heads& others, const Gates& gates,
                      const Context& context) const override {
    if (!heads.q.is_same(others.q)) return RecurrentHeads::read_both(heads, others, gates, context);
    const auto [forth, back] = decayed_products(turned(heads.q, context), turned(heads.k, context),
                                                heads.v, gates[0], how(false));
    return {forth, back};
  }

 private:
  Tensor turned(const Tensor& t, const Context& context) const {
    return config_.rotary ? Rotary()(t, context.positions) : t;
  }
  DecayedProduct how(bool reversed) const {
    return {.fading = Fading::rows,
            .scale = 1 / std::sqrt(static_cast<double>(key_width_)),
            .reversed = reversed};
  }

  Tensor log_decay(const Tensor& x) const {
    if (config_.decay == Decay::fixed) {
      const auto head = at::arange(heads_, x.options().requires_grad(false).dtype(wide(x)));
      return at::log1p(-at::exp2(-5 - head))
          .view({1, heads_, 1, 1})
          .expand({x.size(0), heads_, x.size(1), 1});
    }
    const auto logit = (*decay_)(decay_in_ ? (*decay_in_)(x) : x);
    return split_heads(log_gate(logit, config_.gate_divisor), heads_);
  }

  Config config_;
  std::shared_ptr<Linear> decay_in_, decay_;
};

void check(const Config& c, const Site& site) {
  require_option(
      !c.rotary || heads_of(c, site).key_width % 2 == 0, "rotary",
      c10::str("turns pairs of channels, but key_width is ", heads_of(c, site).key_width),
      "take an even key_width");
}

Promises promises(const Config& c) {
  return recurrent_promises(c.backward);
}

}  // namespace

Mechanism gla_mechanism() {
  return over_tokens<Config>(
      {.name = "gla",
       .family = "recurrent",
       .paper = "arXiv:2312.06635",
       .cost = "O(N Dk Dv)",
       .summary = "Linear attention whose sums fade by gates of the token, or by a fixed factor "
                  "for each head (retention).",
       .exact = "no decay: causal linear attention without a normaliser; never softmax",
       .variants = {{"simple",
                     "{decay: head, gate_divisor: 1, convolution: 4, norm_epsilon: 1e-2}"},
                    {"retention", "{decay: fixed, rotary: true, key_width: 8}"},
                    {"ungated",
                     "{output_gate: false, value_width: 5, key_width: 6, norm_epsilon: 0.1}"},
                    {"own", "{backward: own, convolution: 3}"}}},
      promises, recurrent_mixer<Gla, Config>, check);
}

}  // namespace longbow
