// Each element of a is read once for every few vectors of b, and every vector of b once for every
// few rows; the sums stay in registers while the depth runs.
#include "longbow/kernels/cpu/tile_product.h"

#include <algorithm>

namespace longbow::kernels {
namespace {

template <class T>
struct Task {
  TileProduct<T> p;

  template <class M>
  [[gnu::always_inline]] void on() const {
    constexpr int64_t kLane = kLanes<M, T>;
    const int64_t vectors = padded<T>(p.columns) / kLane;
    int64_t c = 0;
    for (; c + M::kVectors <= vectors; c += M::kVectors) all_rows<M, M::kVectors>(c * kLane);
    for (; c < vectors; ++c) all_rows<M, 1>(c * kLane);
  }

 private:
  template <class M, int kColumns>
  [[gnu::always_inline]] void all_rows(int64_t column) const {
    int64_t row = 0;
    for (; row + M::kRows <= p.rows; row += M::kRows) tile<M, M::kRows, kColumns>(row, column);
    if (row < p.rows) last_rows<M, M::kRows - 1, kColumns>(row, column);
  }
  template <class M, int kCount, int kColumns>
  [[gnu::always_inline]] void last_rows(int64_t row, int64_t column) const {
    if constexpr (kCount > 0) {
      if (p.rows - row == kCount)
        tile<M, kCount, kColumns>(row, column);
      else
        last_rows<M, kCount - 1, kColumns>(row, column);
    }
  }

  template <class M, int kRows, int kColumns>
  [[gnu::always_inline]] void tile(int64_t row, int64_t column) const {
    constexpr int64_t kLane = kLanes<M, T>;
    const T *a = p.a + row * p.a_row, *b = p.b + column;
    T* const out = p.out + row * p.out_row + column;
    Vector<M, T> sum[kRows][kColumns] = {};
    for (int64_t l = 0; l < p.depth; ++l, a += p.a_step, b += p.b_row) {
      Vector<M, T> y[kColumns];
      for (int j = 0; j < kColumns; ++j) load(y[j], b + j * kLane);
      for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < kColumns; ++j) sum[i][j] += a[i * p.a_row] * y[j];
    }
    // What is there already is added last: long sums are then sums of shorter ones.
    if (p.add)
      for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < kColumns; ++j) {
          Vector<M, T> before;
          load(before, out + i * p.out_row + j * kLane);
          sum[i][j] += before;
        }
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kColumns; ++j) store(sum[i][j], out + i * p.out_row + j * kLane);
  }
};

}  // namespace

template <class M, class T>
void tile_product(const TileProduct<T>& task) {
  M::run(Task<T>{task});
}

template void tile_product<Portable>(const TileProduct<float>& task);
template void tile_product<Portable>(const TileProduct<double>& task);
#ifdef __x86_64__
template void tile_product<Avx2>(const TileProduct<float>& task);
template void tile_product<Avx2>(const TileProduct<double>& task);
template void tile_product<Avx512>(const TileProduct<float>& task);
template void tile_product<Avx512>(const TileProduct<double>& task);
#endif

}  // namespace longbow::kernels
