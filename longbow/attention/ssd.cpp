// Mamba-2's layer of state-space duality (Dao and Gu, 2024, arXiv:2405.21060). Of each token
//   [z, x, B, C, dt] = W_in u,   [x, B, C] <- SiLU(convolution([x, B, C])),
//   Delta = softplus(dt + b) for each head,   A = -exp(a) for each head,
// a matrix for each head fades by the step Delta that the token sets, and the layer reads it:
//   S_t = exp(Delta_t A) S_{t-1} + B_t (Delta_t x_t)^T,   y_t = S_t^T C_t + d x_t,
//   out_t = W_out RMSNorm(y_t * SiLU(z_t)).
// B and C are keys and queries that the heads of a group share. Without steps, Delta = 0, nothing
// is written and y = d x.
#include <ATen/ATen.h>

#include <limits>

#include "longbow/attention/mechanism.h"
#include "longbow/nn/layers/recurrence.h"
#include "longbow/nn/layers/time_steps.h"
#include "longbow/ops/affine.h"
#include "longbow/ops/state_space.h"

namespace longbow {
namespace {

enum class Norm { groups, all };
constexpr std::array<std::string_view, 2> names_of(Norm) {
  return {"groups", "all"};
}

struct Config {
  int64_t expand = 2, state = 128, groups = 1, convolution = 4;
  double least_step = 0, most_step = 0;
  Norm norm = Norm::groups;
  double norm_epsilon = 1e-5;
  Backward backward = Backward::shared;
};
template <class V>
void fields(V& v, Config& c) {
  v("expand", c.expand, "heads of the layer for each head of the model; E = expand H D channels",
    range(1, 64));
  v("state", c.state, "width of B and C, the rows of a head's state", range(1, 65536));
  v("groups", c.groups, "groups of heads, each with its own B and C", at_least(1));
  v("convolution", c.convolution, "taps of the causal convolution over x, B and C", range(1, 1024));
  v("least_step", c.least_step, "Delta is at least this", at_least(0));
  v("most_step", c.most_step, "Delta is at most this; 0 = no limit", at_least(0));
  v("norm", c.norm, "the norm is taken over the channels of each group, or over all channels");
  v("norm_epsilon", c.norm_epsilon, "added to the mean square in the norm", range(1e-15, 1));
  v("backward", c.backward, kBackwardMeaning);
}

class Ssd : public RecurrentLayer {
 public:
  Ssd(const Site& site, const Config& config)
      : config_(config),
        heads_(config.expand * site.shape.heads),
        inner_(heads_ * site.shape.head()),
        convolved_(inner_ + 2 * config.groups * config.state) {
    input_ = linear(site, "input", site.shape.width, inner_ + convolved_ + heads_);
    output_ = linear(site, "output", inner_, site.shape.width);
    auto over = site.at("convolution");
    over.shape.width = convolved_;
    convolution_ = register_module("convolution",
                                   std::make_shared<ShortConvolution>(over, config.convolution));
    norm_ = register_module(
        "norm", std::make_shared<RmsNorm>(inner_, config.norm_epsilon,
                                          config.norm == Norm::groups ? config.groups : 1));
    steps_ = register_module("steps", std::make_shared<TimeSteps>(site.at("steps"), heads_));
    skip_ = parameter("skip", at::ones({heads_}), {.decay = false});
  }

  void open(State& state, int64_t lanes) const override {
    const auto options = input_->weight.options().requires_grad(false);
    state.add("sums", {lanes, config_.groups, config_.state, inner_ / config_.groups},
              options.dtype(wide(input_->weight)));
    convolution_->start(state, lanes);
  }

  Tensor extend(const Tensor& u, State& state, const Context& context) const override {
    const auto parts = projected(u, context);
    const auto mixed = convolution_->extend_activated(parts.rows, state, context);
    return written(read(mixed, parts.steps, state.lane.at("sums"), /*reversed=*/false), Tensor(),
                   parts.gate);
  }

  Tensor run(const Tensor& u, const Context& context, bool both) const override {
    const auto parts = projected(u, context);
    Tensor sums, others;
    if (!both)
      return written(read(convolution_->activated(parts.rows, context, false), parts.steps, sums,
                          /*reversed=*/false),
                     Tensor(), parts.gate);
    const auto [forth, back] = convolution_->activated_both(parts.rows, context);
    return written(read(forth, parts.steps, sums, /*reversed=*/false),
                   read(back, parts.steps, others, /*reversed=*/true), parts.gate);
  }

 private:
  struct Projected {
    Tensor gate, rows;   // z [B, T, E], x B C beside each other
    TimeStepping steps;  // Delta and Delta A [B, T, H]; a padded token makes no step
  };
  Projected projected(const Tensor& u, const Context& context) const {
    const auto parts = affine_parts(u, input_->weight, input_->bias, {inner_, convolved_, heads_});
    const double most =
        config_.most_step > 0 ? config_.most_step : std::numeric_limits<double>::infinity();
    return {parts[0], parts[1],
            steps_->limited(parts[2], context.mask.keep, config_.least_step, most)};
  }

  // y [B, T, E]. Heads of a group are beside each other, so that their products of B and C are
  // formed once.
  Tensor read(const Tensor& mixed, const TimeStepping& steps, Tensor& sums, bool reversed) const {
    return state_space(mixed, steps.step, steps.log_decay, skip_,
                       {.groups = config_.groups, .state = config_.state, .reversed = reversed},
                       sums);
  }

  // Of what was read in one direction or both.
  Tensor written(const Tensor& forth, const Tensor& back, const Tensor& gate) const {
    const auto y = norm_->of_gated(forth, back, gate);
    // Each direction has the bias.
    return back.defined() && output_->bias.defined() ? affine(y, output_->weight, output_->bias * 2)
                                                     : (*output_)(y);
  }

  Config config_;
  int64_t heads_, inner_, convolved_;  // H, E = H P, E + 2 G n
  std::shared_ptr<Linear> input_, output_;
  std::shared_ptr<ShortConvolution> convolution_;
  std::shared_ptr<RmsNorm> norm_;
  std::shared_ptr<TimeSteps> steps_;
  Tensor skip_;  // [H]
};

void check(const Config& c, const Site& site) {
  const int64_t heads = c.expand * site.shape.heads;
  require_option(heads % c.groups == 0, "groups",
                 c10::str("is ", c.groups, ", but ", heads, " heads do not divide into so many"),
                 "take a divisor of expand times the model's heads");
  require_option(c.most_step == 0 || c.least_step <= c.most_step, "most_step",
                 c10::str("is ", c.most_step, ", but least_step is ", c.least_step),
                 "take a larger one, or 0 for no limit");
}

Promises promises(const Config& c) {
  return recurrent_promises(c.backward);
}

}  // namespace

Mechanism ssd_mechanism() {
  return over_tokens<Config>(
      {.name = "ssd",
       .family = "recurrent",
       .paper = "arXiv:2405.21060",
       .cost = "O(N E n)",
       .summary = "Mamba-2: a state-space layer whose steps the tokens set, as linear attention "
                  "that fades.",
       .exact = "rate 0 and steps of 1: causal linear attention of C, B and x; never softmax",
       .variants = {{"groups", "{groups: 2, state: 6, least_step: 0.3, most_step: 0.8}"},
                    {"joint", "{groups: 2, state: 5, norm: all, convolution: 1}"},
                    {"own", "{backward: own, state: 9, expand: 1}"}}},
      promises, recurrent_mixer<Ssd, Config>, check);
}

}  // namespace longbow
