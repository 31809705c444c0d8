#include "longbow/nn/slots/slots.h"

#include <ATen/ATen.h>

#include "longbow/ops/causal_product.h"
#include "longbow/ops/decayed_product.h"

namespace longbow {
namespace {

// The causal product of x, y, z after the sums of the past, where there are any.
Tensor product(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_keep,
               Fading fading, Tensor& sums) {
  if (log_keep.defined()) {
    auto after = sums;
    const auto out = decayed_product(x, y, z, log_keep, {.fading = fading}, after);
    if (sums.defined()) sums = after;
    return out;
  }
  return sums.defined() ? grown_causal_product(x, y, z, sums) : causal_product(x, y, z);
}

Tensor transposed(const Tensor& t) {
  return t.defined() ? t.transpose(-2, -1) : t;
}

Tensor weights_by_head(const SlotRows& written) {
  return written.weights.expand({written.rows.size(0), written.rows.size(1), -1, -1});
}

Tensor bias_by_slot(const SlotRows& written) {
  return written.bias.expand(
      {written.rows.size(0), written.rows.size(1), written.weights.size(3), written.rows.size(3)});
}

Tensor divided(const Tensor& t, const SlotRows& written) {
  return written.divisor.defined() ? t / written.divisor : t;
}

}  // namespace

SlotReading read_slots(const Tensor& q, const SlotRows& keys, const SlotRows& values,
                       const Tensor& visible, const Weighing& weighing, Context& context) {
  const auto type = keys.weights.scalar_type();
  const int64_t extra = keys.rows.size(2) - q.size(2);
  const auto queries = at::constant_pad_nd(q.to(type), {0, 0, extra, 0});
  const auto asked = [&](const Tensor& rows) {
    return at::constant_pad_nd(rows, {0, 0, -extra, 0});
  };
  auto key_sums = transposed(keys.sums), value_sums = values.sums;
  auto scores = divided(product(queries, keys.rows.to(type), weights_by_head(keys), keys.log_keep,
                                Fading::columns, key_sums),
                        keys);
  if (keys.bias.defined()) scores = scores + queries.matmul(transposed(bias_by_slot(keys)));
  const auto weights = masked_softmax(scores, visible);  // [B, H, M, R]
  if (context.maps) (*context.maps)[weighing.path] = asked(weights).detach();
  const auto reading =
      dropout(weights, weighing.dropout, weighing.training, context, weighing.path + ".dropout");
  auto y = product(divided(reading, values), weights_by_head(values), values.rows.to(type),
                   values.log_keep, Fading::rows, value_sums);
  if (values.bias.defined()) y = y + reading.matmul(bias_by_slot(values));
  return {asked(y), transposed(key_sums), value_sums};
}

Tensor grown_slots(const SlotRows& written) {
  TORCH_CHECK(!written.log_keep.defined(), "grown_slots: the slots fade");
  const auto added = weights_by_head(written).transpose(-2, -1).matmul(written.rows);
  return written.sums.defined() ? written.sums + added : added;
}

Tensor read_slots(const Heads& heads, const Writing& writing, const Weighing& weighing,
                  Context& context, State* state) {
  const auto rows = [&](const Tensor& tensor, const char* lane) {
    return SlotRows{.rows = tensor,
                    .weights = writing.weights,
                    .log_keep = writing.log_keep,
                    .divisor = writing.divisor,
                    .sums = state ? state->lane.at(lane) : Tensor()};
  };
  const auto read = read_slots(heads.q, rows(heads.k, "slot_keys"), rows(heads.v, "slot_values"),
                               writing.visible, weighing, context);
  if (state) {
    state->lane.at("slot_keys") = read.keys;
    state->lane.at("slot_values") = read.values;
  }
  return read.y.to(heads.v.scalar_type());
}

void open_slots(State& state, const Heads& empty, int64_t slots) {
  const auto options = empty.k.options().dtype(wide(empty.k));
  const int64_t b = empty.k.size(0), h = empty.k.size(1);
  state.add("slot_keys", {b, h, slots, empty.k.size(3)}, options);
  state.add("slot_values", {b, h, slots, empty.v.size(3)}, options);
}

}  // namespace longbow
