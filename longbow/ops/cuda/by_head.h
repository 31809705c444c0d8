#pragma once
// Tensors [B, H, N, width] for kernels that take their strides: heads are split and merged without
// a copy.
#include <ATen/core/Tensor.h>

#include "longbow/kernels/feature_product.h"

namespace longbow {

// x itself, or a copy whose tokens can be read 16 bytes at a time.
at::Tensor readable_by_head(const at::Tensor& x);
// [B, H, N, width] like x, in memory [B, N, H, width], so that heads are merged for nothing.
at::Tensor empty_by_head(const at::Tensor& x, int64_t width);
kernels::ByHead by_head(const at::Tensor& x);
// Its tokens as kernels walk over them: reversed, from the last to the first.
kernels::ByHead walked_by_head(const at::Tensor& x, bool reversed);

}  // namespace longbow
