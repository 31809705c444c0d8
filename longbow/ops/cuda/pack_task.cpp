#include "longbow/ops/cuda/pack_task.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "longbow/kernels/head_span.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"

namespace longbow {

using at::Tensor;

kernels::PackSoftmax pack_task(const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& keep, const Tensor& log_sum) {
  // With more than 64 queries two thread blocks fit a multiprocessor, so that a few blocks more
  // than two rounds of those would take three.
  const int64_t busy = q.size(2) > 64 ? 512 : 528;
  const int64_t span = kernels::head_span(k.size(0) * k.size(1), k.size(2), busy);
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

Tensor pack_read(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep,
                 const Tensor& log_sum) {
  auto task = pack_task(q, k, v, keep, log_sum);
  const auto sums = log_sum.options();
  const auto mean = at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, sums),
             means = at::empty({task.parts, q.size(0), q.size(1), q.size(2), v.size(3)}, sums),
             log_sums = at::empty({task.parts, q.size(0), q.size(1), q.size(2)}, sums);
  task.means = means.mutable_data_ptr<float>();
  task.log_sums = log_sums.mutable_data_ptr<float>();
  task.mean = mean.mutable_data_ptr<float>();
  kernels::pack_softmax_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return mean;
}

}  // namespace longbow
