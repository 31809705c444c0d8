#pragma once
#include <cstdint>

namespace longbow::kernels {

// Numbers [B, H, tokens, width]: rows without gaps that begin at multiples of 16 bytes.
template <class Pointer>
struct StridedRows {
  Pointer data;
  int64_t batch, head, token;  // strides in elements
};
using HeadRows = StridedRows<const void*>;
using HeadResults = StridedRows<void*>;

// The tokens of one head, for kernels on a CPU: rows without gaps, `row` apart.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t row = 0;
};

}  // namespace longbow::kernels
