#include "longbow/nn/layers/recurrence.h"

#include <ATen/ATen.h>

#include <cmath>

#include "longbow/nn/features/feature_attention.h"
#include "longbow/ops/affine.h"
#include "longbow/ops/gated_norm.h"
#include "longbow/ops/row_parts.h"

namespace longbow {
namespace {

Tensor reversed(const Tensor& tokens) {
  return tokens.defined() ? tokens.flip(1) : tokens;
}
Context reversed(const Context& context) {
  return {.mask = {.causal = true, .keep = reversed(context.mask.keep)},
          .positions = reversed(context.positions)};
}

// Of length 1, head by head: [B, H, T, D].
Tensor unit_heads(const Tensor& x) {
  const auto width = static_cast<double>(x.size(-1));
  const auto weight =
      at::full({x.size(-1)}, 1 / std::sqrt(width), x.options().requires_grad(false).dtype(wide(x)));
  return split_heads(gated_norm(merge_heads(x), {}, {}, weight, 1e-6 / width), x.size(1));
}

class RecurrentMixer : public MixerImpl {
 public:
  RecurrentMixer(const std::shared_ptr<RecurrentLayer>& forward,
                 const std::shared_ptr<RecurrentLayer>& backward)
      : forward_(register_module("forward", forward)),
        backward_(backward ? register_module("backward", backward) : forward) {}

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const Context forth = {.mask = {.causal = true, .keep = context.mask.keep},
                           .positions = positions_of(x, context)};
    if (context.mask.causal) return forward_->run(x, forth, false);
    if (backward_ == forward_) return forward_->run(x, forth, true);
    return forward_->run(x, forth, false) +
           reversed(backward_->run(reversed(x), reversed(forth), false));
  }

  void open(State& state, int64_t lanes, int64_t, Context&) override {
    forward_->open(state, lanes);
  }
  Tensor grow(const Tensor& x, State& state, Context& context) override {
    return forward_->extend(x, state, context);
  }

 private:
  std::shared_ptr<RecurrentLayer> forward_, backward_;
};

}  // namespace

Tensor RecurrentLayer::run(const Tensor& x, const Context& context, bool both) const {
  State state;
  open(state, x.size(0));
  const auto y = extend(x, state, context);
  return both ? y + reversed(run(reversed(x), reversed(context), false)) : y;
}

Promises recurrent_promises(Backward backward) {
  const bool both = backward == Backward::own;
  return {.future = both ? Future::refused : Future::exact,
          .decode = !both,
          .positional = true,
          .launches = Launches::logarithmic,
          .causal_launches = Launches::logarithmic};
}

Mixer recurrent_mixer(const std::shared_ptr<RecurrentLayer>& forward,
                      const std::shared_ptr<RecurrentLayer>& backward) {
  return std::make_shared<RecurrentMixer>(forward, backward);
}

RecurrentHeads::RecurrentHeads(const Site& site, const HeadsConfig& config)
    : heads_(site.shape.heads),
      key_width_(config.key_width),
      value_width_(config.value_width),
      unit_(config.unit) {
  const int64_t width = site.shape.width, keys = heads_ * key_width_,
                values = heads_ * value_width_;
  query_ = linear(site, "query", width, keys);
  key_ = linear(site, "key", width, keys);
  value_ = linear(site, "value", width, values);
  if (config.output_gate) gate_ = linear(site, "gate", width, values);
  output_ = linear(site, "output", values, width);
  norm_ = register_module("norm", std::make_shared<RmsNorm>(value_width_, config.norm_epsilon));
  if (config.convolution == 0) return;
  auto over = site.at("convolution");
  over.shape.width = 2 * keys + values;
  convolution_ =
      register_module("convolution", std::make_shared<ShortConvolution>(over, config.convolution));
}

void RecurrentHeads::open(State& state, int64_t lanes) const {
  const auto options = query_->weight.options().requires_grad(false);
  state.add("sums", {lanes, heads_, key_width_, value_width_}, options.dtype(wide(query_->weight)));
  if (convolution_) convolution_->start(state, lanes);
}

RecurrentHeads::Projected RecurrentHeads::projected(const Tensor& x) const {
  std::vector<const Linear*> layers = {query_.get(), key_.get(), value_.get()};
  if (gate_) layers.push_back(gate_.get());
  const int64_t keys = heads_ * key_width_, values = heads_ * value_width_;
  auto widths = convolution_ ? std::vector<int64_t>{2 * keys + values}
                             : std::vector<int64_t>{keys, keys, values};
  if (gate_) widths.push_back(values);
  Projected found = {project_together(x, layers, widths), Tensor()};
  if (!gate_) return found;
  found.gate = found.rows.back();
  found.rows.pop_back();
  return found;
}

std::vector<Tensor> RecurrentHeads::split(const Tensor& rows) const {
  const int64_t keys = heads_ * key_width_;
  return row_parts(rows, {keys, keys, heads_ * value_width_});
}

Heads RecurrentHeads::by_head(const std::vector<Tensor>& rows, const Tensor& x,
                              const Context& context, bool of_unit) const {
  const auto made = [&](const Tensor& t) { return unit_ && !of_unit ? unit_heads(t) : t; };
  return {made(split_heads(rows[0], heads_)),
          made(without_padding(split_heads(rows[1], heads_), context.mask.keep)),
          split_heads(rows[2], heads_), x, x};
}

Tensor RecurrentHeads::written(const Tensor& forth, const Tensor& back, const Tensor& gate) const {
  const auto merged = [](const Tensor& t) { return t.defined() ? merge_heads(t) : t; };
  const auto y = norm_->gated(merged(forth), merged(back), gate);
  // Each direction has the bias.
  return back.defined() && output_->bias.defined() ? affine(y, output_->weight, output_->bias * 2)
                                                   : (*output_)(y);
}

Tensor RecurrentHeads::extend(const Tensor& x, State& state, const Context& context) const {
  auto [rows, gate] = projected(x);
  const auto unit = convolution_ ? unit_of(rows[0]) : UnitParts();
  if (convolution_) rows = split(convolution_->extend_activated(rows[0], state, context, unit));
  const auto o = read(by_head(rows, x, context, unit.channels > 0), gates(x, context),
                      state.lane.at("sums"), context, /*reversed=*/false);
  return written(o, Tensor(), gate);
}

RecurrentHeads::BothReads RecurrentHeads::read_both(const Heads& forth, const Heads& back,
                                                    const Gates& gates,
                                                    const Context& context) const {
  Tensor sums, others;
  return {read(forth, gates, sums, context, false), read(back, gates, others, context, true)};
}

UnitParts RecurrentHeads::unit_of(const Tensor& rows) const {
  const UnitParts unit = {.channels = unit_ ? 2 * heads_ * key_width_ : 0, .width = key_width_};
  return convolution_->makes_unit(rows, unit) ? unit : UnitParts();
}

RecurrentHeads::BothReads RecurrentHeads::convolved(const Tensor& rows, const Gates& gates,
                                                    const Tensor& x, const Context& context,
                                                    bool both) const {
  const auto unit = unit_of(rows);
  const auto heads_of = [&](const Tensor& mixed) {
    return by_head(split(mixed), x, context, unit.channels > 0);
  };
  if (!both) {
    Tensor sums;
    const auto heads = heads_of(convolution_->activated(rows, context, false, unit));
    return {read(heads, gates, sums, context, /*reversed=*/false), {}};
  }
  const auto [forth, back] = convolution_->activated_both(rows, context, unit);
  return read_both(heads_of(forth), heads_of(back), gates, context);
}

Tensor RecurrentHeads::run(const Tensor& x, const Context& context, bool both) const {
  const auto parts = projected(x);
  const auto set = gates(x, context);
  const auto reads = [&]() -> BothReads {
    if (convolution_) return convolved(parts.rows[0], set, x, context, both);
    const auto heads = by_head(parts.rows, x, context, /*unit=*/false);
    if (both) return read_both(heads, heads, set, context);
    Tensor sums;
    return {read(heads, set, sums, context, /*reversed=*/false), {}};
  }();
  return written(reads.forth, reads.back, parts.gate);
}

}  // namespace longbow
