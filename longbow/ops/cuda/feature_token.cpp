#include "longbow/ops/feature_token.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/feature_token.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor readable(const Tensor& x) {
  return x.stride(3) == 1 || x.size(3) == 1 ? x : x.contiguous();
}
kernels::FeatureToken::Rows rows_of(const Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(1)};
}

Three on_cuda(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
              const Tensor& given_sums, const Maybe& key_peak, const Maybe& peak) {
  const c10::cuda::CUDAGuard guard(given_q.device());
  if (!has_feature_token_kernel(given_q, given_k, given_v, given_sums)) {
    const auto found = feature_token_formula(given_q, given_k, given_v, given_sums,
                                             key_peak.value_or(Tensor()), peak.value_or(Tensor()));
    return {found.out, found.sums, peak ? found.peak : at::empty({0}, given_sums.options())};
  }
  const auto q = readable(given_q), k = readable(given_k), v = readable(given_v),
             sums = given_sums.contiguous(), before = peak ? peak->contiguous() : Tensor();
  const auto out = at::empty({q.size(0), q.size(1), 1, sums.size(3)}, sums.options()),
             after = at::empty(sums.sizes(), sums.options()),
             most = at::empty(peak ? before.sizes() : at::IntArrayRef({0}), sums.options());
  constexpr kernels::FeatureToken::Rows none = {nullptr, 0, 0};
  kernels::feature_token_cuda({.q = rows_of(q),
                               .k = rows_of(k),
                               .v = rows_of(v),
                               .key_peak = peak ? rows_of(*key_peak) : none,
                               .half = v.scalar_type() == at::kBFloat16,
                               .before = sums.const_data_ptr<float>(),
                               .peak = peak ? before.const_data_ptr<float>() : nullptr,
                               .out = out.mutable_data_ptr<float>(),
                               .after = after.mutable_data_ptr<float>(),
                               .most = most.mutable_data_ptr<float>(),
                               .batch = q.size(0),
                               .heads = q.size(1),
                               .features = q.size(3),
                               .width = v.size(3)},
                              c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, after, most};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("feature_token", on_cuda);
}

}  // namespace
}  // namespace longbow
