#include "longbow/ops/slot_mixture.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/ops/cuda/mixture_sums.h"
#include "longbow/ops/cuda/rows.h"
#include "longbow/ops/head_rows.h"
#include "longbow/ops/philox_task.h"
#include "longbow/ops/slot_mixture_formula.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// What the kernels read: copies where the given tensors do not have their form.
struct Rows {
  Tensor x, keys, values, bias;
};
Rows rows_for_kernels(const Tensor& x, const Tensor& keys, const Tensor& values,
                      const MaybeTensor& bias) {
  return {with_rows(x), dense_rows(keys), dense_rows(values), bias ? bias->contiguous() : Tensor()};
}

// The results are set by the caller.
kernels::SlotMixture task_of(const Rows& rows, const Tensor& log_sum, const MaybeTensor& key,
                             int64_t site, double rate) {
  if (key) check_key(*key, "slot_mixture");
  const auto &x = rows.x, &keys = rows.keys;
  return {.batch = x.size(0),
          .lanes = x.size(1),
          .heads = keys.size(2),
          .tokens = x.size(2),
          .slots = keys.size(3),
          .width = x.size(3),
          .value_width = rows.values.size(4),
          .x = rows_of(x),
          .keys = keys.const_data_ptr<float>(),
          .values = rows.values.const_data_ptr<float>(),
          .bias = rows.bias.defined() ? rows.bias.const_data_ptr<float>() : nullptr,
          .offset = nullptr,
          .key = key ? key->const_data_ptr<int64_t>() : nullptr,
          .site = static_cast<uint64_t>(site),
          .rate = rate,
          .span = kernels::mixture_span(x.size(0) * x.size(1), x.size(2)),
          .out = {},
          .log_sum = log_sum.mutable_data_ptr<float>()};
}

Two forward(const Tensor& given_x, const Tensor& given_keys, const Tensor& given_values,
            const MaybeTensor& bias, const MaybeTensor& key, int64_t site, double rate) {
  if (!has_mixture_kernel(given_x, given_keys, given_values, key.has_value()))
    return slot_mixture_by_aten(given_x, given_keys, given_values, bias, key, site, rate);
  const c10::cuda::CUDAGuard guard(given_x.device());
  const auto rows = rows_for_kernels(given_x, given_keys, given_values, bias);
  const auto& x = rows.x;
  const auto log_sum = at::empty({x.size(0), x.size(1), rows.keys.size(2), x.size(2)}, x.options()),
             out = empty_rows(x, rows.values.size(4));
  auto task = task_of(rows, log_sum, key, site, rate);
  task.out = results_of(out);
  kernels::slot_mixture_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, log_sum};
}

Four backward(const Tensor& given_dy, const Tensor& given_x, const Tensor& given_keys,
              const Tensor& given_values, const MaybeTensor& bias, const Tensor& log_sum,
              const MaybeTensor& key, int64_t site, double rate) {
  if (!has_mixture_kernel(given_x, given_keys, given_values, key.has_value()))
    return slot_mixture_backward_by_aten(given_dy, given_x, given_keys, given_values, bias, log_sum,
                                         key, site, rate);
  const c10::cuda::CUDAGuard guard(given_x.device());
  const auto rows = rows_for_kernels(given_x, given_keys, given_values, bias);
  const auto &x = rows.x, &keys = rows.keys, &values = rows.values;
  const auto dy = with_rows(given_dy), dx = empty_rows(x, x.size(3));
  kernels::SlotMixtureBackward task = {.past = task_of(rows, log_sum, key, site, rate),
                                       .dout = rows_of(dy),
                                       .dx = results_of(dx),
                                       .sums = nullptr,
                                       .stride = 0};
  const auto sums = mixture_sums(
      task, x, [&](void* stream) { kernels::slot_mixture_backward_cuda(task, stream); });
  return {dx, sums.keys.view(keys.sizes()), sums.values.view(values.sizes()),
          bias ? sums.bias.view(bias->sizes()) : at::empty({0}, x.options())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("slot_mixture", forward);
  m.impl("slot_mixture_backward", backward);
}

}  // namespace
}  // namespace longbow
