#pragma once
#include <cstdint>

namespace longbow::kernels {

// The tokens of one head: rows without gaps, `row` apart.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t row = 0;
};

}  // namespace longbow::kernels
