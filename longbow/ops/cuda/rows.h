#pragma once
// What ops over short rows ask of their tensors; kernels/rows.h has the kernels.
#include <ATen/core/Tensor.h>

#include "longbow/kernels/channel_rows.h"
#include "longbow/kernels/rows.h"
#include "longbow/ops/element.h"

namespace longbow {

// Whether rows of this type and width have a kernel: x is not empty and of a floating type.
bool has_row_kernel(const at::Tensor& x);
bool is_aligned(const at::Tensor& x);  // at an address that can be read 16 bytes at a time
// Rows without gaps at such an address.
at::Tensor dense_rows(const at::Tensor& x);
// [tokens, W] of x [..., W], whose tokens stand stride(0) apart: x itself where its tokens allow
// it.
at::Tensor token_rows(const at::Tensor& x);
// x [B, N, C] itself where its tokens can be read 16 bytes at a time, otherwise a copy.
at::Tensor readable_tokens(const at::Tensor& x);
kernels::ChannelRows channel_rows(const at::Tensor& x);

}  // namespace longbow
