#include <ATen/ATen.h>

#include "longbow/nn/contract/linear.h"
#include "longbow/nn/contract/mixer.h"
#include "longbow/ops/shared_heads.h"

namespace longbow {

Tensor split_heads(const Tensor& x, int64_t heads) {
  return x.unflatten(-1, {heads, -1}).transpose(1, 2);
}
Tensor merge_heads(const Tensor& x) {
  return x.transpose(1, 2).flatten(-2);
}

std::vector<Heads> heads_for(const Heads& heads, int64_t readers) {
  const auto views = shared_heads({heads.q, heads.k, heads.v}, {readers, readers, readers});
  std::vector<Heads> found;
  for (size_t i = 0; i < static_cast<size_t>(readers); ++i)
    found.push_back({views[0][i], views[1][i], views[2][i], heads.x, heads.source});
  return found;
}

ProjectedMixer::ProjectedMixer(const Site& site, const Output& output, Keys keys)
    : heads_(site.shape.heads), rotary_(site.cross ? std::nullopt : site.rotary) {
  const auto& shape = site.shape;
  const int64_t source = site.source_width(), inner = shape.inner();
  query_ = linear(site, "query", shape.width, inner);
  key_ = keys == Keys::own ? linear(site, "key", source, inner) : query_;
  value_ = linear(site, "value", source, inner);
  TORCH_CHECK(output.projected || inner == shape.width, "without an output projection ", heads_,
              " heads of width ", shape.head(), " must make up the model width ", shape.width);
  TORCH_CHECK(output.projected || output.rank == 0,
              "an output projection in two steps cannot be left out");
  if (!output.projected) return;
  if (output.rank > 0) output_in_ = linear(site, "output_in", inner, output.rank);
  output_ = linear(site, "output", output.rank > 0 ? output.rank : inner, shape.width);
}

Tensor ProjectedMixer::merged(const Tensor& heads) const {
  auto y = merge_heads(heads);
  if (output_in_) y = (*output_in_)(y);
  return output_ ? (*output_)(y) : y;
}

int64_t ProjectedMixer::outgoing_width() const {
  return output_ ? first_output().weight.size(0) : 0;
}
Tensor ProjectedMixer::outgoing(const Tensor& values) const {
  return values.matmul(first_output().weight.unflatten(1, {heads_, -1}).permute({1, 2, 0}));
}
Tensor ProjectedMixer::finished(const Tensor& y) const {
  const auto& bias = first_output().bias;
  const auto whole = bias.defined() ? y + bias : y;
  return output_in_ ? (*output_)(whole) : whole;
}

// Real tokens stand first, so that those of unknown position are counted from the left.
Tensor ProjectedMixer::rotated(const Tensor& heads, const Context& context) const {
  if (!rotary_ || context.memory.defined()) return heads;
  return (*rotary_)(heads,
                    context.positions.defined()
                        ? context.positions
                        : at::arange(heads.size(2), heads.options().dtype(at::kLong)).unsqueeze(0));
}

namespace {

class MultiHead : public ProjectedMixer {
 public:
  MultiHead(const Site& site, Attention attention, Keys keys)
      : ProjectedMixer(site, {}, keys), width_(site.shape.head()) {
    attention_ = register_module("attention", std::move(attention));
  }

 protected:
  Tensor mix(const Tensor& x, Context& context) override {
    const auto source = context.memory.defined() ? context.memory : x;
    const auto [q, k, v] = projected(x, source);
    return merged(
        attention_->attend({rotated(q, context), rotated(k, context), v, x, source}, context));
  }

  // With a memory, keys and values are projected once. Every extension reads them as the forward
  // pass would, or what the attention has made of them.
  void open(State& state, int64_t lanes, int64_t capacity, Context& context) override {
    if (!context.memory.defined()) {
      const auto none = at::zeros({lanes, 0, query_->weight.size(1)}, query_->weight.options());
      const auto heads = at::zeros({lanes, heads_, 0, width_}, query_->weight.options());
      attention_->open(state, {heads, heads, heads, none, none}, capacity, context);
      return;
    }
    const auto& memory = context.memory;
    const auto keys = split((*key_)(memory)), values = split((*value_)(memory));
    const Heads heads = {.q = {}, .k = keys, .v = values, .x = {}, .source = memory};
    Context reading = context;
    reading.mask.causal = false;  // every token reads all of it
    State made;
    if (attention_->open_memory(made, heads, reading)) {
      state.child[kMade] = std::move(made);
      return;
    }
    state.lane["memory"] = memory;
    state.lane["memory_keys"] = keys;
    state.lane["memory_values"] = values;
    if (context.mask.keep.defined()) state.lane["memory_keep"] = context.mask.keep;
    for (const auto& [name, tensor] : state.lane) state.fill[name] = 0;
  }

  Tensor grow(const Tensor& x, State& state, Context& context) override {
    const auto q = split((*query_)(x));
    if (state.child.count(kMade) || state.lane.count("memory"))
      return merged(crossed(q, x, state, context));
    return merged(attention_->grow(
        {rotated(q, context), rotated(split((*key_)(x)), context), split((*value_)(x)), x, x},
        state, context));
  }

 private:
  Tensor crossed(const Tensor& q, const Tensor& x, State& state, Context& context) {
    Context crossing = context;
    crossing.mask = {.query_keep = context.mask.keep};
    Tensor y;
    if (const auto made = state.child.find(kMade); made != state.child.end()) {
      const Heads queries = {.q = q, .k = {}, .v = {}, .x = x, .source = {}};
      y = attention_->read_memory(queries, made->second, crossing);
    } else {
      const auto& lane = state.lane;
      crossing.memory = lane.at("memory");
      if (lane.count("memory_keep")) crossing.mask.keep = lane.at("memory_keep");
      y = attention_->attend(
          {q, lane.at("memory_keys"), lane.at("memory_values"), x, crossing.memory}, crossing);
    }
    context.carry = crossing.carry;
    context.loss = crossing.loss;
    return y;
  }
  Tensor split(const Tensor& x) const { return split_heads(x, heads_); }

  struct Projected {
    Tensor q, k, v;
  };
  Projected projected(const Tensor& x, const Tensor& source) const {
    const bool shared = key_ == query_;
    if (!source.is_same(x))
      return {split((*query_)(x)), split((*key_)(source)), split((*value_)(source))};
    std::vector<const Linear*> layers = {query_.get()};
    if (!shared) layers.push_back(key_.get());
    layers.push_back(value_.get());
    const auto rows = project_together(x, layers);
    return {split(rows[0]), split(rows[shared ? 0 : 1]), split(rows.back())};
  }

  static constexpr const char* kMade = "memory";  // of a memory, in the state

  int64_t width_;
  Attention attention_;
};

}  // namespace

Mixer multi_head(const Site& site, Attention attention, Keys keys) {
  return std::make_shared<MultiHead>(site, std::move(attention), keys);
}

}  // namespace longbow
