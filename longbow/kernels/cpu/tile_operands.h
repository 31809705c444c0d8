#pragma once
// How the operands of products of tiles lie: as numbers, or as pairs of bfloat16 numbers.
#include "longbow/kernels/cpu/half_product.h"
#include "longbow/kernels/cpu/key_tiles.h"
#include "longbow/kernels/cpu/tile_product.h"
#include "longbow/kernels/cpu/transpose.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

template <class T>
struct ProductSum {
  int64_t rows, columns, depth;
  T* out;
  int64_t out_row;
  bool add = false;
};

// Numbers are multiplied as they are. Scores have kTileSide columns, one for each query.
template <class M, class T>
struct WholeOperands {
  using Number = T;
  using Row = T;
  struct Left {
    const T* data;
    int64_t row, step;
  };
  struct Right {
    const T* data;
    int64_t row;
  };
  static constexpr bool kScalesScores = false;  // columns are scaled already

  // Whether rows may stay where they are, as both operands and to be transposed.
  static bool reads(const Rows<const T>&, int64_t width) { return padded<T>(width) == width; }
  static bool transposes(const Rows<const T>&, int64_t) { return true; }
  // Of rows [tokens, channels]: as they are, transposed and scaled; and as a left operand.
  [[gnu::always_inline]] static Right columns(const Rows<const T>& rows, int64_t count,
                                              int64_t width, T factor, T* room) {
    transpose_rows<M, T>(rows.data, rows.row, count, width, factor, room, kTileSide);
    return {room, kTileSide};
  }
  static Right rows(const Rows<const T>& rows, int64_t, int64_t, T*) {
    return {rows.data, rows.row};
  }
  static Left left(const Rows<const T>& rows) { return {rows.data, rows.row, 1}; }
  // Of scores [keys, queries]: as they are, and transposed.
  static Left keys(const T* scores, int64_t, T*) { return {scores, kTileSide, 1}; }
  static Left queries(const T* scores, int64_t, T*) { return {scores, 1, kTileSide}; }
  // Weights that are multiplied are those that are summed up.
  static void round(Vector<M, T>&) {}

  static void multiply(const Left& a, const Right& b, const ProductSum<T>& p) {
    tile_product<M, T>({.rows = p.rows,
                        .columns = p.columns,
                        .depth = p.depth,
                        .a = a.data,
                        .a_row = a.row,
                        .a_step = a.step,
                        .b = b.data,
                        .b_row = b.row,
                        .out = p.out,
                        .out_row = p.out_row,
                        .add = p.add});
  }
};

// The same with operands of bfloat16 and sums of float32.
template <class M>
struct HalfOperands {
  using Number = float;
  using Row = Bfloat16;
  struct Left {
    const void* data;
    int64_t row, step;  // in words, as all that follow
  };
  struct Right {
    const void* data;
    int64_t row;
  };
  static constexpr bool kScalesScores = true;

  static bool reads(const Rows<const Bfloat16>& rows, int64_t width) {
    return width % 2 == 0 && rows.row % 2 == 0 && reinterpret_cast<uintptr_t>(rows.data) % 4 == 0;
  }
  static bool transposes(const Rows<const Bfloat16>& rows, int64_t width) {
    return reads(rows, width);
  }
  static Right columns(const Rows<const Bfloat16>& rows, int64_t count, int64_t width, float,
                       float* room) {
    pair_columns(rows.data, rows.row, count, width, room, kTileSide);
    return {room, kTileSide};
  }
  static Right rows(const Rows<const Bfloat16>& rows, int64_t count, int64_t width, float* room) {
    pair_rows(rows.data, rows.row, count, width, room, padded<float>(width));
    return {room, padded<float>(width)};
  }
  static Left left(const Rows<const Bfloat16>& rows) { return {rows.data, rows.row / 2, 1}; }
  static Left keys(const float* scores, int64_t rows, float* room) {
    halve_rows(scores, rows, kTileSide, room);
    return {room, kTileSide / 2, 1};
  }
  static Left queries(const float* scores, int64_t rows, float* room) {
    halve_columns(scores, rows, kTileSide, room);
    return {room, 1, kTileSide};
  }
  // To the nearest bfloat16; weights are numbers, and never too large for it.
  [[gnu::always_inline]] static void round(Vector<M, float>& weight) {
    using I = typename Lanes<M, float>::I;
    const I bits = __builtin_bit_cast(I, weight);
    const I nearest = (bits + 0x7fff + ((bits >> 16) & 1)) & ~0xffff;
    weight = __builtin_bit_cast(Vector<M, float>, nearest);
  }

  static void multiply(const Left& a, const Right& b, const ProductSum<float>& p) {
    half_product({.rows = p.rows,
                  .columns = p.columns,
                  .depth = (p.depth + 1) / 2,
                  .a = a.data,
                  .a_row = a.row,
                  .a_step = a.step,
                  .b = b.data,
                  .b_row = b.row,
                  .out = p.out,
                  .out_row = p.out_row,
                  .add = p.add});
  }
};

}  // namespace longbow::kernels
