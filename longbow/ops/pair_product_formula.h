#pragma once
// pair_product and top_keys by ATen alone, with their N x M scores: arguments as the dispatcher
// gives them.
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace longbow {

using Maybe = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// out, and what the device keeps for the backward pass. The weights are relu without `top`.
Two pair_product_by_aten(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const Maybe& keep, bool causal, double scale, const Maybe& top);
// dq, dk, dv.
Three pair_product_backward_by_aten(const at::Tensor& dout, const at::Tensor& q,
                                    const at::Tensor& k, const at::Tensor& v, const Maybe& keep,
                                    bool causal, double scale, const Maybe& top,
                                    const at::Tensor& out, const at::Tensor& kept);
at::Tensor top_keys_by_aten(const at::Tensor& q, const at::Tensor& k, const Maybe& keep,
                            bool causal, const at::Tensor& budget, bool ties);

}  // namespace longbow
