#pragma once
// A tile of queries, and the tiles of keys and values that pass by it.
#include <algorithm>
#include <type_traits>

#include "longbow/kernels/cpu/key_tiles.h"
#include "longbow/kernels/cpu/tile_operands.h"
#include "longbow/kernels/cpu/tile_room.h"
#include "longbow/kernels/philox.h"
#include "longbow/kernels/tile_attention.h"

namespace longbow::kernels {

constexpr int64_t kFewQueries = 16;  // of a tile

template <class M, class T, class Row>
using TileOperands =
    std::conditional_t<std::is_same_v<T, Row>, WholeOperands<M, T>, HalfOperands<M>>;

// The factors of weights: 0 where one is dropped, 1 / (1 - rate) where it stays. Those of queries
// that are not there are 0 too: halves are multiplied in pairs.
template <class T, class Row>
void draw_factors(const TileAttention<T, Row>& task, const Sight<T, Row>& sight,
                  const QueryTile& tile, const KeyTile& keys, T* factors) {
  float drawn[kTileSide];
  const int64_t first = keys.place[0], count = keys.place[keys.rows - 1] - first + 1;
  const auto rate = static_cast<float>(task.rate);
  const auto kept = static_cast<T>(1 / (1 - task.rate));
  for (int64_t i = 0; i < tile.rows; ++i) {
    philox_uniform({.key = task.key,
                    .site = task.site,
                    .out = drawn,
                    .first = task.first_weight + sight.weight(i) + first,
                    .count = count});
    for (int64_t j = 0; j < keys.rows; ++j)
      factors[j * kTileSide + i] = drawn[keys.place[j] - first] >= rate ? kept : T(0);
  }
  for (int64_t j = 0; j < keys.rows; ++j)
    std::fill(factors + j * kTileSide + tile.rows, factors + (j + 1) * kTileSide, T(0));
}

// The queries of a tile, scaled, and the tiles that pass by them.
template <class M, class T, class Row>
struct TilePass {
  using Form = TileOperands<M, T, Row>;
  const TileAttention<T, Row>& task;
  const QueryTile& tile;
  const Sight<T, Row> sight;
  const int64_t columns, wide, value_wide;  // queries, E and D in whole vectors
  KeyTile found;
  T *scores, *factors;           // [64, 64]
  Row *key_room, *value_room;    // [64, E], [64, D]
  typename Form::Right queries;  // [E, 64]
  Rows<const Row> keys, values;  // there, or where they stand

  [[gnu::always_inline]] TilePass(const TileAttention<T, Row>& given, const QueryTile& queries_tile,
                                  TileRoom<T>& room)
      : task(given),
        tile(queries_tile),
        sight(given, queries_tile),
        columns(padded<T>(queries_tile.rows)),
        wide(padded<T>(given.width)),
        value_wide(padded<T>(given.value_width)),
        scores(room.take(kTileSide * kTileSide)),
        factors(room.take(kTileSide * kTileSide)),
        key_room(take_rows(room, given.width)),
        value_room(take_rows(room, given.value_width)) {
    auto rows = own_rows(task.q);
    if (!Form::transposes(rows, task.width)) rows = own_copy(task.q, task.width, key_room);
    queries = Form::columns(rows, tile.rows, task.width, task.scale, room.take(wide * kTileSide));
  }
  static int64_t room(const TileAttention<T, Row>& task) {
    return kTileSide * (2 * padded<T>(task.width) + padded<T>(task.value_width) + 2 * kTileSide);
  }

  // Those of the tile of queries, where they stand, and beside each other.
  Rows<const Row> own_rows(const Rows<const Row>& all) const {
    return {all.data + tile.first * all.row, all.row};
  }
  [[gnu::always_inline]] Rows<const Row> own_copy(const Rows<const Row>& all, int64_t width,
                                                  Row* to) const {
    const auto own = [&](int64_t i) __attribute__((always_inline)) {
      return tile.first + i;
    };
    gather_rows(all.data, all.row, tile.rows, width, own, to, padded<Row>(width));
    return {to, padded<Row>(width)};
  }

  template <class Body>
  [[gnu::always_inline]] void each_tile(const Body& body) {
    for (int64_t begin = 0; begin < sight.places(); begin += kTileSide) {
      sight.find(begin, found);
      if (found.rows == 0) continue;
      keys = together(task.k, task.width, key_room);
      values = together(task.v, task.value_width, value_room);
      Form::multiply(Form::left(keys), queries,
                     {.rows = found.rows,
                      .columns = columns,
                      .depth = task.width,
                      .out = scores,
                      .out_row = kTileSide});
      if (Form::kScalesScores && task.scale != 1)
        for (int64_t pair = 0; pair < found.rows * kTileSide; ++pair) scores[pair] *= task.scale;
      sight.apply(found, scores);
      if (task.key) draw_factors(task, sight, tile, found, factors);
      body();
    }
  }
  // The rows of a tile beside each other, where they stand if they do there; for few queries it
  // does not pay to copy rows that stand one behind the other.
  [[gnu::always_inline]] Rows<const Row> together(const Rows<const Row>& rows, int64_t width,
                                                  Row* to) const {
    const Rows<const Row> there = {rows.data + found.token[0] * rows.row, rows.row};
    const bool beside = rows.row == width || tile.rows <= kFewQueries;
    if (beside && found.consecutive && Form::reads(there, width)) return there;
    const auto token = [&](int64_t i) __attribute__((always_inline)) {
      return found.token[i];
    };
    gather_rows(rows.data, rows.row, found.rows, width, token, to, padded<Row>(width));
    return {to, padded<Row>(width)};
  }
  // x_ji *= factor_ji.
  [[gnu::always_inline]] void drop(T* x) const {
    if (!task.key) return;
    for (int64_t j = 0; j < found.rows; ++j)
      for (int64_t i = 0; i < columns; ++i) x[j * kTileSide + i] *= factors[j * kTileSide + i];
  }

  // Memory for rows takes no more than for as many T.
  static Row* take_rows(TileRoom<T>& room, int64_t width) {
    return reinterpret_cast<Row*>(room.take(kTileSide * padded<T>(width)));
  }
};

}  // namespace longbow::kernels
