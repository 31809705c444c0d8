#pragma once
// Products of tiles of bfloat16 numbers, on machines that have instructions for them. These add up
// products of pairs, so that what is multiplied lies in words of two numbers that follow each other
// along the depth: a left operand [rows, depth / 2] has neighbours of a row in a word, a right one
// [depth / 2, columns] neighbours of a column.
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

// AVX-512 with its extension for bfloat16, unless ATEN_CPU_CAPABILITY asks for less.
bool has_half_products();

// out = a b, or out += a b, with sums in float32. The columns of b and out are filled up to whole
// vectors of 16.
struct HalfProduct {
  int64_t rows, columns, depth;  // depth in words
  const void* a;
  int64_t a_row, a_step;  // a_il = a[i a_row + l a_step], in words
  const void* b;
  int64_t b_row;
  float* out;
  int64_t out_row;
  bool add = false;
};
void half_product(const HalfProduct& task);

// What follows makes operands. Behind the last number there are zeros.

// Right, [count / 2, columns]: of `count` rows of `width` numbers, which are the depth.
void pair_rows(const Bfloat16* rows, int64_t row, int64_t count, int64_t width, void* to,
               int64_t columns);
// Right, [width / 2, columns]: of the same rows transposed; rows end in whole words.
void pair_columns(const Bfloat16* rows, int64_t row, int64_t count, int64_t width, void* to,
                  int64_t columns);
// Left, [rows, columns / 2]: of float32 numbers in rows of `columns`, whole vectors of 32.
void halve_rows(const float* from, int64_t rows, int64_t columns, void* to);
// Left, [columns, rows / 2] with a_row = 1 and a_step = columns: of the same transposed.
void halve_columns(const float* from, int64_t rows, int64_t columns, void* to);

}  // namespace longbow::kernels
