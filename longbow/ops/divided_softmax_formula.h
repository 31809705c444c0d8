#pragma once
// What the registrations of divided_softmax share.
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace longbow {

using MaybeDivisor = std::optional<at::Tensor>;

at::Tensor divided_softmax_by_aten(const at::Tensor& scores, const MaybeDivisor& divisor,
                                   double least, double scale);
// The gradients of scores and divisor; the second is empty unless it is `wanted`.
std::tuple<at::Tensor, at::Tensor> divided_softmax_backward_by_aten(const at::Tensor& gradient,
                                                                    const at::Tensor& scores,
                                                                    const MaybeDivisor& divisor,
                                                                    double least, double scale,
                                                                    bool wanted);

}  // namespace longbow
