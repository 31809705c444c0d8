#pragma once
// Tokens [B, N, C] whose channels kernels read two at a time.
#include <ATen/core/Tensor.h>

#include "longbow/kernels/token_rows.h"

namespace longbow {

// x itself where pairs of its channels lie at multiples of 4 bytes.
at::Tensor paired(const at::Tensor& x);
kernels::TokenRows<const void*> token_rows_of(const at::Tensor& x);
kernels::TokenRows<void*> token_results_of(const at::Tensor& x);

}  // namespace longbow
