#include "longbow/nn/slots/slots.h"

#include <ATen/ATen.h>

#include "longbow/ops/causal_product.h"
#include "longbow/ops/decayed_product.h"

namespace longbow {
namespace {

// The causal product of x, y, z after the sums of the past, where there are any.
Tensor product(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_keep,
               Fading fading, Tensor* past) {
  if (log_keep.defined()) {
    auto sums = past ? *past : Tensor();
    const auto out = decayed_product(x, y, z, log_keep, fading, sums);
    if (past) *past = sums;
    return out;
  }
  const auto out = causal_product(x, y, z);
  if (!past) return out;
  const auto before = *past;
  *past = before + y.transpose(-2, -1).matmul(z);
  return out + x.matmul(before);
}

}  // namespace

Tensor read_slots(const Heads& heads, const Writing& writing, const Weighing& weighing,
                  Context& context, State* state) {
  const auto& w = writing.weights;
  const auto type = w.scalar_type();
  const int64_t extra = heads.k.size(2) - heads.q.size(2);
  const auto q = at::constant_pad_nd(heads.q.to(type), {0, 0, extra, 0}), k = heads.k.to(type),
             v = heads.v.to(type);
  auto* keys = state ? &state->lane.at("slot_keys") : nullptr;
  auto* values = state ? &state->lane.at("slot_values") : nullptr;
  const auto divided = [&](const Tensor& t) {
    return writing.divisor.defined() ? t / writing.divisor : t;
  };
  const auto scores = divided(product(q, k, w, writing.log_keep, Fading::columns, keys));
  const auto weights = masked_softmax(scores, writing.visible);  // [B, H, M, R]
  const auto asked = [&](const Tensor& rows) {
    return at::constant_pad_nd(rows, {0, 0, -extra, 0});
  };
  if (context.maps) (*context.maps)[weighing.path] = asked(weights).detach();
  const auto reading = divided(
      dropout(weights, weighing.dropout, weighing.training, context, weighing.path + ".dropout"));
  return asked(product(reading, w, v, writing.log_keep, Fading::rows, values))
      .to(heads.v.scalar_type());
}

void open_slots(State& state, const Heads& empty, int64_t slots) {
  const auto options = empty.k.options().dtype(wide(empty.k));
  const int64_t b = empty.k.size(0), h = empty.k.size(1);
  state.add("slot_keys", {b, h, empty.k.size(3), slots}, options);
  state.add("slot_values", {b, h, slots, empty.v.size(3)}, options);
}

}  // namespace longbow
