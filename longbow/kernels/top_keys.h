#pragma once
// The keys with the largest scores of each query; ops/pair_product.h defines it.
#include "longbow/kernels/pair_product.h"

namespace longbow::kernels {

struct TopKeys {
  PairProduct scores;  // without values and weights
  const int* budget;   // [B, N]: how many keys a query keeps
  bool ties;           // keep all keys that equal the last one
  float *floor, *largest;
  int* last;  // [B, H, N] each
};

void top_keys_cuda(const TopKeys& task, void* stream) noexcept;

}  // namespace longbow::kernels
