// S4D (Gu et al., 2022, arXiv:2206.11893): each channel is a linear system of n complex modes that
// is read out and mixed,
//   s' = A s + u  at steps of dt:   s_t = exp(dt A) s_{t-1} + u_t,
//   y_t = 2 Re sum_n C_n (exp(dt A_n) - 1) / A_n s_{t,n} + D u_t,
//   out = GLU(W GELU(y) + b),
// A diagonal with Re A < 0. The system is a convolution with a kernel of as many lags as there are
// tokens, done by FFT or, on a GPU, in chunks of tokens. Without a causal mask a second read-out of
// the same modes, run backwards over the later tokens, is added.
#include <ATen/ATen.h>

#include <numbers>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/hippo.h"
#include "longbow/nn/layers/modes.h"

namespace longbow {
namespace {

enum class Start { lin, inv, legs };
constexpr std::array<std::string_view, 3> names_of(Start) {
  return {"lin", "inv", "legs"};
}

struct Config {
  int64_t state = 64;
  Start start = Start::lin;
  bool bidirectional = true;
  double least_step = 0.001, largest_step = 0.1;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("state", c.state, "modes of each channel, of which half are the conjugates of the others",
    range(2, 65536));
  v("start", c.start, "first frequencies: Im A_n = pi n, (S/pi)(S/(2n+1) - 1), or HiPPO's");
  v("bidirectional", c.bidirectional,
    "read later tokens too, with weights of their own, where the mask is not causal");
  v("least_step", c.least_step, "dt starts log-uniform between this ...", above(0));
  v("largest_step", c.largest_step, "... and this", above(0));
  v("dropout", c.dropout, "rate on the channels before they are mixed", range(0, 0.99));
}

Tensor frequencies(const Config& c) {
  const auto total = static_cast<double>(c.state);
  const auto n = at::arange(c.state / 2, at::kFloat);
  if (c.start == Start::lin) return n * std::numbers::pi;
  if (c.start == Start::inv) return total / std::numbers::pi * (total / (2 * n + 1) - 1);
  return hippo_modes(c.state).frequencies.to(at::kFloat);
}

class S4d : public MixerImpl {
 public:
  S4d(const Site& site, const Config& config) : config_(config), path_(site.path) {
    const int64_t width = site.shape.width, modes = config.state / 2;
    const Hint slow = {.decay = false, .max_learning_rate = 1e-3};
    log_step_ = parameter(
        "log_step",
        initial_log_uniform(site, "log_step", {width}, config.least_step, config.largest_step),
        slow);
    log_decay_ = parameter("log_decay", at::full({width, modes}, std::log(0.5)), slow);
    frequency_ = parameter("frequency", frequencies(config).repeat({width, 1}), slow);
    read_ = read_out(site, "read");
    if (config.bidirectional) read_ahead_ = read_out(site, "read_ahead");
    skip_ = parameter("skip", initial_normal(site, "skip", {width}, 1), {.decay = false});
    output_ = linear(site, "output", width, 2 * width);
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const bool both = config_.bidirectional && !context.mask.causal;
    const auto u = zero_where_padded(x, context.mask.keep);
    const auto all = modes(both ? at::stack({read_, read_ahead_}) : read_.unsqueeze(0));
    return mixed(convolved(u, {all.rate.expand_as(all.weight), all.weight}, skip_, FirstLag::one,
                           ModeActivation::gelu),
                 context);
  }

  void open(State& state, int64_t lanes, int64_t, Context&) override {
    open_modes(state, "modes", lanes, modes(read_));
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto u = zero_where_padded(x, context.mask.keep).to(wide(x));
    const auto y = grow_modes(state, "modes", u, modes(read_), context.mask.keep) + skip_ * u;
    return mixed(at::gelu(y).to(x.scalar_type()), context);
  }

 private:
  Tensor read_out(const Site& site, const std::string& name) {
    return parameter(name, initial_normal(site, name, {site.shape.width, config_.state / 2, 2}, 1));
  }

  // Rates [C, n] and weights as read [.., C, n, 2]. The conjugates double the real part.
  Modes modes(const Tensor& read) const {
    const auto type = wide(read);
    const auto a = at::complex(log_decay_.to(type).exp().neg(), frequency_.to(type));
    const auto rate = a * log_step_.to(type).exp().unsqueeze(-1);
    return {rate, 2 * at::view_as_complex(read.to(type)) * at::expm1(rate) / a};
  }

  Tensor mixed(const Tensor& z, const Context& context) const {
    return at::glu(
        (*output_)(dropout(z, config_.dropout, is_training(), context, path_ + ".dropout")));
  }

  Config config_;
  std::string path_;
  Tensor log_step_, log_decay_, frequency_;  // [C], [C, n], [C, n]
  Tensor read_, read_ahead_, skip_;          // [C, n, 2] twice, [C]
  std::shared_ptr<Linear> output_;
};

void check(const Config& c, const Site&) {
  require_option(c.state % 2 == 0, "state", c10::str("is ", c.state, ", but half of it is stored"),
                 "take an even number");
  require_option(c.least_step <= c.largest_step, "least_step",
                 c10::str("is ", c.least_step, ", above largest_step, ", c.largest_step),
                 "exchange them");
}

Promises promises(const Config&) {
  return {.future = Future::rounded,
          .decode = true,
          .positional = true,
          .time = 1.1};  // N log N, between one and eight thousand tokens
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<S4d>(site, c);
}

}  // namespace

Mechanism s4d_mechanism() {
  return over_tokens<Config>(
      {.name = "s4d",
       .family = "state space",
       .paper = "arXiv:2206.11893",
       .cost = "O(N C (S + log N))",
       .summary = "Each channel is a diagonal linear system, convolved over all tokens.",
       .exact = "its recurrence, token by token; never softmax",
       .variants = {{"forward", "{bidirectional: false, state: 4}"},
                    {"inv", "{start: inv, state: 16}"},
                    {"legs", "{start: legs, state: 8}"}}},
      promises, make, check);
}

}  // namespace longbow
