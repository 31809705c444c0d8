#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// float32 uniforms in [0, 1): a pure function of (seed, step, site, element). key is [2] int64
// (seed, step) on the device where the numbers are wanted, so a captured CUDA graph draws anew when
// the step in it changes.
at::Tensor philox_uniform(const at::Tensor& key, uint64_t site, at::IntArrayRef shape);

}  // namespace longbow
