// S5 (Smith et al., 2022, arXiv:2208.04933): all channels together are one diagonal linear system,
//   x' = L x + B u  at steps of dt:   x_t = L_ x_{t-1} + B_ u_t,
//   y_t = 2 Re(R x_t) + D u_t,   out = y sigmoid(W GELU(y) + b),
// with L of P complex numbers, one of each conjugate pair, B [P, C], R [C, P]; L_ = exp(L dt) and
// B_ = (L_ - 1) / L B (zero-order hold), or their bilinear forms. The states are found by a scan,
// on a GPU chunk by chunk. Without a causal mask a second scan runs backwards and is read out
// besides; both count the token itself.
#include <ATen/ATen.h>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/contract/linear.h"
#include "longbow/nn/layers/hippo.h"
#include "longbow/nn/layers/modes.h"
#include "longbow/ops/diagonal_scan.h"

namespace longbow {
namespace {

enum class Discretization { zoh, bilinear };
constexpr std::array<std::string_view, 2> names_of(Discretization) {
  return {"zoh", "bilinear"};
}

enum class Finish { half_glu, gelu, none };
constexpr std::array<std::string_view, 3> names_of(Finish) {
  return {"half_glu", "gelu", "none"};
}

struct Config {
  int64_t state = 64, blocks = 1;
  Discretization discretization = Discretization::zoh;
  Finish activation = Finish::half_glu;
  bool bidirectional = true;
  double least_step = 0.001, largest_step = 0.1;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("state", c.state, "of the system, of which half are the conjugates of the others",
    range(2, 65536));
  v("blocks", c.blocks, "the system starts as this many equal ones", at_least(1));
  v("discretization", c.discretization, "zero-order hold, or bilinear");
  v("activation", c.activation, "y sigmoid(W GELU(y) + b), GELU(y), or y");
  v("bidirectional", c.bidirectional,
    "read later tokens too, with weights of their own, where the mask is not causal");
  v("least_step", c.least_step, "dt starts log-uniform between this ...", above(0));
  v("largest_step", c.largest_step, "... and this", above(0));
  v("dropout", c.dropout, "rate on the output", range(0, 0.99));
}

class S5 : public MixerImpl {
 public:
  S5(const Site& site, const Config& config)
      : config_(config), width_(site.shape.width), path_(site.path) {
    const Hint slow = {.decay = false, .max_learning_rate = 1e-3};
    const int64_t modes = config.state / 2;
    const auto hippo = hippo_modes(config.state / config.blocks);
    const auto spectrum = at::stack({at::full_like(hippo.frequencies, -0.5), hippo.frequencies}, 1);
    lambda_ = parameter("lambda", spectrum.repeat({config.blocks, 1}).to(at::kFloat), slow);
    log_step_ = parameter(
        "log_step",
        initial_log_uniform(site, "log_step", {modes}, config.least_step, config.largest_step),
        slow);
    const auto given = in_blocks(site, "input", {width_}).transpose(1, 2);  // [J, S / J, C]
    const auto input = hippo.vectors.mH().matmul(given.to(at::kComplexDouble)).flatten(0, 1);
    input_ = parameter("input", stored(input), slow);
    read_ = read_out(site, "read", hippo.vectors);
    if (config.bidirectional) read_ahead_ = read_out(site, "read_ahead", hippo.vectors);
    skip_ = parameter("skip", initial_normal(site, "skip", {width_}, 1), {.decay = false});
    if (config.activation == Finish::half_glu) gate_ = linear(site, "gate", width_, width_);
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    // Tensor cores add products of bfloat16 up in float32, as which the states are kept.
    const bool cores = x.is_cuda() && x.scalar_type() == at::kBFloat16;
    const auto type = cores ? x.scalar_type() : wide(x);
    const auto u = zero_where_padded(x, context.mask.keep).to(type);
    const auto [rate, written] = discretized(u);
    auto y = read(diagonal_scan(written, rate), read_, type);
    if (config_.bidirectional && !context.mask.causal)
      y = y + read(diagonal_scan(written, rate, /*reversed=*/true), read_ahead_, type);
    return finished(y + skip_ * u, x, context);
  }

  void open(State& state, int64_t lanes, int64_t, Context&) override {
    const auto options = lambda_.options().dtype(wide(lambda_)).requires_grad(false);
    state.add("system", {lanes, config_.state}, options);  // pairs
  }

  // The state before the first token joins what that writes.
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto& keep = context.mask.keep;
    const auto u = zero_where_padded(x, keep).to(wide(x));
    auto& lane = state.lane.at("system");
    const auto before = from_pairs(lane).unsqueeze(1);  // [B, 1, P]
    const auto [rate, written] = discretized(u);
    const auto first = written.narrow(1, 0, 1) + rate.exp() * before;
    const auto states =
        diagonal_scan(at::cat({first, written.narrow(1, 1, x.size(1) - 1)}, 1), rate);
    const auto all = as_pairs(at::cat({before, states}, 1));
    const auto last = keep.defined()
                          ? keep.sum(1)
                          : at::full({x.size(0)}, x.size(1), x.options().dtype(at::kLong));
    lane = at::take_along_dim(all, last.view({-1, 1, 1}), 1).squeeze(1);
    return finished(read(states, read_, u.scalar_type()) + skip_ * u, x, context);
  }

 private:
  struct Written {
    Tensor rate, rows;  // log L_ [P], B_ u [B, N, P]
  };
  Written discretized(const Tensor& u) const {
    constexpr double kSlowest = -1e-4;  // a system that grew would overflow
    const auto type = wide(u);
    const auto lambda = lambda_.to(type);
    const auto l = at::complex(lambda.select(1, 0).clamp_max(kSlowest), lambda.select(1, 1));
    const auto step = log_step_.to(type).exp();
    const auto z = l * step;
    const bool hold = config_.discretization == Discretization::zoh;
    const auto rate = hold ? z : 2 * at::atanh(z / 2);
    const auto gain = hold ? at::expm1(z) / l : step / (1 - z / 2);
    const auto b = gain.unsqueeze(1) * at::view_as_complex(input_.to(type));  // [P, C]
    return {rate, from_pairs(u.matmul(as_pairs(b.t()).to(u.scalar_type())).to(type))};
  }

  // 2 Re(R x) as one real product of this type.
  static Tensor read(const Tensor& states, const Tensor& weights, at::ScalarType type) {
    const auto r = at::view_as_complex(weights.to(at::toRealValueType(states.scalar_type())));
    return as_pairs(states).to(type).matmul(as_pairs(2 * r.conj_physical()).to(type).t());
  }

  Tensor finished(const Tensor& y, const Tensor& x, const Context& context) const {
    auto z = y.to(x.scalar_type());
    if (config_.activation != Finish::none) {
      const auto active = at::gelu(y).to(x.scalar_type());
      z = gate_ ? z * (*gate_)(active).sigmoid() : active;
    }
    return dropout(z, config_.dropout, is_training(), context, path_ + ".dropout");
  }

  // Numbers of deviation 1 / sqrt(S) over the S states, [J, …, S / J] in float64.
  Tensor in_blocks(const Site& site, const std::string& name, std::vector<int64_t> shape) const {
    shape.insert(shape.begin(), config_.blocks);
    shape.push_back(config_.state / config_.blocks);
    return initial_normal(site, name, shape, 1 / std::sqrt(static_cast<double>(config_.state)))
        .to(at::kDouble);
  }
  Tensor read_out(const Site& site, const std::string& name, const Tensor& vectors) {
    const auto pairs = in_blocks(site, name, {2, width_});  // [J, 2, C, S / J]
    const auto drawn =
        at::complex(pairs.select(1, 0).contiguous(), pairs.select(1, 1).contiguous());
    return parameter(name, stored(drawn.matmul(vectors).transpose(0, 1).flatten(1)));
  }
  static Tensor stored(const Tensor& complex) {  // [.., P] -> [.., P, 2]
    return at::view_as_real(complex.resolve_conj()).to(at::kFloat).contiguous();
  }

  Config config_;
  int64_t width_;
  std::string path_;
  Tensor lambda_, log_step_, input_;  // [P, 2], [P], [P, C, 2]
  Tensor read_, read_ahead_, skip_;   // [C, P, 2] twice, [C]
  std::shared_ptr<Linear> gate_;
};

void check(const Config& c, const Site&) {
  require_option(
      c.state % (2 * c.blocks) == 0, "state",
      c10::str("is ", c.state, ", but needs an even number in each of ", c.blocks, " blocks"),
      "take a multiple of twice the blocks");
  require_option(c.least_step <= c.largest_step, "least_step",
                 c10::str("is ", c.least_step, ", above largest_step, ", c.largest_step),
                 "exchange them");
}

Promises promises(const Config&) {
  return {.future = Future::exact,
          .decode = true,
          .positional = true,
          .launches = Launches::logarithmic,
          .causal_launches = Launches::logarithmic};
}

Mixer make(const Site& site, const Config& c) {
  return std::make_shared<S5>(site, c);
}

}  // namespace

Mechanism s5_mechanism() {
  return over_tokens<Config>(
      {.name = "s5",
       .family = "state space",
       .paper = "arXiv:2208.04933",
       .cost = "O(N S C)",
       .summary = "One diagonal linear system over all channels, by a parallel scan.",
       .exact = "its recurrence, token by token; never softmax",
       .variants = {{"blocks", "{state: 16, blocks: 4, activation: gelu}"},
                    {"bilinear", "{state: 8, discretization: bilinear}"},
                    {"forward", "{state: 8, bidirectional: false, activation: none}"}}},
      promises, make, check);
}

}  // namespace longbow
