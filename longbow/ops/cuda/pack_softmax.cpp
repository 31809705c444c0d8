#include "longbow/ops/pack_softmax.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/head_span.h"
#include "longbow/kernels/pack_softmax.h"
#include "longbow/ops/cuda/pack_task.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor dense(const Maybe& keep) {
  return keep ? keep->contiguous() : Tensor();
}

Three forward(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
              const Maybe& given_keep) {
  const auto sums = given_q.options().dtype(at::kFloat);
  if (!has_pack_kernel(given_q, given_k, given_v)) {
    const auto read =
        pack_softmax_formula(given_q, given_k, given_v, given_keep.value_or(Tensor()));
    return {read.out, at::empty({0}, sums), read.log_sum};
  }
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), v = with_rows(given_v),
             keep = dense(given_keep),
             log_sum = at::empty({q.size(0), q.size(1), q.size(2), 1}, sums),
             mean = pack_read(q, k, v, keep, log_sum);
  return {mean.to(v.scalar_type()), mean, log_sum};
}

Three backward(const Tensor& given_dout, const Tensor& dlog_sum, const Tensor& given_q,
               const Tensor& given_k, const Tensor& given_v, const Maybe& given_keep,
               const Tensor& mean, const Tensor& log_sum) {
  if (!has_pack_kernel(given_q, given_k, given_v)) {
    const auto d = pack_softmax_formula_backward({given_dout, dlog_sum}, given_q, given_k, given_v,
                                                 given_keep.value_or(Tensor()));
    return {d.q, d.k, d.v};
  }
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), v = with_rows(given_v),
             dout = with_rows(given_dout), keep = dense(given_keep), sums = log_sum.contiguous(),
             dk = empty_rows(k, k.size(3)), dv = empty_rows(v, v.size(3));
  const auto delta = ((dout * mean).sum(-1, true) - dlog_sum).contiguous();
  const auto task = pack_task(q, k, v, keep, sums);
  const auto dq = at::empty(
      {kernels::spans_of(k.size(2), task.span), q.size(0), q.size(1), q.size(2), q.size(3)},
      sums.options());
  kernels::pack_softmax_backward_cuda({.past = task,
                                       .dout = rows_of(dout),
                                       .delta = delta.const_data_ptr<float>(),
                                       .dq = dq.mutable_data_ptr<float>(),
                                       .dk = results_of(dk),
                                       .dv = results_of(dv)},
                                      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dq.sum(0).to(q.scalar_type()), dk, dv};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("pack_softmax", forward);
  m.impl("pack_softmax_backward", backward);
}

}  // namespace
}  // namespace longbow
