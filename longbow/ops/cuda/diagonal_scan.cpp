#include "longbow/ops/diagonal_scan.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/diagonal_scan.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

bool fits(const Tensor& b) {
  return b.scalar_type() == at::kComplexFloat && b.numel() > 0;
}

Tensor pairs(const Tensor& x) {
  return at::view_as_real(x.resolve_conj().contiguous());
}

// The states; and where `others` are given, sums of products [P].
Two scanned(const Tensor& given, const Tensor& given_factors, bool reversed, const Tensor& others) {
  const c10::cuda::CUDAGuard guard(given.device());
  const auto b = pairs(given), factors = pairs(given_factors);
  const int64_t chunks = (b.size(1) + kernels::kScanChunk - 1) / kernels::kScanChunk;
  const auto out = at::empty(given.sizes(), given.options());
  const auto starts = at::empty({b.size(0), chunks, b.size(2), 2}, b.options()),
             products = others.defined() ? at::empty_like(starts) : Tensor();
  kernels::diagonal_scans_cuda(
      {.factors = factors.const_data_ptr<float>(),
       .b = b.const_data_ptr<float>(),
       .out = at::view_as_real(out).mutable_data_ptr<float>(),
       .starts = starts.mutable_data_ptr<float>(),
       .batch = b.size(0),
       .length = b.size(1),
       .modes = b.size(2),
       .reversed = reversed,
       .others = others.defined() ? others.const_data_ptr<float>() : nullptr,
       .products = others.defined() ? products.mutable_data_ptr<float>() : nullptr},
      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  if (!others.defined()) return {out, {}};
  return {out, at::view_as_complex(products.flatten(0, 1).sum(0))};
}

Tensor forward(const Tensor& b, const Tensor& rate, bool reversed) {
  if (!fits(b)) return diagonal_scan_formula(b, rate, reversed);
  return std::get<0>(scanned(b, rate.exp(), reversed, {}));
}

Two gradients(const Tensor& gradient, const Tensor& states, const Tensor& rate, bool reversed) {
  if (!fits(gradient)) return diagonal_scan_gradients_formula(gradient, states, rate, reversed);
  const auto factor = rate.exp().conj().resolve_conj();
  const auto [of_b, products] = scanned(gradient, factor, !reversed, pairs(states));
  return {of_b, products * factor};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("diagonal_scan", forward);
  m.impl("diagonal_scan_gradients", gradients);
}

}  // namespace
}  // namespace longbow
