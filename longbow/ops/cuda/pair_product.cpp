#include "longbow/ops/pair_product.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <cmath>
#include <numbers>

#include "longbow/kernels/pair_product.h"
#include "longbow/kernels/top_keys.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"
#include "longbow/ops/pair_product_formula.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor dense(const Maybe& keep) {
  return keep ? keep->contiguous() : Tensor();
}

// Of rows that have the kernel's form.
kernels::PairProduct task_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep,
                             bool causal, double scale) {
  return {.type = element_of(q),
          .weights = kernels::PairWeights::relu,
          .batch = q.size(0),
          .heads = q.size(1),
          .queries = q.size(2),
          .keys = k.size(2),
          .width = q.size(3),
          .value_width = v.size(3),
          .q = rows_of(q),
          .k = rows_of(k),
          .v = rows_of(v),
          .keep = keep.defined() ? keep.const_data_ptr<bool>() : nullptr,
          .causal = causal,
          .scale = static_cast<float>(scale),
          .floor = nullptr,
          .base = nullptr,
          .last = nullptr};
}

// The top keys in the kernel's form, which must outlive the task.
struct Chosen {
  Tensor floor, last, base;

  Chosen(const Tensor& top, const Tensor& given_base)
      : floor(top.select(0, 0).contiguous()),
        last(top.select(0, 1).to(at::kInt).contiguous()),
        base(given_base.contiguous()) {}
  void give(kernels::PairProduct& task) const {
    task.weights = kernels::PairWeights::top;
    task.floor = floor.const_data_ptr<float>();
    task.last = last.const_data_ptr<int>();
    task.base = base.const_data_ptr<float>();
  }
};

// out, and for top keys the logarithms to base 2 of the sums, infinity where there is none.
Two forward(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
            const Maybe& given_keep, bool causal, double scale, const Maybe& top) {
  if (!has_pair_kernel(given_q, given_k, given_v))
    return pair_product_by_aten(given_q, given_k, given_v, given_keep, causal, scale, top);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), v = with_rows(given_v),
             keep = dense(given_keep);
  const auto sums = q.options().dtype(at::kFloat);
  const auto out = at::empty({q.size(0), q.size(2), q.size(1), v.size(3)}, sums).transpose(1, 2);
  kernels::PairProductForward task = {
      .past = task_of(q, k, v, keep, causal, scale), .out = results_of(out), .total = nullptr};
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  if (!top) {
    kernels::pair_product_cuda(task, stream);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {out, at::empty({0}, sums)};
  }
  const auto largest = top->select(0, 2) * (scale * std::numbers::log2e);
  const Chosen chosen(*top, largest.masked_fill(largest.isneginf(), 0));
  const auto total = at::empty(q.sizes().slice(0, 3), sums);
  chosen.give(task.past);
  task.total = total.mutable_data_ptr<float>();
  kernels::pair_product_cuda(task, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto none = total == 0;
  return {out.div_(total.masked_fill(none, 1).unsqueeze(-1)),
          (chosen.base + total.log2()).masked_fill_(none, INFINITY)};
}

Three backward(const Tensor& given_dout, const Tensor& given_q, const Tensor& given_k,
               const Tensor& given_v, const Maybe& given_keep, bool causal, double scale,
               const Maybe& top, const Tensor& out, const Tensor& log_sum) {
  if (!has_pair_kernel(given_q, given_k, given_v))
    return pair_product_backward_by_aten(given_dout, given_q, given_k, given_v, given_keep, causal,
                                         scale, top, out, log_sum);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), v = with_rows(given_v),
             keep = dense(given_keep), dout = with_rows(given_dout.to(q.scalar_type())),
             dq = empty_rows(q, q.size(3)), dk = empty_rows(k, k.size(3)),
             dv = empty_rows(v, v.size(3));
  kernels::PairProductBackward task = {.past = task_of(q, k, v, keep, causal, scale),
                                       .dout = rows_of(dout),
                                       .delta = nullptr,
                                       .dq = results_of(dq),
                                       .dk = results_of(dk),
                                       .dv = results_of(dv)};
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  if (!top) {
    kernels::pair_product_backward_cuda(task, stream);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {dq, dk, dv};
  }
  const Chosen chosen(*top, log_sum);
  const auto delta = (dout * out).sum(-1).contiguous();
  chosen.give(task.past);
  task.delta = delta.const_data_ptr<float>();
  kernels::pair_product_backward_cuda(task, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dq, dk, dv};
}

Tensor choose(const Tensor& given_q, const Tensor& given_k, const Maybe& given_keep, bool causal,
              const Tensor& given_budget, bool ties) {
  if (!has_pair_kernel(given_q, given_k, given_k))
    return top_keys_by_aten(given_q, given_k, given_keep, causal, given_budget, ties);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), keep = dense(given_keep),
             budget = given_budget.contiguous();
  const auto top = at::empty({3, q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat)),
             last = at::empty(q.sizes().slice(0, 3), budget.options());
  kernels::top_keys_cuda({.scores = task_of(q, k, k, keep, causal, 1),
                          .budget = budget.const_data_ptr<int>(),
                          .ties = ties,
                          .floor = top.select(0, 0).mutable_data_ptr<float>(),
                          .largest = top.select(0, 2).mutable_data_ptr<float>(),
                          .last = last.mutable_data_ptr<int>()},
                         c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  top.select(0, 1).copy_(last);
  return top;
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("pair_product", forward);
  m.impl("pair_product_backward", backward);
  m.impl("top_keys", choose);
}

}  // namespace
}  // namespace longbow
