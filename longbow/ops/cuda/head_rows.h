#pragma once
// What kernels over rows of heads ask of their tensors [B, H, tokens, width].
#include <ATen/core/Tensor.h>

#include "longbow/kernels/head_rows.h"

namespace longbow {

// As it is where rows can be read 16 bytes at a time, otherwise a copy.
at::Tensor with_rows(const at::Tensor& x);
// [B, H, tokens, width] that lies in memory as [B, tokens, H, width]: the heads of a token beside
// each other, as the projections before and after have them.
at::Tensor empty_rows(const at::Tensor& like, int64_t width);
kernels::HeadRows rows_of(const at::Tensor& x);
kernels::HeadResults results_of(const at::Tensor& x);

}  // namespace longbow
