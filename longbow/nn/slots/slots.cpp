#include "longbow/nn/slots/slots.h"

#include <ATen/ATen.h>

#include "longbow/ops/causal_product.h"
#include "longbow/ops/decayed_product.h"
#include "longbow/ops/divided_softmax.h"
#include "longbow/ops/feature_product.h"

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
  if (sums.defined()) return grown_causal_product(x, y, z, sums);
  const FeatureProduct how = {.causal = true};
  return has_feature_kernel(x, y, z, how) ? feature_product_sums(x, y, z, how).values
                                          : causal_product(x, y, z);
}

Tensor transposed(const Tensor& t) {
  return t.defined() ? t.transpose(-2, -1) : t;
}

// In rows, before they are repeated: kernels would copy all of them.
Tensor weights_by_head(const SlotRows& written) {
  const auto& w = written.weights;
  const auto rows = w.is_cuda() && w.stride(3) != 1 ? w.contiguous() : w;
  return rows.expand({written.rows.size(0), written.rows.size(1), -1, -1});
}

Tensor bias_by_slot(const SlotRows& written) {
  return written.bias.expand(
      {written.rows.size(0), written.rows.size(1), written.weights.size(3), written.rows.size(3)});
}

Tensor divided(const Tensor& t, const SlotRows& written) {
  if (!written.divisor.defined()) return t;
  return t / (written.least > 0 ? written.divisor.clamp_min(written.least) : written.divisor);
}

Tensor padded(const Tensor& t, int64_t rows) {
  return rows == 0 ? t : at::constant_pad_nd(t, {0, 0, rows, 0});
}

// Whether one pass makes weights of scores: it divides them as it divides the scores, all slots are
// visible and nobody looks.
bool in_one_pass(const Tensor& scores, const SlotRows& keys, const SlotRows& values,
                 const Tensor& visible, const Context& context) {
  return scores.is_cuda() && scores.scalar_type() == at::kBFloat16 && !visible.defined() &&
         !context.maps && !keys.bias.defined() && !values.bias.defined() &&
         keys.divisor.is_same(values.divisor) && keys.least == values.least;
}

}  // namespace

at::ScalarType slot_type(const Tensor& k, const Tensor& v, int64_t slots, bool grows) {
  const auto weights = k.narrow(3, 0, 1).expand({-1, -1, -1, slots});
  const FeatureProduct how = {.causal = true};
  const bool kernels = !grows && has_feature_kernel(k, k, weights, how) &&
                       has_feature_kernel(weights, weights, v, how);
  return kernels ? k.scalar_type() : wide(k);
}

SlotReading read_slots(const Tensor& q, const SlotRows& keys, const SlotRows& values,
                       const Tensor& visible, const Weighing& weighing, Context& context) {
  const auto type = keys.weights.scalar_type();
  const int64_t extra = keys.rows.size(2) - q.size(2);
  const auto queries = padded(q.to(type), extra);
  const auto asked = [&](const Tensor& rows) { return padded(rows, -extra); };
  auto key_sums = transposed(keys.sums), value_sums = values.sums;
  auto scores = product(queries, keys.rows.to(type), weights_by_head(keys), keys.log_keep,
                        Fading::columns, key_sums);
  const auto dropped = [&](const Tensor& weights) {
    return dropout(weights, weighing.dropout, weighing.training, context,
                   weighing.path + ".dropout");
  };
  Tensor reading, of_values;  // the second divided for the values
  if (in_one_pass(scores, keys, values, visible, context)) {
    of_values = dropped(divided_softmax(scores, keys.divisor, keys.least, keys.scale));
  } else {
    scores = divided(scores, keys);
    if (keys.bias.defined()) scores = scores + queries.matmul(transposed(bias_by_slot(keys)));
    if (keys.scale != 1) scores = scores * keys.scale;
    const auto weights = masked_softmax(scores, visible);  // [B, H, M, R]
    if (context.maps) (*context.maps)[weighing.path] = asked(weights).detach();
    reading = dropped(weights);
    of_values = divided(reading, values);
  }
  auto y = product(of_values.to(type), weights_by_head(values), values.rows.to(type),
                   values.log_keep, Fading::rows, value_sums);
  if (values.bias.defined()) y = y + reading.to(type).matmul(bias_by_slot(values));
  return {asked(y), transposed(key_sums), value_sums};
}

Tensor running_sums(const Tensor& weights) {
  constexpr int64_t kChannels = 8;  // as few as kernels take
  const auto part = at::full({1, 1, 1, kChannels}, 1.0 / kChannels, weights.options());
  const auto every = [&](const Tensor& row) {
    return row.expand({weights.size(0), weights.size(1), weights.size(2), -1});
  };
  const auto x = every(part), y = every(at::ones_like(part));  // products of which are 1
  const FeatureProduct how = {.causal = true};
  if (has_feature_kernel(x, y, weights, how))
    return feature_product_sums(x, y, weights, how).values;
  return weights.to(wide(weights)).cumsum(2);
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
                    .least = writing.least,
                    .sums = state ? state->lane.at(lane) : Tensor(),
                    .scale = writing.scale};
  };
  auto values = rows(heads.v, "slot_values");
  if (writing.again.defined()) values.weights = writing.again;
  const auto read =
      read_slots(heads.q, rows(heads.k, "slot_keys"), values, writing.visible, weighing, context);
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
