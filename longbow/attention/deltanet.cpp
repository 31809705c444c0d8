// DeltaNet (Schlag et al., 2021, arXiv:2102.11174; Yang et al., 2024, arXiv:2406.06484): each head
// keeps a matrix from keys to values, and a token corrects what it holds for the token's key:
//   S_t = S_{t-1} + beta_t k_t (v_t - S_{t-1}^T k_t)^T,   o_t = S_t^T q_t / sqrt(D_k),
//   y_t = W_o RMSNorm(o_t),   |q_t| = |k_t| = 1,   beta_t = sigmoid(W_beta x_t) for each head.
// Gated (Yang et al., 2024, arXiv:2412.06464), the matrix fades first: exp(g_t) S_{t-1} takes the
// place of S_{t-1}, with g_t = -exp(a) softplus(W_a x_t + b) for each head.
// With orthonormal keys and beta = 1 it is a store that overwrites; with orthogonal keys it is
// linear attention of the values beta_t v_t.
#include <ATen/ATen.h>

#include <cmath>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/features/feature_attention.h"
#include "longbow/nn/layers/recurrence.h"
#include "longbow/nn/layers/time_steps.h"
#include "longbow/ops/delta_product.h"
#include "longbow/ops/delta_products.h"

namespace longbow {
namespace {

struct Config {
  bool gated = false;
  double most_beta = 1;
  int64_t key_width = 0, value_width = 0, convolution = 4;
  bool output_gate = false;
  double norm_epsilon = 1e-5;
  Backward backward = Backward::shared;
};
template <class V>
void fields(V& v, Config& c) {
  v("gated", c.gated, "the matrix of a head fades by a factor that the token sets");
  v("most_beta", c.most_beta,
    "beta is a sigmoid times this; above 1 a token may write more than the difference, so that "
    "signs can change",
    Range{0, 2, true});
  v("key_width", c.key_width, "width of a head's queries and keys; 0 = the head width",
    at_least(0));
  v("value_width", c.value_width, "width of a head's values; 0 = the head width", at_least(0));
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
  return {.key_width = c.key_width > 0 ? c.key_width : head,
          .value_width = c.value_width > 0 ? c.value_width : head,
          .convolution = c.convolution,
          .output_gate = c.output_gate,
          .unit = true,
          .norm_epsilon = c.norm_epsilon};
}

class DeltaNet : public RecurrentHeads {
 public:
  DeltaNet(const Site& site, const Config& config)
      : RecurrentHeads(site, heads_of(config, site)), config_(config) {
    const int64_t width = site.shape.width;
    beta_ = linear(site, "beta", width, heads_);
    if (!config.gated) return;
    decay_ = register_module(
        "decay", std::make_shared<Linear>(site.at("decay"), width, heads_, /*with_bias=*/false));
    steps_ = register_module("steps", std::make_shared<TimeSteps>(site.at("steps"), heads_));
  }

 protected:
  // beta and, where the matrix fades, the logarithm of the decay: [B, H, T, 1].
  Gates gates(const Tensor& x, const Context& context) const override {
    const auto type = wide(x);
    const auto by_head = [&](const Tensor& t) {
      return without_padding(split_heads(t, heads_), context.mask.keep);
    };
    Gates found = {by_head(at::sigmoid((*beta_)(x).to(type)) * config_.most_beta)};
    if (decay_) found.push_back(by_head(steps_->log_decay(steps_->steps((*decay_)(x).to(type)))));
    return found;
  }

  Tensor read(const Heads& heads, const Gates& gates, Tensor& sums, const Context&,
              bool reversed) const override {
    return delta_product(heads.q, heads.k, heads.v, gates[0], decay_of(gates),
                         {.scale = scale(), .reversed = reversed}, sums);
  }
  BothReads read_both(const Heads& forth, const Heads& back, const Gates& gates,
                      const Context&) const override {
    const auto [first, second] = delta_products(
        {forth.q, forth.k, forth.v}, {back.q, back.k, back.v}, gates[0], decay_of(gates), scale());
    return {first, second};
  }

 private:
  double scale() const { return 1 / std::sqrt(static_cast<double>(key_width_)); }
  Tensor decay_of(const Gates& gates) const { return decay_ ? gates[1] : Tensor(); }

  Config config_;
  std::shared_ptr<Linear> beta_, decay_;
  std::shared_ptr<TimeSteps> steps_;
};

Promises promises(const Config& c) {
  return recurrent_promises(c.backward);
}

}  // namespace

Mechanism deltanet_mechanism() {
  return over_tokens<Config>(
      {.name = "deltanet",
       .family = "recurrent",
       .paper = "arXiv:2406.06484",
       .cost = "O(N Dk (Dk + Dv))",
       .summary = "A matrix from keys to values that every token corrects for its own key.",
       .exact = "orthonormal keys, beta 1: a store that overwrites; orthogonal keys: linear "
                "attention of beta v; never softmax",
       .variants = {{"gated", "{gated: true, output_gate: true, norm_epsilon: 1e-2}"},
                    {"negative",
                     "{most_beta: 2, convolution: 0, key_width: 5, value_width: 6, "
                     "norm_epsilon: 1e-2}"},
                    {"own", "{backward: own, norm_epsilon: 1e-2}"}}},
      promises, recurrent_mixer<DeltaNet, Config>);
}

}  // namespace longbow
