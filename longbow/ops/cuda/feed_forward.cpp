#include "longbow/ops/feed_forward.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

// The tensors that a task points to.
struct Given {
  Tensor x;
  FeedForwardLayer layer;

  Given(const Tensor& tokens, FeedForwardLayer given)
      : x(dense_rows(tokens)), layer(std::move(given)) {
    for (auto* weight : {&layer.norm_weight, &layer.norm_bias, &layer.up, &layer.up_bias,
                         &layer.down, &layer.down_bias})
      *weight = dense_rows(*weight);
  }
  kernels::FeedForward task() const {
    const auto& drop = layer.drop;
    return {.type = element_of(x),
            .curve = layer.curve,
            .x = x.const_data_ptr(),
            .norm_weight = layer.norm_weight.const_data_ptr(),
            .norm_bias = layer.norm_bias.const_data_ptr(),
            .up = layer.up.const_data_ptr(),
            .up_bias = layer.up_bias.const_data_ptr(),
            .down = layer.down.const_data_ptr(),
            .down_bias = layer.down_bias.const_data_ptr(),
            .y = nullptr,
            .tokens = x.numel() / x.size(-1),
            .width = x.size(-1),
            .units = layer.up.size(0),
            .epsilon = static_cast<float>(layer.epsilon),
            .key = drop.rate > 0 ? drop.key.const_data_ptr<int64_t>() : nullptr,
            .site = drop.site,
            .rate = static_cast<float>(drop.rate),
            .kept = static_cast<float>(1 / (1 - drop.rate))};
  }
};

Tensor forward(const Tensor& x, at::TensorList weights, const Maybe& key, int64_t site, double rate,
               double epsilon, int64_t curve) {
  const auto layer = feed_forward_layer(weights, key, site, rate, epsilon, curve);
  if (!has_feed_forward_kernel(x, layer)) return feed_forward_formula(x, layer);
  const c10::cuda::CUDAGuard guard(x.device());
  const Given given(x, layer);
  const auto y = at::empty(x.sizes(), x.options());
  auto task = given.task();
  task.y = y.mutable_data_ptr();
  kernels::feed_forward_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

FeedForwardGradients backward(const Tensor& gradient, const Tensor& x, at::TensorList weights,
                              const Maybe& key, int64_t site, double rate, double epsilon,
                              int64_t curve) {
  const c10::cuda::CUDAGuard guard(x.device());
  const Given given(x, feed_forward_layer(weights, key, site, rate, epsilon, curve));
  const auto task = given.task();
  const auto dy = dense_rows(gradient), dx = at::empty(x.sizes(), x.options()),
             dz = task.key ? at::empty(x.sizes(), x.options()) : dy;
  const int64_t parts = kernels::feed_forward_parts(task.tokens, task.width, task.units);
  const auto sums = at::empty({parts, kernels::feed_forward_sums(task.width, task.units)},
                              x.options().dtype(at::kFloat));
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  kernels::feed_forward_backward_cuda({.past = task,
                                       .dy = dy.const_data_ptr(),
                                       .dz = dz.mutable_data_ptr(),
                                       .dx = dx.mutable_data_ptr(),
                                       .sums = sums.mutable_data_ptr<float>(),
                                       .parts = parts},
                                      stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto sum = at::empty({sums.size(1)}, sums.options());
  std::vector<Tensor> all;
  for (const auto& weight : weights) all.push_back(at::empty(weight.sizes(), weight.options()));
  kernels::feed_forward_weights_cuda({.past = task,
                                      .sums = sums.const_data_ptr<float>(),
                                      .sum = sum.mutable_data_ptr<float>(),
                                      .parts = parts,
                                      .dnorm_weight = all[0].mutable_data_ptr(),
                                      .dnorm_bias = all[1].mutable_data_ptr(),
                                      .dup = all[2].mutable_data_ptr(),
                                      .dup_bias = all[3].mutable_data_ptr(),
                                      .ddown = all[4].mutable_data_ptr(),
                                      .ddown_bias = all[5].mutable_data_ptr()},
                                     stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dx, all};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("feed_forward", forward);
  m.impl("feed_forward_backward", backward);
}

}  // namespace
}  // namespace longbow
