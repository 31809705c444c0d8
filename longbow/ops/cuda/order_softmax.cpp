#include "longbow/ops/order_softmax.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/orders.h"
#include "longbow/ops/cuda/block_task.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"
#include "longbow/ops/packed_rule.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

bool fits(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& order,
          const BlockRule& rule) {
  constexpr int64_t kMost = int64_t{1} << 30;  // the kernels count in 32 bits
  const int64_t b = order.size(0), heads = order.size(1) * order.size(2), places = order.size(3);
  const auto& [pairs, visibility, dropped, distances, scale] = rule;
  for (const auto& x :
       {pairs.columns, visibility.keep, visibility.query_groups, visibility.key_groups})
    if (x.defined() &&
        ((x.size(0) != 1 && x.size(0) != b) || (x.size(1) != 1 && x.size(1) != heads)))
      return false;
  const auto& columns = pairs.columns;
  return has_order_kernel(q, k, v) && columns.numel() > 0 &&
         columns.size(2) * columns.size(3) < kMost && b * heads * places < kMost &&
         pairs.query_block < kMost && pairs.key_block < kMost;
}

// Everything that the kernels read, without gaps.
struct Given {
  Tensor q, k, v, order, inverse;
  BlockRule rule;

  Given(const Tensor& of_q, const Tensor& of_k, const Tensor& of_v, const Tensor& of_order,
        const Tensor& of_inverse, const BlockRule& of_rule)
      : q(with_rows(of_q)),
        k(with_rows(of_k)),
        v(with_rows(of_v)),
        order(of_order.contiguous()),
        inverse(of_inverse.contiguous()),
        rule(dense(of_rule)) {}

  // Rows of every place, [B, H R, places, width].
  Tensor empty_places(int64_t width) const {
    return at::empty({order.size(0), order.size(1) * order.size(2), order.size(3), width},
                     q.options());
  }
  kernels::BlockSoftmax task() const {
    auto task = block_task(q, k, v, {}, rule);
    task.heads = order.size(1) * order.size(2);
    task.queries = task.keys = order.size(3);
    const int64_t head = order.size(3);
    task.places = {.at = {order.const_data_ptr<int64_t>(), task.heads * head, head},
                   .orders = order.size(2),
                   .tokens = q.size(2)};
    return task;
  }
  kernels::TokenOrders orders(int64_t width) const {
    return {.type = element_of(q),
            .batch = order.size(0),
            .heads = order.size(1),
            .orders = order.size(2),
            .tokens = inverse.size(3),
            .places = order.size(3),
            .width = width,
            .order = order.const_data_ptr<int64_t>(),
            .inverse = inverse.const_data_ptr<int64_t>()};
  }
};

void* stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

Two forward(const Tensor& of_q, const Tensor& of_k, const Tensor& of_v, const Tensor& order,
            const Tensor& inverse, bool itself, const OptionalTensors& tensors,
            at::IntArrayRef numbers, at::ArrayRef<double> factors) {
  const auto rule = unpacked(tensors, numbers, factors);
  if (!fits(of_q, of_k, of_v, order, rule)) {
    const auto read = order_softmax_formula(of_q, of_k, of_v, {order, inverse}, rule, itself);
    return {read.out, read.log_sum};
  }
  const c10::cuda::CUDAGuard guard(of_q.device());
  const Given given(of_q, of_k, of_v, order, inverse, rule);
  const auto& v = given.v;
  const auto parts = given.empty_places(v.size(3)),
             sums = at::empty(parts.sizes().slice(0, 3), v.options().dtype(at::kFloat));
  auto task = given.task();
  task.out = results_of(parts);
  task.log_sum = sums.mutable_data_ptr<float>();
  kernels::block_softmax_cuda(task, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto out = empty_rows(v, v.size(3)),
             log_sum = at::empty({v.size(0), v.size(1), v.size(2), 1}, sums.options());
  kernels::join_orders_cuda(
      {given.orders(v.size(3)), parts.const_data_ptr(), sums.const_data_ptr<float>(),
       results_of(out), log_sum.mutable_data_ptr<float>(),
       itself ? rows_of(v) : kernels::HeadRows{}},
      stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, log_sum};
}

// Gradients of places, which are then summed over the places of a token.
Three backward(const Tensor& of_dout, const Tensor& of_dlog_sum, const Tensor& of_q,
               const Tensor& of_k, const Tensor& of_v, const Tensor& order, const Tensor& inverse,
               const Tensor& of_out, const Tensor& of_log_sum, bool itself,
               const OptionalTensors& tensors, at::IntArrayRef numbers,
               at::ArrayRef<double> factors) {
  const auto rule = unpacked(tensors, numbers, factors);
  if (!fits(of_q, of_k, of_v, order, rule)) {
    const auto d = order_softmax_formula_backward({of_dout, of_dlog_sum}, of_q, of_k, of_v,
                                                  {order, inverse}, rule, itself);
    return {d.q, d.k, d.v};
  }
  const c10::cuda::CUDAGuard guard(of_q.device());
  const Given given(of_q, of_k, of_v, order, inverse, rule);
  const auto out = with_rows(of_out), dout = with_rows(of_dout), log_sum = of_log_sum.contiguous(),
             dlog_sum = of_dlog_sum.contiguous();
  const int64_t block = given.rule.pairs.key_block;
  const auto readers = readers_of(given.rule.pairs.columns, (order.size(3) + block - 1) / block);
  const auto dq_rows = given.empty_places(given.q.size(3)),
             dk_rows = given.empty_places(given.k.size(3)),
             dv_rows = given.empty_places(given.v.size(3)),
             delta = at::empty(dq_rows.sizes().slice(0, 3), log_sum.options());
  kernels::BlockSoftmaxBackward task = {.past = given.task(),
                                        .out = rows_of(out),
                                        .dout = rows_of(dout),
                                        .dlog_sum = dlog_sum.const_data_ptr<float>(),
                                        .delta = delta.mutable_data_ptr<float>(),
                                        .dq = results_of(dq_rows),
                                        .dk = results_of(dk_rows),
                                        .dv = results_of(dv_rows),
                                        .dbias = nullptr,
                                        .dbias_batch = 0,
                                        .dbias_head = 0,
                                        .order = per_head<int64_t>(readers.order),
                                        .first = per_head<int64_t>(readers.first),
                                        .readers = rule.pairs.readers,
                                        .parts = 1,
                                        .dk_parts = nullptr,
                                        .dv_parts = nullptr};
  task.past.log_sum = log_sum.mutable_data_ptr<float>();
  kernels::block_softmax_backward_cuda(task, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto [dq, dk, dv] = empty_as(given.q, given.k, given.v);
  const auto sum = [&](const Tensor& rows, const Tensor& to, bool of_values) {
    const bool adds = itself && of_values;
    kernels::in_orders_backward_cuda(
        {given.orders(to.size(3)), rows.const_data_ptr(), results_of(to),
         adds ? log_sum.const_data_ptr<float>() : nullptr,
         adds ? rows_of(dout) : kernels::HeadRows{}},
        stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  };
  sum(dq_rows, dq, false);
  sum(dk_rows, dk, false);
  sum(dv_rows, dv, true);
  return {dq, dk, dv};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("order_softmax", forward);
  m.impl("order_softmax_backward", backward);
}

}  // namespace
}  // namespace longbow
