#pragma once
#include <ATen/core/Tensor.h>

#include "longbow/kernels/pack_softmax.h"

namespace longbow {

// Of rows that have the kernel's form, `keep` and log_sum without gaps; room for parts and results
// is set by the caller.
kernels::PackSoftmax pack_task(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& keep, const at::Tensor& log_sum);

// What the queries read [B, H, R, D] in float32; log_sum [B, H, R, 1] is written.
at::Tensor pack_read(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const at::Tensor& keep, const at::Tensor& log_sum);

}  // namespace longbow
