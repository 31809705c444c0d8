#pragma once
// A filter over the tokens of one head, on a CPU; ops/head_filter.h defines it.
#include <cstdint>

#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

template <class T>
struct TokenFilter {
  Rows<const T> x;  // [N, D]
  const T* filter;  // [taps], an odd number of them
  int64_t tokens, width, taps;
  Rows<T> out;
};
// dx is written, dfilter added to.
template <class T>
struct TokenFilterBackward {
  TokenFilter<T> past;  // `out` is dx
  Rows<const T> dout;
  T* dfilter;  // [taps]
};

// Tiles `first` … `last` - 1 of filter_tiles.
int64_t filter_tiles(int64_t tokens) noexcept;
template <class T>
void token_filter(const TokenFilter<T>& task, int64_t first, int64_t last) noexcept;
template <class T>
void token_filter_backward(const TokenFilterBackward<T>& task, int64_t first,
                           int64_t last) noexcept;

}  // namespace longbow::kernels
