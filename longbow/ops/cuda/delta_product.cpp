#include "longbow/ops/delta_product.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/delta_product.h"
#include "longbow/ops/cuda/by_head.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Six = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

// [B, H, N, 1], undefined = none.
kernels::TokenNumbers numbers_of(const Tensor& x, bool reversed) {
  if (!x.defined()) return {};
  const auto rows = walked_by_head(x, reversed);
  return {static_cast<float*>(rows.data), rows.batch, rows.head, rows.token};
}

// What both passes are given, and the inverses of the chunks.
struct Given {
  Tensor q, k, v, beta, log_decay, inverses, decays;
  bool reversed;
  float scale;

  Given(const Tensor& queries, const Tensor& keys, const Tensor& values, const Tensor& rates,
        const Maybe& decay, bool from_behind, double factor)
      : q(readable_by_head(queries)),
        k(readable_by_head(keys)),
        v(readable_by_head(values)),
        beta(rates),
        log_decay(decay.value_or(Tensor())),
        reversed(from_behind),
        scale(static_cast<float>(factor)) {
    const int64_t groups = q.size(0) * q.size(1), chunks = heads().chunks();
    inverses = at::empty({groups, chunks, kernels::kDeltaChunk, kernels::kDeltaWidth}, q.options());
    decays = at::empty({groups, chunks, kernels::kDeltaChunk}, beta.options());
    kernels::delta_inverse_cuda(heads(), c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  kernels::ByHead rows(const Tensor& x) const { return walked_by_head(x, reversed); }
  kernels::DeltaHeads heads() const {
    return {.q = rows(q),
            .k = rows(k),
            .beta = numbers_of(beta, reversed),
            .log_decay = numbers_of(log_decay, reversed),
            .scale = scale,
            .batch = q.size(0),
            .heads = q.size(1),
            .tokens = q.size(2),
            .width = q.size(3),
            .depth = v.size(3),
            .inverses = inverses.defined() ? inverses.mutable_data_ptr() : nullptr,
            .decays = decays.defined() ? decays.mutable_data_ptr<float>() : nullptr};
  }
  Tensor empty_sums() const {
    return at::empty(
        {q.size(0) * q.size(1), heads().chunks() + 1, kernels::kDeltaWidth, kernels::kDeltaWidth},
        q.options());
  }
  Tensor empty_last() const {
    return at::empty({q.size(0), q.size(1), q.size(3), v.size(3)}, beta.options());
  }
};

Four forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
             const Maybe& log_decay, const Maybe& sums, bool reversed, double scale) {
  if (!has_delta_kernel(q, k, v, beta, log_decay.value_or(Tensor()))) {
    auto after = sums.value_or(Tensor());
    const auto out = delta_product_formula(q, k, v, beta, log_decay.value_or(Tensor()),
                                           {.scale = scale, .reversed = reversed}, after);
    return {out, after, at::empty({0}, v.options()), at::empty({0}, v.options())};
  }
  const c10::cuda::CUDAGuard guard(q.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const Given given(q, k, v, beta, log_decay, reversed, scale);
  const auto first = sums ? sums->to(at::kFloat).contiguous() : Tensor();
  const auto u = empty_by_head(given.v, v.size(3)), out = empty_by_head(given.v, v.size(3)),
             before = given.empty_sums(), last = given.empty_last();
  kernels::delta_walk_cuda({.heads = given.heads(),
                            .v = given.rows(given.v),
                            .u = given.rows(u),
                            .sums = before.mutable_data_ptr(),
                            .first = first.defined() ? first.const_data_ptr<float>() : nullptr,
                            .last = last.mutable_data_ptr<float>()},
                           stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  kernels::delta_read_cuda({.heads = given.heads(),
                            .u = given.rows(u),
                            .out = given.rows(out),
                            .sums = before.const_data_ptr()},
                           stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, last, u, before};
}

Six backward(const Tensor& given_dout, const Tensor& given_dsums, const Tensor& q, const Tensor& k,
             const Tensor& v, const Tensor& beta, const Maybe& log_decay, const Tensor& u,
             const Tensor& before, bool reversed, double scale) {
  const c10::cuda::CUDAGuard guard(q.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const Given given(q, k, v, beta, log_decay, reversed, scale);
  const auto dout = readable_by_head(given_dout), dafter = given_dsums.to(at::kFloat).contiguous();
  const auto dq = empty_by_head(given.q, q.size(3)), dk = empty_by_head(given.k, k.size(3)),
             dv = empty_by_head(given.v, v.size(3)), dbeta = empty_by_head(beta, 1),
             dlog_decay = log_decay ? empty_by_head(*log_decay, 1) : Tensor(),
             dsums = given.empty_sums(), dlast = given.empty_last();
  kernels::delta_walk_back_cuda({.heads = given.heads(),
                                 .dout = given.rows(dout),
                                 .dv = given.rows(dv),
                                 .dsums = dsums.mutable_data_ptr(),
                                 .first = dafter.const_data_ptr<float>(),
                                 .last = dlast.mutable_data_ptr<float>()},
                                stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  kernels::delta_gradient_cuda({.heads = given.heads(),
                                .v = given.rows(given.v),
                                .u = given.rows(u),
                                .dout = given.rows(dout),
                                .dv = given.rows(dv),
                                .sums = before.const_data_ptr(),
                                .dsums = dsums.const_data_ptr(),
                                .dq = given.rows(dq),
                                .dk = given.rows(dk),
                                .dbeta = numbers_of(dbeta, reversed),
                                .dlog_decay = numbers_of(dlog_decay, reversed)},
                               stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dq, dk, dv, dbeta, dlog_decay, dlast};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("delta_product", forward);
  m.impl("delta_product_backward", backward);
}

}  // namespace
}  // namespace longbow
