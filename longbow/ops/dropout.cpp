#include "longbow/ops/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "longbow/kernels/dropout.h"
#include "longbow/ops/element.h"
#include "longbow/ops/philox.h"
#ifdef LONGBOW_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace longbow {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext, torch::autograd::variable_list;

void on_cpu(const kernels::Dropout& whole, int64_t bytes) {
  constexpr int64_t kGrain = 1 << 14;
  const int64_t pieces = (whole.count + kGrain - 1) / kGrain;
  at::parallel_for(0, pieces, 1, [&](int64_t first, int64_t last) {
    auto part = whole;
    part.first = first * kGrain;
    part.count = std::min(last * kGrain, whole.count) - part.first;
    part.x = static_cast<const char*>(whole.x) + part.first * bytes;
    part.y = static_cast<char*>(whole.y) + part.first * bytes;
    kernels::dropout(part);
  });
}

Tensor dropped(const Tensor& given, const Tensor& key, uint64_t site, double rate) {
  TORCH_CHECK(key.scalar_type() == at::kLong && key.numel() == 2 && key.is_contiguous() &&
                  key.device() == given.device(),
              "philox_dropout: key is ", key.sizes(), " ", key.scalar_type(), " on ", key.device(),
              ", but needs [2] int64 beside x on ", given.device());
  if (given.numel() == 0) return given;
  const bool half = given.scalar_type() == at::kBFloat16 || given.scalar_type() == at::kHalf;
  if (given.is_cpu() && half)
    return dropped(given.to(at::kFloat), key, site, rate).to(given.scalar_type());
  const auto x = given.contiguous();
  auto y = at::empty_like(x);
  const kernels::Dropout task = {.type = element_of(x),
                                 .key = key.const_data_ptr<int64_t>(),
                                 .site = site,
                                 .x = x.const_data_ptr(),
                                 .y = y.mutable_data_ptr(),
                                 .first = 0,
                                 .count = x.numel(),
                                 .rate = rate};
#ifdef LONGBOW_CUDA
  if (x.is_cuda()) {
    const c10::cuda::CUDAGuard guard(x.device());
    kernels::dropout_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
  }
#endif
  TORCH_CHECK(x.is_cpu(), "philox_dropout: no kernel for ", x.device());
  on_cpu(task, x.element_size());
  return y;
}

struct Gradient : torch::autograd::Function<Gradient> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& key, int64_t site,
                        double rate) {
    context->save_for_backward({key});
    context->saved_data["site"] = site;
    context->saved_data["rate"] = rate;
    return dropped(x, key, static_cast<uint64_t>(site), rate);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto site = static_cast<uint64_t>(context->saved_data["site"].toInt());
    const auto rate = context->saved_data["rate"].toDouble();
    return {philox_dropout(gradients[0], context->get_saved_variables()[0], site, rate), Tensor(),
            Tensor(), Tensor()};
  }
};

}  // namespace

Tensor philox_dropout(const Tensor& x, const Tensor& key, uint64_t site, double rate) {
  return Gradient::apply(x, key, static_cast<int64_t>(site), rate);
}

}  // namespace longbow
