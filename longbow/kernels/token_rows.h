#pragma once
// Tokens whose rows may stand apart.
#include <cstdint>

namespace longbow::kernels {

// [B, N, C]: strides in numbers; within a row there are no gaps.
template <class Pointer = void*>
struct TokenRows {
  Pointer data = nullptr;
  int64_t batch = 0, token = 0;
};

}  // namespace longbow::kernels
