#include "longbow/ops/delta_products.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

#include "longbow/ops/cuda/delta_passes.h"
#include "longbow/ops/delta_product.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Reads = std::tuple<Tensor, Tensor, std::vector<Tensor>>;
using Eight = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

constexpr size_t kKept = 4;  // of a direction

Reads forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& other_q,
              const Tensor& other_k, const Tensor& other_v, const Tensor& beta,
              const Maybe& log_decay, double scale) {
  const auto decay = log_decay.value_or(Tensor());
  if (!has_delta_kernels({q, k, v}, {other_q, other_k, other_v}, beta, decay)) {
    Tensor sums, others;
    return {delta_product(q, k, v, beta, decay, {.scale = scale}, sums),
            delta_product(other_q, other_k, other_v, beta, decay,
                          {.scale = scale, .reversed = true}, others),
            {}};
  }
  const c10::cuda::CUDAGuard guard(q.device());
  const delta::Directions all = {
      delta::given(q, k, v, beta, decay, /*reversed=*/false, scale),
      delta::given(other_q, other_k, other_v, beta, decay, /*reversed=*/true, scale)};
  delta::invert(all);
  const auto found = delta::read(all, {});
  std::vector<Tensor> kept;
  for (size_t i = 0; i < all.size(); ++i)
    kept.insert(kept.end(), {found[i].written, found[i].before, all[i].inverses, all[i].decays});
  return {found[0].out, found[1].out, kept};
}

Eight backward(const Tensor& dforth, const Tensor& dback, const Tensor& q, const Tensor& k,
               const Tensor& v, const Tensor& other_q, const Tensor& other_k, const Tensor& other_v,
               const Tensor& beta, const Maybe& log_decay, at::TensorList kept, double scale) {
  const c10::cuda::CUDAGuard guard(q.device());
  const auto decay = log_decay.value_or(Tensor());
  const delta::Directions all = {
      delta::given(q, k, v, beta, decay, /*reversed=*/false, scale, kept[2], kept[3]),
      delta::given(other_q, other_k, other_v, beta, decay, /*reversed=*/true, scale,
                   kept[kKept + 2], kept[kKept + 3])};
  std::vector<delta::Reads> reads;
  for (size_t i = 0; i < all.size(); ++i)
    reads.push_back(
        {.out = {}, .written = kept[kKept * i], .before = kept[kKept * i + 1], .last = {}});
  const auto found = delta::gradients(all, reads, {dforth, dback}, {});
  found[0].dbeta.add_(found[1].dbeta);
  if (log_decay) found[0].dlog_decay.add_(found[1].dlog_decay);
  return {found[0].dq, found[0].dk, found[0].dv,    found[1].dq,
          found[1].dk, found[1].dv, found[0].dbeta, found[0].dlog_decay};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("delta_products", forward);
  m.impl("delta_products_backward", backward);
}

}  // namespace
}  // namespace longbow
