#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// x b + bias for many rows x [N, K] and a small matrix b, given as it is [K, O] or transposed [O,
// K]; bias [O] or undefined. By kernels on a CPU, without a gradient.
enum class Factor { plain, transposed };
at::Tensor rows_product(const at::Tensor& x, const at::Tensor& b, Factor factor,
                        const at::Tensor& bias = {});

// Whether the kernels take these and are faster than LibTorch: on a CPU in float32, for at least 64
// rows and a whole number of vectors in a result.
bool has_rows_kernel(const at::Tensor& x, const at::Tensor& b, Factor factor);

}  // namespace longbow
