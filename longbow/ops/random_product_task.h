#pragma once
// What the registrations of random_product share: arguments as the dispatcher gives them.
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "longbow/ops/random_product_formula.h"

namespace longbow {

using Maybe = std::optional<at::Tensor>;
using RandomForward = std::tuple<at::Tensor, at::Tensor>;  // out, and what the device keeps
using RandomBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

RandomProduct random_product_of(const at::Tensor& omega, const Maybe& sigma, const Maybe& keep,
                                const Maybe& least, int64_t map, bool causal, double scale);
RandomForward random_product_by_aten(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const at::Tensor& omega, const Maybe& sigma, const Maybe& keep,
                                     const Maybe& least, int64_t map, bool causal, double scale);
// dq, dk, dv, dsigma.
RandomBackward random_product_backward_by_aten(const at::Tensor& g, const at::Tensor& q,
                                               const at::Tensor& k, const at::Tensor& v,
                                               const at::Tensor& omega, const Maybe& sigma,
                                               const Maybe& keep, const Maybe& least,
                                               const at::Tensor& kept, int64_t map, bool causal,
                                               double scale);

}  // namespace longbow
