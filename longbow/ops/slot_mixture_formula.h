#pragma once
// slot_mixture by ATen alone: arguments as the dispatcher gives them.
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace longbow {

using MaybeTensor = std::optional<at::Tensor>;

// The result and, [B, L, H, N], the logarithms of the sums that its softmaxes divide by.
std::tuple<at::Tensor, at::Tensor> slot_mixture_by_aten(const at::Tensor& x, const at::Tensor& keys,
                                                        const at::Tensor& values,
                                                        const MaybeTensor& bias,
                                                        const MaybeTensor& key, int64_t site,
                                                        double rate);
// dx, dkeys, dvalues and dbias.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> slot_mixture_backward_by_aten(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& keys, const at::Tensor& values,
    const MaybeTensor& bias, const at::Tensor& log_sum, const MaybeTensor& key, int64_t site,
    double rate);

}  // namespace longbow
