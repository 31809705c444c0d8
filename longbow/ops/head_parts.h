#pragma once
// Kernels on a CPU that go over the tokens of each head, and tensors [B, H, tokens, width] as they
// read them.
#include <ATen/core/Tensor.h>

#include <functional>
#include <type_traits>

#include "longbow/kernels/head_rows.h"

namespace longbow {

// float64 stays, all else is added up in float32.
at::ScalarType type_of_sums(const at::Tensor& x);
// In that type, with the channels of a token beside each other.
at::Tensor readable_rows(const at::Tensor& x);

// To read from, or with a T that is not const to write to.
template <class T>
T* data_of(const at::Tensor& x) {
  if constexpr (std::is_const_v<T>)
    return x.const_data_ptr<std::remove_const_t<T>>();
  else
    return x.mutable_data_ptr<T>();
}

template <class T>
kernels::Rows<T> rows_of(const at::Tensor& x, int64_t b, int64_t h) {
  return {data_of<T>(x) + b * x.stride(0) + h * x.stride(1), x.stride(2)};
}

// Of [1 or B, 1 or H, ...] without gaps: what belongs to a head; null where undefined.
template <class T>
T* data_of(const at::Tensor& x, int64_t b, int64_t h) {
  if (!x.defined()) return nullptr;
  const int64_t row = x.size(0) == 1 ? 0 : b * x.stride(0);
  return data_of<T>(x) + row + (x.size(1) == 1 ? 0 : h * x.stride(1));
}

// A part of the tiles of a head.
struct HeadPart {
  int64_t batch, head, part, first, last;
};
// Parts of each head that keep all threads busy, where each part needs room of its own.
int64_t parts_of_heads(const at::Tensor& x, int64_t tiles);
// body(part) from several threads, neighbours on one thread as one; `work` is that of a tile.
void each_part(const at::Tensor& x, int64_t parts, int64_t tiles, int64_t work,
               const std::function<void(const HeadPart&)>& body);

}  // namespace longbow
