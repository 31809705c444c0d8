#include "longbow/ops/join_softmax.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/join_softmax.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

bool fits(const Tensor& a, const Tensor& log_a, const Tensor& b, const Tensor& log_b) {
  const auto type = a.scalar_type();
  const auto sums_of = [](const Tensor& x, const Tensor& sums) {
    return sums.scalar_type() == at::kFloat && sums.sizes().slice(0, 3) == x.sizes().slice(0, 3);
  };
  return (type == at::kBFloat16 || type == at::kHalf) && b.scalar_type() == type && a.dim() == 4 &&
         a.numel() > 0 && a.size(3) % 8 == 0 && a.size(3) <= 256 && sums_of(a, log_a) &&
         sums_of(b, log_b);
}

// From head to head of sums [B, H, N, 1]; where there is one, from sequence to sequence: strides of
// dimensions of size 1 say nothing.
int64_t head_stride(const Tensor& sums) {
  return sums.stride(sums.size(1) > 1 ? 1 : 0);
}
// Sums as they are where heads stand at one distance, else a copy.
Tensor with_heads(const Tensor& sums) {
  const bool lines = (sums.size(2) == 1 || sums.stride(2) == 1) &&
                     (sums.size(0) == 1 || sums.stride(0) == sums.size(1) * head_stride(sums));
  return lines ? sums : sums.contiguous();
}

// Of rows and sums that have the kernel's form; the results are set by the caller.
kernels::JoinSoftmax task_of(const Tensor& a, const Tensor& log_a, const Tensor& b,
                             const Tensor& log_b, int64_t spread) {
  return {.type = element_of(a),
          .batch = a.size(0),
          .heads = a.size(1),
          .tokens = a.size(2),
          .width = a.size(3),
          .other_tokens = b.size(2),
          .spread = spread,
          .a = rows_of(a),
          .b = rows_of(b),
          .log_a = log_a.const_data_ptr<float>(),
          .log_b = log_b.const_data_ptr<float>(),
          .log_a_stride = head_stride(log_a),
          .log_b_stride = head_stride(log_b),
          .out = {},
          .log_sum = nullptr};
}

Two forward(const Tensor& given_a, const Tensor& given_log_a, const Tensor& given_b,
            const Tensor& given_log_b, int64_t spread) {
  if (!fits(given_a, given_log_a, given_b, given_log_b)) {
    const auto joined =
        join_softmax_formula({given_a, given_log_a}, {given_b, given_log_b}, spread);
    return {joined.out, joined.log_sum};
  }
  const c10::cuda::CUDAGuard guard(given_a.device());
  const auto a = with_rows(given_a), b = with_rows(given_b), log_a = with_heads(given_log_a),
             log_b = with_heads(given_log_b);
  const auto out = empty_rows(a, a.size(3)), log_sum = at::empty(log_a.sizes(), log_a.options());
  auto task = task_of(a, log_a, b, log_b, spread);
  task.out = results_of(out);
  task.log_sum = log_sum.mutable_data_ptr<float>();
  kernels::join_softmax_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, log_sum};
}

Four backward(const Tensor& given_dout, const Tensor& given_dlog_sum, const Tensor& given_a,
              const Tensor& given_log_a, const Tensor& given_b, const Tensor& given_log_b,
              int64_t spread) {
  if (!fits(given_a, given_log_a, given_b, given_log_b)) {
    const auto found = join_softmax_formula_backward(
        {given_dout, given_dlog_sum}, {given_a, given_log_a}, {given_b, given_log_b}, spread);
    return {found.a.out, found.a.log_sum, found.b.out, found.b.log_sum};
  }
  const c10::cuda::CUDAGuard guard(given_a.device());
  const auto a = with_rows(given_a), b = with_rows(given_b), dout = with_rows(given_dout),
             log_a = with_heads(given_log_a), log_b = with_heads(given_log_b),
             dlog_sum = given_dlog_sum.contiguous();
  const auto da = empty_rows(a, a.size(3)), db = empty_rows(b, b.size(3)),
             dlog_a = at::empty(log_a.sizes(), log_a.options()),
             dlog_b = at::empty(log_b.sizes(), log_b.options());
  kernels::join_softmax_backward_cuda({.past = task_of(a, log_a, b, log_b, spread),
                                       .dout = rows_of(dout),
                                       .dlog_sum = dlog_sum.const_data_ptr<float>(),
                                       .da = results_of(da),
                                       .db = results_of(db),
                                       .dlog_a = dlog_a.mutable_data_ptr<float>(),
                                       .dlog_b = dlog_b.mutable_data_ptr<float>()},
                                      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {da, dlog_a, db, dlog_b};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("join_softmax", forward);
  m.impl("join_softmax_backward", backward);
}

}  // namespace
}  // namespace longbow
