#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace longbow {

// Tensors [B, H, N, D] that several readers read, as many views of each as it has readers. On a GPU
// in half types their gradients are summed in one pass, and lie beside each other as one projection
// that made all of the tensors wants them (ops/affine.h).
std::vector<std::vector<at::Tensor>> shared_heads(const std::vector<at::Tensor>& tensors,
                                                  at::IntArrayRef readers);

// The sums of the first terms[0] of the parts [B, H, N, D], of the next terms[1], and so on, beside
// each other: [B, N, sum of H D].
at::Tensor sum_heads(const std::vector<at::Tensor>& parts, at::IntArrayRef terms);
at::Tensor sum_heads_formula(at::TensorList parts, at::IntArrayRef terms);

}  // namespace longbow
