#include "longbow/nn/softmax/softmax.h"

#include <ATen/ATen.h>

#include <limits>

#include "longbow/nn/softmax/tiles.h"

namespace longbow {

Tensor masked_softmax(const Tensor& scores, const Tensor& visible) {
  const auto s = scores.to(wide(scores));
  if (!visible.defined()) return s.softmax(-1);
  return at::_safe_softmax(
      s.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity()), -1);
}

Tensor softmax_read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible,
                    const Weighing& weighing, Context& context) {
  const auto weights = masked_softmax(q.matmul(k.transpose(-2, -1)), visible);
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

namespace {

Tensor sdpa(const Heads& heads, const std::optional<Tensor>& visible, bool causal, double scale) {
  return at::scaled_dot_product_attention(heads.q, heads.k, heads.v, visible, 0.0, causal, scale);
}

// LibTorch aligns a causal mask at the start; queries added in front turn that into our alignment
// at the end. Real tokens come first in every row, so a causal query that is real never meets a
// padded key of its own row.
Tensor fused_causal(const Heads& heads, double scale) {
  const int64_t queries = heads.q.size(2), keys = heads.k.size(2);
  if (queries == keys) return sdpa(heads, {}, true, scale);
  Heads square = heads;
  if (queries < keys) {
    square.q = at::constant_pad_nd(heads.q, {0, 0, keys - queries, 0});
    return sdpa(square, {}, true, scale).narrow(2, keys - queries, queries);
  }
  square.q = heads.q.narrow(2, queries - keys, keys);
  return at::constant_pad_nd(sdpa(square, {}, true, scale), {0, 0, queries - keys, 0});
}

}  // namespace

Tensor fused_attention(const Heads& heads, const Mask& mask, double scale) {
  const bool itself = heads.x.is_same(heads.source);
  if (mask.causal && (itself || !mask.keep.defined())) return fused_causal(heads, scale);
  if (!mask.keep.defined()) return sdpa(heads, {}, false, scale);
  if (mask.causal)  // the kernels take either rule, or a stored N x M mask
    return tiled_softmax(heads.q.to(wide(heads.q)) * scale, heads.k, heads.v, Seen::by(mask), {},
                         {}, {})
        .to(heads.v.scalar_type());
  // A row without any key is computed on all of them and then set to zero, because the kernels
  // divide by its sum.
  const auto any = mask.keep.any(1, true);
  const auto visible = visible_keys(mask.keep.logical_or(any.logical_not()));
  const auto y = sdpa(heads, visible, false, scale);
  return y * any.view({-1, 1, 1, 1}).to(y.scalar_type());
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
