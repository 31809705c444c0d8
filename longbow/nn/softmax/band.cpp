#include "longbow/nn/softmax/band.h"

#include <ATen/ATen.h>

namespace longbow {
namespace {

constexpr int64_t kLeastTile = 32;

// [B, T] -> [B, 1, T, 1].
Tensor by_token(const Tensor& x) {
  return x.unsqueeze(1).unsqueeze(-1);
}

}  // namespace

Reach within(int64_t back, int64_t ahead) {
  return
      [=](const Tensor& i, const Tensor& j) { return (i - j <= back).logical_and(j - i <= ahead); };
}

Band Band::behind(int64_t tokens, int64_t back) {
  return {.tokens = tokens,
          .tile = std::min(std::max(back, kLeastTile), tokens),
          .back = back,
          .ahead = 0};
}

Band Band::around(int64_t tokens, int64_t back, int64_t ahead) {
  const int64_t tile = std::min(std::max({back, ahead, kLeastTile}), tokens);
  return {.tokens = tokens,
          .tile = std::max<int64_t>(tile, 1),
          .back = std::min(back, tokens),
          .ahead = std::min(ahead, tokens)};
}

Tensor Band::queries(const Tensor& x) const {
  const int64_t missing = tiles() * tile - tokens;
  return at::constant_pad_nd(x, {0, 0, 0, missing}).unflatten(2, {tiles(), tile});
}

Tensor Band::keys(const Tensor& x) const {
  return windows(at::constant_pad_nd(x, {0, 0, back, ahead}));
}

Tensor Band::windows(const Tensor& x) const {
  const int64_t missing = tiles() * tile - tokens;
  return at::constant_pad_nd(x, {0, 0, 0, missing})
      .unfold(2, back + tile + ahead, tile)
      .transpose(-2, -1);
}

Tensor Band::together(const Tensor& x) const {
  return x.flatten(2, 3).narrow(2, 0, tokens);
}

Tensor Band::query_positions(const Tensor& first) const {
  const auto tiled = at::arange(tiles() * tile, first.options()).view({1, 1, tiles(), tile, 1});
  return tiled + first.view({-1, 1, 1, 1, 1});
}

Tensor Band::key_positions(const Tensor& first) const {
  const auto starts = at::arange(tiles(), first.options()).mul(tile).view({1, 1, -1, 1, 1});
  return starts + at::arange(-back, tile + ahead, first.options()) + first.view({-1, 1, 1, 1, 1});
}

Tensor Band::visible(const Reach& reach, const Tensor& keep, at::Device device) const {
  const auto options = at::TensorOptions(at::kLong).device(device);
  const auto start = at::zeros({1}, options);
  const auto i = query_positions(start), j = key_positions(start);
  const auto real = keep.defined() ? keep : at::ones({1, tokens}, options.dtype(at::kBool));
  return reach(i, j).logical_and(keys(by_token(real)).transpose(-2, -1));
}

void open_ring(State& state, const Heads& empty, int64_t size) {
  const auto& like = empty.k;
  const int64_t b = like.size(0), h = like.size(1), slots = size + 1;
  state.add("keys", {b, h, slots, like.size(3)}, like.options());
  state.add("values", {b, h, slots, empty.v.size(3)}, empty.v.options());
  state.add("positions", {b, 1, slots, 1}, like.options().dtype(at::kLong), -1);
}

int64_t ring_size(const State& state) {
  return state.lane.at("keys").size(2) - 1;
}

// New keys stand beside the ring while they are read, and enter it afterwards.
Recent pass_ring(const Heads& heads, State& state, const Reach& reach, const Context& context) {
  auto &keys = state.lane.at("keys"), &values = state.lane.at("values"),
       &positions = state.lane.at("positions");
  const int64_t size = ring_size(state);
  const auto fresh = slots_of(heads, context, -1);  // [B, T], -1: padded
  const auto i = by_token(context.positions);
  const auto j = at::cat({positions, by_token(fresh)}, 2).transpose(-2, -1);
  const Recent recent = {.k = at::cat({keys, heads.k}, 2),
                         .v = at::cat({values, heads.v}, 2),
                         .places = j,
                         .visible = reach(i, j).logical_and(j >= 0).logical_and(j <= i)};
  const auto slots = fresh.remainder(size).masked_fill(fresh < 0, size);
  write_slots(keys, slots, heads.k);
  write_slots(values, slots, heads.v);
  write_slots(positions, slots, by_token(fresh));
  return recent;
}

Tensor grow_ring(const Heads& heads, State& state, const Reach& reach, const Weighing& weighing,
                 Context& context) {
  return in_pieces(heads, context, ring_size(state), [&](const Heads& piece, Context& inner) {
    const auto recent = pass_ring(piece, state, reach, inner);
    return softmax_read(piece.q, recent.k, recent.v, recent.visible, weighing, inner);
  });
}

}  // namespace longbow
