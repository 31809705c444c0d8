#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// x / (1 - rate) where philox_uniform(key, site, x.sizes()) is at least rate, and 0 elsewhere. The
// numbers are drawn again in the backward pass, so that nothing is stored; `key` must not have
// changed by then.
at::Tensor philox_dropout(const at::Tensor& x, const at::Tensor& key, uint64_t site, double rate);

}  // namespace longbow
