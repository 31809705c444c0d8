#include "longbow/ops/members.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/kernels/members.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;

bool fits(const Tensor& x, const Tensor& token, const Tensor& place) {
  const auto type = x.scalar_type();
  return (type == at::kBFloat16 || type == at::kHalf) && x.numel() > 0 && token.numel() > 0 &&
         place.numel() > 0 && x.size(3) % 8 == 0 && x.size(3) <= 256;
}

// From some rows to others.
using Kernel = void (*)(const kernels::Members&, void*);
Tensor run(Kernel kernel, const Tensor& given, const Tensor& given_token, const Tensor& given_place,
           Divided added, int64_t rows) {
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = with_rows(given), token = given_token.contiguous(),
             place = given_place.contiguous(),
             to = at::empty({x.size(0), rows, x.size(1), x.size(3)}, x.options()).transpose(1, 2);
  kernel({.type = element_of(x),
          .batch = x.size(0),
          .heads = x.size(1),
          .tokens = place.size(3),
          .width = x.size(3),
          .clusters = place.size(2),
          .members = token.size(2) * token.size(3),
          .token = token.const_data_ptr<int64_t>(),
          .place = place.const_data_ptr<int32_t>(),
          .divides = added.has_value(),
          .added = static_cast<float>(added.value_or(0)),
          .from = rows_of(x),
          .to = results_of(to)},
         c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return to;
}

Tensor take(const Tensor& x, const Tensor& token, const Tensor& place, Divided added) {
  if (!fits(x, token, place)) return take_members_formula(x, token, place, added);
  return run(kernels::take_members_cuda, x, token, place, added, token.size(2) * token.size(3));
}
Tensor sum(const Tensor& x, const Tensor& token, const Tensor& place, Divided added) {
  if (!fits(x, token, place)) return sum_members_formula(x, token, place, added);
  return run(kernels::sum_members_cuda, x, token, place, added, place.size(3));
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("take_members", take);
  m.impl("sum_members", sum);
}

}  // namespace
}  // namespace longbow
