#include "longbow/kernels/slot_softmax.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/head_span.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"
#include "longbow/ops/slot_softmax.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor dense(const Maybe& visible) {
  return visible ? visible->contiguous() : Tensor();
}

// Of rows that have the kernel's form; `out` is set by the caller.
kernels::SlotSoftmax task_of(const Tensor& q, const Tensor& k, const Tensor& v,
                             const Tensor& visible) {
  return {.type = element_of(q),
          .batch = q.size(0),
          .heads = q.size(1),
          .queries = q.size(2),
          .slots = k.size(2),
          .width = q.size(3),
          .value_width = v.size(3),
          .q = rows_of(q),
          .k = rows_of(k),
          .v = rows_of(v),
          .visible = visible.defined() ? visible.const_data_ptr<bool>() : nullptr,
          .span = kernels::head_span(q.size(0) * q.size(1), q.size(2)),
          .out = {}};
}

Tensor forward(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
               const Maybe& given_visible) {
  if (!has_slot_kernel(given_q, given_k, given_v))
    return slot_softmax_formula(given_q, given_k, given_v, given_visible.value_or(Tensor()));
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), v = with_rows(given_v),
             visible = dense(given_visible), out = empty_rows(q, v.size(3));
  auto task = task_of(q, k, v, visible);
  task.out = results_of(out);
  kernels::slot_softmax_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

Three backward(const Tensor& given_dout, const Tensor& given_q, const Tensor& given_k,
               const Tensor& given_v, const Maybe& given_visible) {
  if (!has_slot_kernel(given_q, given_k, given_v)) {
    const auto d = slot_softmax_formula_backward(given_dout, given_q, given_k, given_v,
                                                 given_visible.value_or(Tensor()));
    return {d.q, d.k, d.v};
  }
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), v = with_rows(given_v),
             dout = with_rows(given_dout), visible = dense(given_visible),
             dq = empty_rows(q, q.size(3));
  kernels::SlotSoftmaxBackward task = {.past = task_of(q, k, v, visible),
                                       .dout = rows_of(dout),
                                       .dq = results_of(dq),
                                       .dk = nullptr,
                                       .dv = nullptr};
  const auto parts = [&](const Tensor& x) {
    return at::empty(
        {kernels::spans_of(q.size(2), task.past.span), x.size(0), x.size(1), x.size(2), x.size(3)},
        x.options().dtype(at::kFloat));
  };
  const auto dk = parts(k), dv = parts(v);
  task.dk = dk.mutable_data_ptr<float>();
  task.dv = dv.mutable_data_ptr<float>();
  kernels::slot_softmax_backward_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dq, dk.sum(0).to(k.scalar_type()), dv.sum(0).to(v.scalar_type())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("slot_softmax", forward);
  m.impl("slot_softmax_backward", backward);
}

}  // namespace
}  // namespace longbow
