#include "longbow/ops/delta_product.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/ops/cuda/delta_passes.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Six = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Four forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
             const Maybe& log_decay, const Maybe& sums, bool reversed, double scale) {
  const auto decay = log_decay.value_or(Tensor());
  if (!has_delta_kernel(q, k, v, beta, decay)) {
    auto after = sums.value_or(Tensor());
    const auto out =
        delta_product_formula(q, k, v, beta, decay, {.scale = scale, .reversed = reversed}, after);
    return {out, after, at::empty({0}, v.options()), at::empty({0}, v.options())};
  }
  const c10::cuda::CUDAGuard guard(q.device());
  const delta::Directions all = {delta::given(q, k, v, beta, decay, reversed, scale)};
  delta::invert(all);
  const auto found = delta::read(all, sums ? sums->to(at::kFloat).contiguous() : Tensor());
  return {found[0].out, found[0].last, found[0].written, found[0].before};
}

Six backward(const Tensor& dout, const Tensor& dsums, const Tensor& q, const Tensor& k,
             const Tensor& v, const Tensor& beta, const Maybe& log_decay, const Tensor& written,
             const Tensor& before, bool reversed, double scale) {
  const c10::cuda::CUDAGuard guard(q.device());
  const delta::Directions all = {
      delta::given(q, k, v, beta, log_decay.value_or(Tensor()), reversed, scale)};
  delta::invert(all);
  const auto found =
      delta::gradients(all, {{.out = {}, .written = written, .before = before, .last = {}}}, {dout},
                       dsums.to(at::kFloat).contiguous());
  return {found[0].dq,    found[0].dk,         found[0].dv,
          found[0].dbeta, found[0].dlog_decay, found[0].dfirst};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("delta_product", forward);
  m.impl("delta_product_backward", backward);
}

}  // namespace
}  // namespace longbow
