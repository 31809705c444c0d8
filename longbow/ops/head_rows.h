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
// Room for the gradients of q, k and v: where widths are multiples of 8, those of a token lie
// beside each other, as one product that made all three wants them (ops/affine.h).
struct BesideRows {
  at::Tensor q, k, v;
};
BesideRows empty_beside(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);
// As q, k and v lie: beside each other, or each by itself.
BesideRows empty_as(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);
kernels::HeadRows rows_of(const at::Tensor& x);
kernels::HeadResults results_of(const at::Tensor& x);

}  // namespace longbow
