#include "longbow/nn/softmax/softmax.h"

#include <ATen/ATen.h>

#include <limits>

#include "longbow/core/seed.h"
#include "longbow/ops/block_softmax.h"
#include "longbow/ops/pack_softmax.h"
#include "longbow/ops/slot_mixture.h"
#include "longbow/ops/slot_softmax.h"
#include "longbow/ops/tile_attention.h"

namespace longbow {

Tensor masked_softmax(const Tensor& scores, const Tensor& visible) {
  const auto s = scores.to(wide(scores));
  if (!visible.defined()) return s.softmax(-1);
  return at::_safe_softmax(
      s.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity()), -1);
}

namespace {

// Nobody looks at the weights, and none is dropped.
bool plain(const Weighing& weighing, const Context& context) {
  return !context.maps && !(weighing.training && weighing.dropout > 0);
}

// Whether LibTorch's fused kernels can read this: on a GPU in a half type, when no key is hidden.
bool reads_fused(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
  const auto type = q.scalar_type();
  return q.is_cuda() && (type == at::kBFloat16 || type == at::kHalf) && type == k.scalar_type() &&
         type == v.scalar_type() && q.dim() == 4 &&
         q.sizes().slice(0, 2) == k.sizes().slice(0, 2) &&
         k.sizes().slice(0, 3) == v.sizes().slice(0, 3) && !visible.defined();
}

// Whether all queries of a head see the same of few keys, or few queries the same keys of a
// sequence.
bool reads_slots(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
  return has_slot_kernel(q, k, v) &&
         (!visible.defined() || (visible.dim() == 4 && visible.size(2) == 1));
}
// Whether kernels for float32 read them: where a row of queries has one head of slots.
bool mixes_slots(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
                 bool drops) {
  constexpr int64_t kEnough = 64;  // queries, beside as many slots as are multiplied at once
  return q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(2) >= kEnough &&
         q.sizes().slice(0, 2) == k.sizes().slice(0, 2) &&
         v.sizes().slice(0, 3) == k.sizes().slice(0, 3) && has_mixture_kernel(q, k, v, drops) &&
         (!visible.defined() || (visible.dim() == 4 && visible.size(2) == 1));
}
Tensor mixed_slots(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
                   const Drop& drop) {
  const auto bias = slot_bias(k, {}, visible);
  return slot_mixture(q, k.unsqueeze(2), (v * (1 / (1 - drop.rate))).unsqueeze(2),
                      bias.defined() ? bias.unsqueeze(2) : bias, drop);
}
bool packs(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
  return has_pack_kernel(q, k, v) &&
         (!visible.defined() ||
          (visible.dim() == 4 && visible.size(1) == 1 && visible.size(2) == 1));
}

// Whether kernels on a CPU read this in tiles: which keys are seen is the same for all queries, of
// which there are enough to fill a vector.
bool reads_tiles(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible) {
  return q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && has_tile_kernel(q, k, v) &&
         q.size(2) >= kEnoughQueries && k.numel() > 0 &&
         (!visible.defined() || (visible.dim() == 4 && visible.size(2) == 1));
}

}  // namespace

Tensor slot_bias(const Tensor& slots, const Tensor& bias, const Tensor& visible) {
  if (!visible.defined()) return bias;
  return (bias.defined() ? bias : at::zeros(slots.sizes().slice(0, 3), slots.options()))
      .masked_fill(visible.logical_not().squeeze(2), -std::numeric_limits<double>::infinity());
}

DroppedWeights dropped_weights(const Weighing& weighing, const Context& context) {
  if (!weighing.training || weighing.dropout == 0) return {};
  const auto site = weighing.path + ".dropout";
  TORCH_CHECK(context.random.key.defined(), site,
              ": random numbers wanted, but the context has no random key");
  return {context.random.key, hash_name(site), weighing.dropout};
}

Tensor softmax_read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
                    const Weighing& weighing, Context& context) {
  if (plain(weighing, context) && reads_slots(q, k, v, visible))
    return slot_softmax(q, k, v, visible.defined() ? visible.squeeze(2) : visible);
  if (plain(weighing, context) && packs(q, k, v, visible))
    return pack_softmax(
        q, k, v,
        visible.defined() ? visible.flatten(0, 2).expand({k.size(0), k.size(2)}) : visible);
  if (plain(weighing, context) && reads_fused(q, k, v, visible))
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, false, 1.0);
  const auto drop =
      drop_of(weighing.dropout, weighing.training, context, weighing.path + ".dropout");
  if (!context.maps && mixes_slots(q, k, v, visible, drop.rate > 0))
    return mixed_slots(q, k, v, visible, drop);
  if (!context.maps && reads_tiles(q, k, v, visible))
    return block_softmax(q, k, v, one_block(q.size(2), k.size(2)),
                         {.keep = visible.defined() ? visible.squeeze(2).expand({-1, -1, k.size(2)})
                                                    : visible},
                         {}, dropped_weights(weighing, context))
        .out;
  return softmax_read(q.matmul(k.transpose(-2, -1)), v, visible, weighing, context);
}

Tensor softmax_read(const Tensor& scores, const Tensor& v, const Tensor& visible,
                    const Weighing& weighing, Context& context) {
  const auto weights = masked_softmax(scores, visible);
  if (context.maps) (*context.maps)[weighing.path] = weights.detach();
  return dropout(weights, weighing.dropout, weighing.training, context, weighing.path + ".dropout")
      .to(v.scalar_type())
      .matmul(v);
}

Tensor visible_keys(const Tensor& keep) {
  return keep.defined() ? keep.unsqueeze(1).unsqueeze(1) : keep;
}

Tensor visible_pairs(const Mask& mask, int64_t queries, int64_t keys, at::Device device) {
  Tensor visible;
  if (mask.causal) {
    const auto options = at::TensorOptions(at::kLong).device(device);
    const auto last = at::arange(queries, options).add_(keys - queries).unsqueeze(1);
    visible = (at::arange(keys, options).unsqueeze(0) <= last).unsqueeze(0).unsqueeze(0);
  }
  if (mask.keep.defined()) {
    const auto keep = visible_keys(mask.keep);
    visible = visible.defined() ? visible.logical_and(keep) : keep.expand({-1, 1, queries, keys});
  }
  return visible;
}

void open_cache(State& state, const Heads& empty, int64_t capacity) {
  const auto& like = empty.k;
  const std::vector<int64_t> shape = {like.size(0), like.size(1), capacity + 1, like.size(3)};
  state.add("keys", shape, like.options());
  state.add("values", shape, like.options());
}

Tensor slots_of(const Heads& heads, const Context& context, int64_t elsewhere) {
  const auto& keep = context.mask.keep;
  const auto slots = context.positions.expand({heads.k.size(0), heads.k.size(2)});
  return keep.defined() ? slots.masked_fill(keep.logical_not(), elsewhere) : slots;
}

Tensor in_pieces(const Heads& heads, const Context& context, int64_t most,
                 const std::function<Tensor(const Heads&, Context&)>& body) {
  std::vector<Tensor> outputs;
  for (int64_t first = 0; first < heads.q.size(2); first += most) {
    const int64_t count = std::min(most, heads.q.size(2) - first);
    const auto piece = [&](const Tensor& t, int64_t dim) { return t.narrow(dim, first, count); };
    Context inner = context;
    inner.positions = piece(context.positions, 1);
    if (context.mask.keep.defined()) inner.mask.keep = piece(context.mask.keep, 1);
    outputs.push_back(body({piece(heads.q, 2), piece(heads.k, 2), piece(heads.v, 2),
                            piece(heads.x, 1), piece(heads.source, 1)},
                           inner));
  }
  return at::cat(outputs, 2);
}

void write_slots(Tensor& lane, const Tensor& slots, const Tensor& rows) {
  const auto index = slots.unsqueeze(1).unsqueeze(-1).expand_as(rows);
  if (at::GradMode::is_enabled())
    lane = lane.scatter(2, index, rows.to(lane.scalar_type()));
  else
    lane.scatter_(2, index, rows.to(lane.scalar_type()));
}

Cached grow_cache(const Heads& heads, State& state, const Context& context) {
  auto &keys = state.lane.at("keys"), &values = state.lane.at("values");
  const int64_t capacity = keys.size(2) - 1;
  const auto slots = slots_of(heads, context, capacity);
  write_slots(keys, slots, heads.k);
  write_slots(values, slots, heads.v);
  const auto index = at::arange(capacity + 1, slots.options());
  const auto visible =
      (index <= context.positions.unsqueeze(-1)).logical_and(index < capacity);  // [B, T, slots]
  return {keys, values, visible.unsqueeze(1)};
}

}  // namespace longbow
