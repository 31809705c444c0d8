#include "longbow/attention/image/grid_blocks.h"

#include <ATen/ATen.h>

namespace longbow {

int64_t GridBlocks::reach() const {
  const int64_t above = by_blocks ? (flange_rows + height - 1) / height * height : flange_rows;
  return (above + height) * columns;
}

GridBlocks::Cells GridBlocks::cells(const Tensor& places) const {
  if (!by_blocks) return {places.floor_divide(columns), places.remainder(columns)};
  const auto block = places.floor_divide(height * width), inside = places.remainder(height * width);
  return {block.floor_divide(across()) * height + inside.floor_divide(width),
          block.remainder(across()) * width + inside.remainder(width)};
}

Tensor GridBlocks::places(const Cells& cells) const {
  const auto &row = cells.row, &column = cells.column;
  const auto outside = (row < 0).logical_or(column < 0).logical_or(column >= columns);
  if (!by_blocks) return (row * columns + column).masked_fill(outside, -1);
  const auto block = row.floor_divide(height) * across() + column.floor_divide(width);
  const auto inside = row.remainder(height) * width + column.remainder(width);
  return (block * (height * width) + inside).masked_fill(outside, -1);
}

Tensor GridBlocks::places_around(const Cells& cells, bool causal) const {
  const int64_t wide = width + 2 * flange_columns, tall = height + (causal ? 1 : 2) * flange_rows;
  const auto cell = at::arange(wide * tall, cells.row.options());
  return places({cells.row.floor_divide(height) * height - flange_rows + cell.floor_divide(wide),
                 cells.column.floor_divide(width) * width - flange_columns + cell.remainder(wide)});
}

Tensor GridBlocks::attend(const Heads& heads, const Weighing& weighing, Context& context) const {
  const int64_t n = heads.q.size(2), size = height * width;
  const int64_t rows = by_blocks ? (n + columns * height - 1) / (columns * height) * height
                                 : (n + columns - 1) / columns;
  const int64_t down = (rows + height - 1) / height, blocks = down * across();
  auto tight = *this;  // no more than the other blocks
  tight.flange_rows = std::min(flange_rows, (down - 1) * height);
  tight.flange_columns = std::min(flange_columns, (across() - 1) * width);

  const auto options = heads.q.options().dtype(at::kLong);
  const auto block = at::arange(blocks, options).unsqueeze(1), inside = at::arange(size, options);
  const auto row = block.floor_divide(across()) * height,
             column = block.remainder(across()) * width;  // of the first cell, [blocks, 1]
  const auto own = places({row + inside.floor_divide(width), column + inside.remainder(width)});
  const bool causal = context.mask.causal;
  const auto near = tight.places_around({row, column}, causal);  // [blocks, cells]

  const auto read = [&](const Tensor& x, const Tensor& where) {
    return x.index_select(2, where.clamp(0, n - 1).flatten()).unflatten(2, where.sizes());
  };
  const auto& keep = context.mask.keep;
  auto visible = (near >= 0).logical_and(near < n).view({1, 1, blocks, 1, -1});
  if (keep.defined())
    visible = visible.logical_and(read(keep.unsqueeze(1).unsqueeze(-1), near).transpose(-2, -1));
  if (causal) visible = visible.logical_and(near.unsqueeze(1) <= own.unsqueeze(-1));
  const auto y = softmax_read(read(heads.q, own), read(heads.k, near), read(heads.v, near), visible,
                              weighing, context);  // [B, H, blocks, size, D]

  const auto cell = cells(at::arange(n, options));
  const auto of_block = cell.row.floor_divide(height) * across() + cell.column.floor_divide(width);
  const auto place =
      of_block * size + cell.row.remainder(height) * width + cell.column.remainder(width);
  return y.flatten(2, 3).index_select(2, place);
}

// Slot = place mod slots, and one slot more for padded tokens. A piece of tokens is written before
// it is read, so the ring is longer than what is read by as much.
void GridBlocks::open(State& state, const Heads& empty, int64_t capacity) const {
  const auto& k = empty.k;
  const int64_t slots = std::max<int64_t>(std::min(reach() + columns, capacity), 1);
  for (const auto* name : {"keys", "values"})
    state.add(name, {k.size(0), k.size(1), slots + 1, k.size(3)}, k.options());
}

Tensor GridBlocks::grow(const Heads& heads, State& state, const Weighing& weighing,
                        Context& context) const {
  return in_pieces(heads, context, columns, [&](const Heads& piece, Context& inner) {
    return grow_piece(piece, state, weighing, inner);
  });
}

Tensor GridBlocks::grow_piece(const Heads& heads, State& state, const Weighing& weighing,
                              Context& context) const {
  auto &keys = state.lane.at("keys"), &values = state.lane.at("values");
  const int64_t slots = keys.size(2) - 1;
  const auto place = slots_of(heads, context, -1);
  const auto slot = place.remainder(slots).masked_fill(place < 0, slots);
  write_slots(keys, slot, heads.k);
  write_slots(values, slot, heads.v);
  const auto own = context.positions.expand({heads.q.size(0), heads.q.size(2)}).unsqueeze(-1);
  const auto near = places_around(cells(own), true);  // [B, T, cells]
  const auto visible = (near >= 0).logical_and(near <= own);
  const auto read = [&](const Tensor& lane) {
    const auto where = near.remainder(slots).flatten(1).unsqueeze(1).unsqueeze(-1);
    return lane.gather(2, where.expand({-1, lane.size(1), -1, lane.size(3)}))
        .unflatten(2, {near.size(1), near.size(2)});
  };
  return softmax_read(heads.q.unsqueeze(3), read(keys), read(values),
                      visible.unsqueeze(1).unsqueeze(3), weighing, context)
      .squeeze(3);
}

}  // namespace longbow
