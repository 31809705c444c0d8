#include "longbow/nn/contract/mixer.h"

#include <ATen/ATen.h>

#include "longbow/nn/contract/alignment.h"

namespace longbow {

void MixerImpl::refuse(const std::string& what, bool (*promise)(const Promises&)) const {
  const auto others = label_.others ? label_.others(promise) : "";
  TORCH_CHECK(false, name(), ": ", what, others.empty() ? "" : "; mechanisms that do: " + others);
}

void MixerImpl::check_memory(const Context& context) const {
  if (context.memory.defined() && !promises().cross)
    refuse("cannot attend to a memory", [](const Promises& o) { return o.cross; });
}

void MixerImpl::check_mask(const Mask& mask, int64_t rows, int64_t keys) const {
  const auto& p = promises();
  if (mask.keep.defined() && p.padding == Padding::refused)
    refuse("cannot hide padding", [](const Promises& o) { return o.padding != Padding::refused; });
  if (mask.globals.defined() && !p.globals)
    refuse("has no global tokens", [](const Promises& o) { return o.globals; });
  TORCH_CHECK(!mask.keep.defined() || mask.keep.sizes() == at::IntArrayRef({rows, keys}), name(),
              ": keep is ", mask.keep.sizes(), ", but there are ", rows, " rows of ", keys,
              " keys");
}

void MixerImpl::check(const Tensor& x, const Context& context) const {
  const auto& mask = context.mask;
  const auto& p = promises();
  TORCH_CHECK(x.dim() == 3, name(), ": x is ", x.sizes(), ", but needs [batch, tokens, width]");
  if (mask.causal && p.future == Future::refused)
    refuse("is not causal", [](const Promises& o) { return o.future != Future::refused; });
  if (!mask.causal && !p.bidirectional)
    refuse("is causal only", [](const Promises& o) { return o.bidirectional; });
  check_memory(context);
  check_mask(mask, x.size(0), context.memory.defined() ? context.memory.size(1) : x.size(1));
}

Tensor MixerImpl::operator()(const Tensor& x, Context& context) {
  check(x, context);
  const bool crossing = context.memory.defined();
  const auto given = context.mask;
  const auto query_keep = given.query_keep.defined() || crossing ? given.query_keep : given.keep;
  if (!given.ragged || !given.keep.defined()) return zero_where_padded(mix(x, context), query_keep);

  Context aligned = context;
  const Alignment keys(given.keep);
  aligned.mask.ragged = false;
  aligned.mask.keep = keys.forth(given.keep);
  Tensor y;
  if (crossing) {
    aligned.memory = keys.forth(context.memory);
    y = mix(x, aligned);
  } else {
    aligned.positions = keys.forth(context.positions);
    aligned.mask.query_keep = keys.forth(query_keep);
    aligned.mask.globals = keys.places(given.globals);
    y = keys.back(mix(keys.forth(x), aligned));
  }
  aligned.mask = context.mask;
  aligned.memory = context.memory;
  aligned.positions = context.positions;
  context = aligned;
  return zero_where_padded(y, query_keep);
}

void MixerImpl::start(State& state, int64_t lanes, int64_t capacity, Context& context) {
  if (!promises().decode)
    refuse("has no decoding state", [](const Promises& o) { return o.decode; });
  check_memory(context);
  if (context.memory.defined()) check_mask(context.mask, lanes, context.memory.size(1));
  state = {};
  Context aligned = context;
  if (context.memory.defined() && context.mask.ragged && context.mask.keep.defined()) {
    const Alignment keys(context.mask.keep);
    aligned.memory = keys.forth(context.memory);
    aligned.mask.keep = keys.forth(context.mask.keep);
    aligned.mask.ragged = false;
  }
  open(state, lanes, capacity, aligned);
  context.carry = aligned.carry;
  context.loss = aligned.loss;
  const auto device = parameters().empty() ? at::Device(at::kCPU) : parameters().front().device();
  state.seen = at::zeros({lanes}, at::TensorOptions(at::kLong).device(device));
  state.capacity = capacity;
}

void MixerImpl::check_extension(const Tensor& x, const State& state, const Mask& mask) const {
  TORCH_CHECK(state.seen.defined(), name(), ": extend before start");
  TORCH_CHECK(x.dim() == 3 && x.size(0) == state.seen.size(0), name(), ": x is ", x.sizes(),
              " for ", state.seen.size(0), " lanes");
  check_mask(mask, x.size(0), x.size(1));
}

Tensor MixerImpl::extend(const Tensor& x, State& state, Context& context) {
  const auto keep = context.mask.keep;
  check_extension(x, state, context.mask);
  // A mixer without parameters does not know its device before it sees tokens.
  state.seen = state.seen.to(x.device());
  const auto seen =
      state.seen + (keep.defined() ? keep.sum(1) : at::full_like(state.seen, x.size(1)));
  if (state.capacity > 0 && x.is_cpu() && seen.numel() > 0) {
    const auto most = seen.max().item<int64_t>();
    TORCH_CHECK(most <= state.capacity, name(), ": ", most, " tokens, but the state has room for ",
                state.capacity);
  }
  Context inner = context;
  const bool align = context.mask.ragged && keep.defined();
  const auto order = align ? std::make_unique<Alignment>(keep) : nullptr;
  if (align) inner.mask.keep = order->forth(keep);
  inner.mask.ragged = false;
  inner.mask.causal = true;
  inner.positions = state.seen.unsqueeze(1) + positions_of(x, {.mask = {.keep = inner.mask.keep}});
  auto y = grow(align ? order->forth(x) : x, state, inner);
  if (align) y = order->back(y);
  context.carry = inner.carry;
  context.loss = inner.loss;
  state.seen = seen;
  return zero_where_padded(y, keep);
}

void MixerImpl::open(State&, int64_t, int64_t, Context&) {
  TORCH_INTERNAL_ASSERT(false, name(), " promises decode but does not open a state");
}

Tensor MixerImpl::grow(const Tensor&, State&, Context&) {
  TORCH_INTERNAL_ASSERT(false, name(), " promises decode but does not grow a state");
}

void AttentionImpl::open(State&, const Heads&, int64_t, Context&) {
  TORCH_INTERNAL_ASSERT(false, "this attention promises decode but does not open a state");
}

Tensor AttentionImpl::grow(const Heads&, State&, Context&) {
  TORCH_INTERNAL_ASSERT(false, "this attention promises decode but does not grow a state");
}

bool AttentionImpl::open_memory(State&, const Heads&, const Context&) {
  return false;
}

Tensor AttentionImpl::read_memory(const Heads&, State&, Context&) {
  TORCH_INTERNAL_ASSERT(false, "this attention opens a memory but does not read it");
}

}  // namespace longbow
