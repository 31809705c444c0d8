#include "longbow/models/encoder/tower.h"

namespace longbow {
namespace {

// What the blocks see: the context with a mask of their own.
Context within(const Context& context, const Mask& mask) {
  Context inner = context;
  inner.mask = mask;
  inner.positions = Tensor();
  inner.carry.clear();
  return inner;
}

}  // namespace

Tower::Tower(const Site& site, const EncoderConfig& config) {
  check_attention(config);
  shared_ = register_module("shared", std::make_shared<Shared>());
  auto own = site;
  own.layers = config.layers;
  own.shape.max_length = config.max_length;
  own.shared = shared_;
  layers_ = register_module("layers", std::make_shared<Stack>(blocks_of(config, own), shared_));
}

Tensor Tower::operator()(const Tensor& x, const Mask& mask, Context& context) {
  auto inner = within(context, mask);
  const auto y = (*layers_)(x, inner);
  context.loss = inner.loss;
  return y;
}

void Tower::start(State& state, int64_t lanes, int64_t capacity, Context& context) {
  auto inner = within(context, {});
  layers_->start(state, lanes, capacity, inner);
}

Tensor Tower::extend(const Tensor& x, State& state, const Mask& mask, Context& context) {
  auto inner = within(context, mask);
  return layers_->extend(x, state, inner);
}

}  // namespace longbow
