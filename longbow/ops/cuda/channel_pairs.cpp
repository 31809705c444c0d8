#include "longbow/ops/cuda/channel_pairs.h"

#include <ATen/ATen.h>

namespace longbow {

using at::Tensor;

Tensor paired(const Tensor& x) {
  const bool fine = x.stride(2) == 1 && x.stride(1) % 2 == 0 && x.stride(0) % 2 == 0 &&
                    reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 4 == 0;
  return fine ? x : x.clone(at::MemoryFormat::Contiguous);
}
kernels::TokenRows<const void*> token_rows_of(const Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(1)};
}
kernels::TokenRows<void*> token_results_of(const Tensor& x) {
  return {x.mutable_data_ptr(), x.stride(0), x.stride(1)};
}

}  // namespace longbow
