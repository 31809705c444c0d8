#pragma once
#include <cstdint>

#include "longbow/kernels/cpu/machine.h"

namespace longbow::kernels {

// out = a b, or out += a b, for operands that fit into a cache. a may lie in any order, so that a
// transposed one costs nothing; the columns of b and out are filled up to padded<T>(columns).
template <class T>
struct TileProduct {
  int64_t rows, columns, depth;
  const T* a;
  int64_t a_row, a_step;  // a_il = a[i a_row + l a_step]
  const T* b;
  int64_t b_row;
  T* out;
  int64_t out_row;
  bool add = false;
};

template <class M, class T>
void tile_product(const TileProduct<T>& task);

}  // namespace longbow::kernels
