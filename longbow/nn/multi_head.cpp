#include <ATen/ATen.h>

#include "longbow/nn/mixer.h"

namespace longbow {

Tensor split_heads(const Tensor& x, int64_t heads) {
  return x.unflatten(-1, {heads, -1}).transpose(1, 2);
}
Tensor merge_heads(const Tensor& x) {
  return x.transpose(1, 2).flatten(-2);
}

namespace {

class MultiHead : public MixerImpl {
 public:
  MultiHead(const Site& site, Attention attention)
      : heads_(site.shape.heads), inner_(site.shape.inner()) {
    const auto& shape = site.shape;
    const int64_t source = site.source_width();
    query_ = linear(site, "query", shape.width, inner_);
    key_ = linear(site, "key", source, inner_);
    value_ = linear(site, "value", source, inner_);
    output_ = linear(site, "output", inner_, shape.width);
    attention_ = register_module("attention", std::move(attention));
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto source = context.memory.defined() ? context.memory : x;
    return merged(attention_->attend(
        {split((*query_)(x)), split((*key_)(source)), split((*value_)(source)), x, source},
        context));
  }

  // With a memory, keys and values are projected once and every extension reads them as the forward
  // pass would.
  void open(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    if (!context.memory.defined()) {
      const auto none = at::zeros({lanes, 0, query_->weight.size(1)}, query_->weight.options());
      const auto heads = at::zeros({lanes, heads_, 0, inner_ / heads_}, query_->weight.options());
      attention_->open(state, {heads, heads, heads, none, none}, capacity, context);
      return;
    }
    const auto& memory = context.memory;
    state.lane["memory"] = memory;
    state.lane["memory_keys"] = split((*key_)(memory));
    state.lane["memory_values"] = split((*value_)(memory));
    if (context.mask.keep.defined()) state.lane["memory_keep"] = context.mask.keep;
    for (const auto& [name, tensor] : state.lane) state.fill[name] = 0;
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto q = split((*query_)(x));
    if (const auto memory = state.lane.find("memory"); memory != state.lane.end()) {
      Context crossing = context;
      crossing.memory = memory->second;
      crossing.mask = {.query_keep = context.mask.keep};
      if (state.lane.count("memory_keep")) crossing.mask.keep = state.lane.at("memory_keep");
      const auto y = attention_->attend(
          {q, state.lane.at("memory_keys"), state.lane.at("memory_values"), x, crossing.memory},
          crossing);
      context.carry = crossing.carry;
      context.loss = crossing.loss;
      return merged(y);
    }
    return merged(
        attention_->grow({q, split((*key_)(x)), split((*value_)(x)), x, x}, state, context));
  }

 private:
  Tensor split(const Tensor& x) const { return split_heads(x, heads_); }
  Tensor merged(const Tensor& heads) const { return (*output_)(merge_heads(heads)); }

  int64_t heads_, inner_;
  std::shared_ptr<Linear> query_, key_, value_, output_;
  Attention attention_;
};

}  // namespace

Mixer multi_head(const Site& site, Attention attention) {
  return std::make_shared<MultiHead>(site, std::move(attention));
}

}  // namespace longbow
