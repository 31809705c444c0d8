#pragma once
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

// y[i] = x[i] / (1 - rate) where element first + i of philox_uniform(key, site) is at least rate,
// and 0 elsewhere; on a GPU added[i] more.
struct Dropout {
  Element type;  // on a CPU float32 or float64
  const int64_t* key;
  uint64_t site;
  const void* x;
  void* y;
  int64_t first, count;  // first is a multiple of 4
  double rate;
  const void* added = nullptr;
};
void dropout(const Dropout& task) noexcept;
void dropout_cuda(const Dropout& task, void* stream) noexcept;

}  // namespace longbow::kernels
