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
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"
#include "longbow/ops/slot_softmax.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor visible(const Maybe& keep) {
  return keep ? keep->unsqueeze(1) : Tensor();
}
Tensor dense(const Maybe& keep) {
  return keep ? keep->contiguous() : Tensor();
}

// Of rows that have the kernel's form; the results are set by the caller.
kernels::PackSoftmax task_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep,
                             const Tensor& log_sum) {
  const int64_t span = kernels::head_span(k.size(0) * k.size(1), k.size(2));
  return {.type = element_of(q),
          .batch = q.size(0),
          .heads = q.size(1),
          .slots = q.size(2),
          .keys = k.size(2),
          .width = q.size(3),
          .value_width = v.size(3),
          .q = rows_of(q),
          .k = rows_of(k),
          .v = rows_of(v),
          .keep = keep.defined() ? keep.const_data_ptr<bool>() : nullptr,
          .span = span,
          .parts = kernels::pack_softmax_parts(q.size(2), kernels::spans_of(k.size(2), span)),
          .means = nullptr,
          .log_sums = nullptr,
          .mean = nullptr,
          .log_sum = log_sum.mutable_data_ptr<float>()};
}

Three forward(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
              const Maybe& given_keep) {
  const auto sums = given_q.options().dtype(at::kFloat);
  if (!has_pack_kernel(given_q, given_k, given_v))
    return {slot_softmax_formula(given_q, given_k, given_v, visible(given_keep)),
            at::empty({0}, sums), at::empty({0}, sums)};
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), v = with_rows(given_v),
             keep = dense(given_keep),
             mean = at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, sums),
             log_sum = at::empty(q.sizes().slice(0, 3), sums);
  auto task = task_of(q, k, v, keep, log_sum);
  const auto means = at::empty({task.parts, q.size(0), q.size(1), q.size(2), v.size(3)}, sums),
             log_sums = at::empty({task.parts, q.size(0), q.size(1), q.size(2)}, sums);
  task.means = means.mutable_data_ptr<float>();
  task.log_sums = log_sums.mutable_data_ptr<float>();
  task.mean = mean.mutable_data_ptr<float>();
  kernels::pack_softmax_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {mean.to(v.scalar_type()), mean, log_sum};
}

Three backward(const Tensor& given_dout, const Tensor& given_q, const Tensor& given_k,
               const Tensor& given_v, const Maybe& given_keep, const Tensor& mean,
               const Tensor& log_sum) {
  if (!has_pack_kernel(given_q, given_k, given_v)) {
    const auto d =
        slot_softmax_formula_backward(given_dout, given_q, given_k, given_v, visible(given_keep));
    return {d.q, d.k, d.v};
  }
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), v = with_rows(given_v),
             dout = with_rows(given_dout), keep = dense(given_keep), sums = log_sum.contiguous(),
             dk = empty_rows(k, k.size(3)), dv = empty_rows(v, v.size(3));
  const auto delta = (dout * mean).sum(-1).contiguous();
  auto task = task_of(q, k, v, keep, sums);
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
