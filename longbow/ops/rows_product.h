#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace longbow {

// x b + bias for rows x [N, K] and a small matrix b, given as it is [K, O] or transposed [O,
// K]; bias [O] or undefined. By kernels on a CPU, without a gradient. The columns of x may be given
// in parts that lie apart.
enum class Factor { plain, transposed };
at::Tensor rows_product(at::TensorList x, const at::Tensor& b, Factor factor,
                        const at::Tensor& bias = {});

// a^T b over many rows a [N, O], b [N, K], and the sums of the columns of a: [O, K], [O]. The
// columns of a may be given in parts, too.
std::tuple<at::Tensor, at::Tensor> columns_product(at::TensorList a, const at::Tensor& b);
bool has_columns_kernel(at::TensorList a, const at::Tensor& b);

// Whether the kernels take these and are faster than LibTorch: on a CPU in float32, for at least 64
// rows and a whole number of vectors in a result, or for at most 16 rows and a matrix of 4,096
// numbers or more that lies transposed.
bool has_rows_kernel(at::TensorList x, const at::Tensor& b, Factor factor);

}  // namespace longbow
