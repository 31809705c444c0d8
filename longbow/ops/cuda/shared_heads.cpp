#include "longbow/ops/shared_heads.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/kernels/shared_heads.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using kernels::SumHeads;

bool fits(at::TensorList parts, at::IntArrayRef terms) {
  const auto type = parts[0].scalar_type();
  if ((type != at::kBFloat16 && type != at::kHalf) || terms.size() > SumHeads::kMostParts)
    return false;
  for (const int64_t count : terms)
    if (count > SumHeads::kMostTerms) return false;
  for (const auto& x : parts)
    if (x.numel() == 0 || x.size(3) % 8 != 0) return false;
  return true;
}

Tensor on_cuda(at::TensorList parts, at::IntArrayRef terms) {
  if (!fits(parts, terms)) return sum_heads_formula(parts, terms);
  const c10::cuda::CUDAGuard guard(parts[0].device());
  SumHeads task = {.type = element_of(parts[0]),
                   .batch = parts[0].size(0),
                   .tokens = parts[0].size(2),
                   .parts = static_cast<int>(terms.size()),
                   .part = {},
                   .out = nullptr};
  std::vector<Tensor> given;  // what the kernel reads
  int64_t width = 0;
  for (size_t p = 0; p < terms.size(); ++p) {
    const auto& one = parts[given.size()];
    auto& part = task.part[p];
    part = {.heads = one.size(1),
            .width = one.size(3),
            .terms = static_cast<int>(terms[p]),
            .from = {}};
    width += part.heads * part.width;
    for (int t = 0; t < part.terms; ++t) {
      given.push_back(with_rows(parts[given.size()]));
      part.from[t] = rows_of(given.back());
    }
  }
  const auto out = at::empty({task.batch, task.tokens, width}, parts[0].options());
  task.out = out.mutable_data_ptr();
  kernels::sum_heads_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("sum_heads", on_cuda);
}

}  // namespace
}  // namespace longbow
