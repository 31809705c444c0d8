#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>
#include <vector>

namespace longbow {

// sum_f w_f x_f: fields x_f [B, H, N, D] of one type, added up with a weight for each channel,
// [F, H, D].
at::Tensor blend(const std::vector<at::Tensor>& fields, const at::Tensor& weights);

// The same in ATen alone, and the gradients of fields and weights.
at::Tensor blend_formula(at::TensorList fields, const at::Tensor& weights);
std::tuple<std::vector<at::Tensor>, at::Tensor> blend_formula_backward(const at::Tensor& dout,
                                                                       at::TensorList fields,
                                                                       const at::Tensor& weights);

}  // namespace longbow
