#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// float32 uniforms in [0, 1): a pure function of (seed, step, site, element). key is [2] int64
// (seed, step) on the device where the numbers are wanted, so a captured CUDA graph draws anew when
// the step in it changes.
at::Tensor philox_uniform(const at::Tensor& key, uint64_t site, at::IntArrayRef shape);

// A part of a larger draw: out [G, R, C] float32 becomes rows row … and columns column … of
// philox_uniform(key, site, {G, rows, columns}).
void philox_window(const at::Tensor& key, uint64_t site, int64_t rows, int64_t columns, int64_t row,
                   int64_t column, at::Tensor& out);

}  // namespace longbow
