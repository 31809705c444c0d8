#include "longbow/attention/linformer/window_memory.h"

#include <ATen/ATen.h>

namespace longbow {
namespace {

// The slot of a window that is over, from the sum of its rows. Only those are read, so each holds W
// tokens.
Tensor whole_windows(const LengthProjection& p, const Tensor& sums, at::ScalarType type) {
  const bool mean = p.scale == LengthScale::mass;
  return p.with_bias((mean ? sums / static_cast<double>(p.window()) : sums).to(type), {});
}

Tensor grow_piece(const Heads& heads, const LengthProjection& e, const LengthProjection& f,
                  const Weighing& weighing, State& state, Context& context) {
  auto& lane = state.lane;
  const int64_t w = e.window();
  const auto type = heads.k.scalar_type();
  const auto& keep = context.mask.keep;
  const auto add = [&](const LengthProjection& p, const Tensor& rows, Tensor& sums) {
    sums = grown_slots(p.growth(rows, context.positions, keep, sums, {}, false).sums);
  };
  add(e, heads.k, lane.at("keys"));
  add(f, heads.v, lane.at("values"));

  auto& positions = lane.at("window_positions");
  const auto i = context.positions.unsqueeze(1).unsqueeze(-1);  // [B, 1, T, 1]
  const auto fresh =
      keep.defined() ? i.masked_fill(keep.logical_not().unsqueeze(1).unsqueeze(-1), -1) : i;
  const auto j = at::cat({positions, fresh}, 2).transpose(-2, -1);
  const auto own = i.floor_divide(w);
  const auto inside = (j.floor_divide(w) == own).logical_and(j <= i).logical_and(j >= 0);
  const auto before = at::arange(e.slots, i.options()) < own;
  const auto beside = [&](const LengthProjection& p, const char* name, const Tensor& rows) {
    return at::cat(
        {whole_windows(p, lane.at(name), type), lane.at(std::string("window_") + name), rows}, 2);
  };
  const auto y = softmax_read(heads.q, beside(e, "keys", heads.k), beside(f, "values", heads.v),
                              at::cat({before, inside}, -1), weighing, context);
  const auto slots = i.remainder(w).masked_fill(fresh < 0, w).squeeze(-1).squeeze(1);
  write_slots(lane.at("window_keys"), slots, heads.k);
  write_slots(lane.at("window_values"), slots, heads.v);
  write_slots(positions, slots, fresh);
  return y;
}

}  // namespace

Tensor read_windows(const Heads& heads, const LengthProjection& e, const LengthProjection& f,
                    const Weighing& weighing, Context& context) {
  const int64_t m = heads.k.size(2), w = e.window();
  const auto& keep = context.mask.keep;
  const auto q = in_windows(heads.q, w);  // [B, H, K, W, D]
  const int64_t batch = q.size(0), windows = q.size(2);
  const auto beside = [&](const LengthProjection& p, const Tensor& rows) {
    const auto slots = p.with_bias(p(rows, keep), keep).narrow(2, 0, windows);
    return at::cat({slots.unsqueeze(2).expand({-1, -1, windows, -1, -1}), in_windows(rows, w)}, 3);
  };
  const auto index = at::arange(windows, q.options().dtype(at::kLong));
  auto before = (index < index.unsqueeze(1)).view({1, 1, windows, 1, windows});
  auto inside = at::ones({1, 1, 1, w, w}, q.options().dtype(at::kBool)).tril();
  if (keep.defined()) {
    const auto real = in_windows(keep.unsqueeze(1).unsqueeze(-1), w);  // [B, 1, K, W, 1]
    before = before.logical_and(real.any(3).view({batch, 1, 1, 1, windows}));
    inside = inside.logical_and(real.transpose(-2, -1));
  }
  const auto visible = at::cat(
      {before.expand({batch, 1, windows, w, windows}), inside.expand({batch, 1, windows, w, w})},
      -1);
  return softmax_read(q, beside(e, heads.k), beside(f, heads.v), visible, weighing, context)
      .flatten(2, 3)
      .narrow(2, 0, m);
}

void open_windows(State& state, const Heads& empty, const LengthProjection& e) {
  const auto& like = empty.k;
  const int64_t b = like.size(0), h = like.size(1), d = like.size(3), slots = e.window() + 1;
  for (const auto* name : {"keys", "values"}) {
    state.add(name, {b, h, e.slots, d}, like.options().dtype(wide(like)));
    state.add(std::string("window_") + name, {b, h, slots, d}, like.options());
  }
  state.add("window_positions", {b, 1, slots, 1}, like.options().dtype(at::kLong), -1);
}

// New tokens stand beside the open window while they are read, so one extension takes at most a
// window of them.
Tensor grow_windows(const Heads& heads, const LengthProjection& e, const LengthProjection& f,
                    const Weighing& weighing, State& state, Context& context) {
  return in_pieces(heads, context, e.window(), [&](const Heads& piece, Context& inner) {
    return grow_piece(piece, e, f, weighing, state, inner);
  });
}

}  // namespace longbow
