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

}  // namespace longbow::kernels
