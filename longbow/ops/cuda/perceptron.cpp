#include "longbow/ops/perceptron.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/kernels/perceptron.h"
#include "longbow/ops/cuda/mixture_sums.h"
#include "longbow/ops/cuda/rows.h"
#include "longbow/ops/philox_task.h"
#include "longbow/ops/row_sum.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

// Rows of tokens without gaps.
template <class Pointer>
kernels::StridedRows<Pointer> token_rows_at(Pointer data, int64_t width) {
  return {data, 0, 0, width};
}

// The tensors that a task points to. Kernels do not divide by what dropout leaves: the values do.
struct Given {
  PerceptronLayer layer;
  double kept;
  Tensor x, up, up_bias, down_bias, values;

  Given(const Tensor& tokens, const PerceptronLayer& given)
      : layer(given),
        kept(1 / (1 - given.drop.rate)),
        x(dense_rows(tokens)),
        up(dense_rows(given.up)),
        up_bias(given.up_bias.contiguous()),
        down_bias(given.down_bias.contiguous()),
        values(dense_rows(given.down.t()) * kept) {
    if (given.drop.rate > 0) check_key(given.drop.key, "perceptron");
  }

  kernels::SlotMixture task() const {
    const int64_t units = up.size(0), width = up.size(1), tokens = x.numel() / width,
                  group = kernels::perceptron_group(units);
    const auto& drop = layer.drop;
    return {.batch = 1,
            .lanes = 1,
            .heads = units / group,
            .tokens = tokens,
            .slots = group,
            .width = width,
            .value_width = values.size(1),
            .x = token_rows_at(x.const_data_ptr(), width),
            .keys = up.const_data_ptr<float>(),
            .values = values.const_data_ptr<float>(),
            .bias = up_bias.const_data_ptr<float>(),
            .offset = down_bias.const_data_ptr<float>(),
            .key = drop.rate > 0 ? drop.key.const_data_ptr<int64_t>() : nullptr,
            .site = drop.site,
            .rate = drop.rate,
            .span = kernels::mixture_span(1, tokens),
            .out = {},
            .log_sum = nullptr};
  }
};

Tensor forward(const Tensor& x, at::TensorList weights, const Maybe& key, int64_t site, double rate,
               int64_t curve) {
  const auto layer = perceptron_layer(weights, key, site, rate, curve);
  if (!has_perceptron_kernel(x, layer)) return perceptron_formula(x, layer);
  const c10::cuda::CUDAGuard guard(x.device());
  const Given given(x, layer);
  auto sizes = x.sizes().vec();
  sizes.back() = layer.down.size(0);
  const auto y = at::empty(sizes, x.options());
  auto task = given.task();
  task.out = token_rows_at(y.mutable_data_ptr(), y.size(-1));
  kernels::perceptron_cuda(layer.curve, task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

FeedForwardGradients backward(const Tensor& gradient, const Tensor& x, at::TensorList weights,
                              const Maybe& key, int64_t site, double rate, int64_t curve) {
  const c10::cuda::CUDAGuard guard(x.device());
  const Given given(x, perceptron_layer(weights, key, site, rate, curve));
  const auto dy = dense_rows(gradient), dx = at::empty(x.sizes(), x.options());
  kernels::SlotMixtureBackward task = {.past = given.task(),
                                       .dout = token_rows_at(dy.const_data_ptr(), dy.size(-1)),
                                       .dx = token_rows_at(dx.mutable_data_ptr(), dx.size(-1)),
                                       .sums = nullptr,
                                       .stride = 0};
  const auto sums = mixture_sums(task, x, [&](void* stream) {
    kernels::perceptron_backward_cuda(given.layer.curve, task, stream);
  });
  return {dx,
          {sums.keys.view(given.up.sizes()), sums.bias,
           sums.values.view(given.values.sizes()).t() * given.kept, row_sum(dy)}};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("perceptron", forward);
  m.impl("perceptron_backward", backward);
}

}  // namespace
}  // namespace longbow
