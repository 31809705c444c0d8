#include "longbow/ops/orders.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/orders.h"
#include "longbow/ops/cuda/rows.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

bool fits(const Tensor& x, const Tensor& order) {
  const auto type = x.scalar_type();
  return (type == at::kBFloat16 || type == at::kHalf) && x.numel() > 0 && order.numel() > 0 &&
         x.size(-1) % 8 == 0 && x.size(-1) <= 256;
}

// Of orders without gaps.
kernels::TokenOrders orders_of(const Tensor& x, const Tensor& order, const Tensor& inverse,
                               int64_t places) {
  return {.type = element_of(x),
          .batch = order.size(0),
          .heads = order.size(1),
          .orders = order.size(2),
          .tokens = order.size(3),
          .places = places,
          .width = x.size(-1),
          .order = order.const_data_ptr<int64_t>(),
          .inverse = inverse.const_data_ptr<int64_t>()};
}
void* stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}
// A sequence's heads beside each other, as tokens have them.
Tensor empty_heads(const Tensor& like, const Tensor& inverse) {
  return at::empty({inverse.size(0), inverse.size(3), inverse.size(1), like.size(-1)},
                   like.options())
      .transpose(1, 2);
}

Tensor forward(const Tensor& given, const Tensor& given_order, const Tensor& given_inverse,
               int64_t places) {
  if (!fits(given, given_order)) return in_orders_formula(given, given_order, places);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = with_rows(given), order = given_order.contiguous(),
             inverse = given_inverse.contiguous();
  const auto rows =
      at::empty({x.size(0), x.size(1), order.size(2), places, x.size(3)}, x.options());
  kernels::in_orders_cuda(
      {orders_of(x, order, inverse, places), rows_of(x), rows.mutable_data_ptr()}, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return rows;
}

Tensor backward(const Tensor& given, const Tensor& given_order, const Tensor& given_inverse) {
  if (!fits(given, given_order)) return in_orders_formula_backward(given, given_inverse);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto g = dense_rows(given), order = given_order.contiguous(),
             inverse = given_inverse.contiguous(), dx = empty_heads(g, inverse);
  kernels::in_orders_backward_cuda(
      {orders_of(g, order, inverse, g.size(3)), g.const_data_ptr(), results_of(dx), nullptr, {}},
      stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return dx;
}

Two join(const Tensor& given_out, const Tensor& given_log_sum, const Tensor& given_order,
         const Tensor& given_inverse) {
  if (!fits(given_out, given_order) || given_log_sum.scalar_type() != at::kFloat) {
    const auto joined = join_orders_formula({given_out, given_log_sum}, given_inverse);
    return {joined.out, joined.log_sum};
  }
  const c10::cuda::CUDAGuard guard(given_out.device());
  const auto out = dense_rows(given_out), log_sum = given_log_sum.contiguous(),
             order = given_order.contiguous(), inverse = given_inverse.contiguous();
  const auto mean = empty_heads(out, inverse);
  const auto all =
      at::empty({inverse.size(0), inverse.size(1), inverse.size(3), 1}, log_sum.options());
  kernels::join_orders_cuda({orders_of(out, order, inverse, out.size(3)),
                             out.const_data_ptr(),
                             log_sum.const_data_ptr<float>(),
                             results_of(mean),
                             all.mutable_data_ptr<float>(),
                             {}},
                            stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {mean, all};
}

Two join_backward(const Tensor& given_dout, const Tensor& given_dall, const Tensor& given_out,
                  const Tensor& given_log_sum, const Tensor& given_order,
                  const Tensor& given_inverse) {
  if (!fits(given_out, given_order) || given_log_sum.scalar_type() != at::kFloat) {
    const auto found = join_orders_formula_backward(
        {given_dout, given_dall}, {given_out, given_log_sum}, {given_order, given_inverse});
    return {found.out, found.log_sum};
  }
  const c10::cuda::CUDAGuard guard(given_out.device());
  const auto out = dense_rows(given_out), log_sum = given_log_sum.contiguous(),
             order = given_order.contiguous(), inverse = given_inverse.contiguous(),
             dout = with_rows(given_dout), dall = given_dall.contiguous();
  const bool all_written = out.size(3) == inverse.size(3);
  const auto room = [&](const Tensor& x) {
    return all_written ? at::empty_like(x) : at::zeros_like(x);
  };
  const auto dparts = room(out), dlog_sum = room(log_sum);
  kernels::join_orders_backward_cuda(
      {orders_of(out, order, inverse, out.size(3)), out.const_data_ptr(),
       log_sum.const_data_ptr<float>(), rows_of(dout), dall.const_data_ptr<float>(),
       dparts.mutable_data_ptr(), dlog_sum.mutable_data_ptr<float>()},
      stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dparts, dlog_sum};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("in_orders", forward);
  m.impl("in_orders_backward", backward);
  m.impl("join_orders", join);
  m.impl("join_orders_backward", join_backward);
}

}  // namespace
}  // namespace longbow
