#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>

#include "longbow/kernels/cpu/machine.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

// Memory of a call, handed out in pieces that begin where a cache line does.
template <class T>
class TileRoom {
 public:
  explicit TileRoom(int64_t count)
      : memory_(std::make_unique_for_overwrite<T[]>(static_cast<size_t>(count + kLine))) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    next_ = first_ = memory_.get() + (64 - address % 64) % 64 / sizeof(T);
  }
  TileRoom(const TileRoom&) = delete;
  TileRoom& operator=(const TileRoom&) = delete;
  void clear() { next_ = first_; }
  T* take(int64_t count) {
    T* const piece = next_;
    next_ += padded<T>(count);
    return piece;
  }

 private:
  static constexpr int64_t kLine = 64 / sizeof(T);
  std::unique_ptr<T[]> memory_;
  T *first_, *next_;
};

// rows [count, width], of row numbers that `token` gives, beside each other; filled up with zeros
// to `stride` columns.
template <class T, class Token>
[[gnu::always_inline]] inline void gather_rows(const T* from, int64_t from_row, int64_t count,
                                               int64_t width, const Token& token, T* to,
                                               int64_t stride) {
  for (int64_t i = 0; i < count; ++i) {
    const T* const row = from + token(i) * from_row;
    T* const copy = to + i * stride;
    for (int64_t c = 0; c < width; ++c) copy[c] = row[c];
    for (int64_t c = width; c < stride; ++c) copy[c] = {};
  }
}

// Tokens begin … begin + count - 1, zeros beyond the ends, in whole vectors.
template <class T>
[[gnu::always_inline]] inline void gather_window(const Rows<const T>& x, int64_t tokens,
                                                 int64_t width, int64_t begin, int64_t count,
                                                 T* to) {
  const int64_t wide = padded<T>(width);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t token = begin + i;
    const bool there = token >= 0 && token < tokens;
    T* const row = to + i * wide;
    if (there) std::copy(x.data + token * x.row, x.data + token * x.row + width, row);
    std::fill(row + (there ? width : 0), row + wide, T(0));
  }
}

}  // namespace longbow::kernels
