#include "longbow/ops/random_past.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <cmath>
#include <optional>
#include <tuple>

#include "longbow/kernels/causal_exponential.h"
#include "longbow/ops/cuda/by_head.h"
#include "longbow/ops/cuda/causal_exponential.h"
#include "longbow/ops/random_product.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

bool fits(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega, int64_t behind) {
  return behind < q.size(2) &&
         has_random_kernel(q, k, v, RandomMap::exponential, omega.size(1), true) &&
         kernels::causal_exponential_fits();
}

Three forward(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
              const Tensor& omega, const Maybe& keep, double scale, int64_t behind) {
  const RandomProduct how = {.omega = omega, .scale = scale, .keep = keep.value_or(Tensor())};
  if (!fits(given_q, given_k, given_v, omega, behind)) {
    const auto part = random_past_formula(given_q, given_k, given_v, how, behind);
    return {part.out, part.log_sum, at::empty({0}, given_q.options())};
  }
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = readable_by_head(given_q), k = readable_by_head(given_k),
             v = readable_by_head(given_v);
  const PastRows rows(q, k, v, how, behind);
  const int64_t rest = rows.q.size(2);
  const auto out = empty_by_head(q, v.size(3)),
             logs = at::empty({q.size(0), q.size(1), rest, 1}, q.options().dtype(at::kFloat));
  out.narrow(2, 0, behind).zero_();
  const auto kept =
      causal_exponential(rows.q, rows.k, rows.v, RandomSides(rows.q, rows.v, rows.how),
                         out.narrow(2, behind, rest), logs.mutable_data_ptr<float>());
  return {out, at::constant_pad_nd(logs, {0, 0, behind, 0}, -INFINITY), kept};
}

Three backward(const Tensor& given_g, const Tensor& dlog_sum, const Tensor& given_q,
               const Tensor& given_k, const Tensor& given_v, const Tensor& omega, const Maybe& keep,
               const Tensor& kept, double scale, int64_t behind) {
  const RandomProduct how = {.omega = omega, .scale = scale, .keep = keep.value_or(Tensor())};
  if (!fits(given_q, given_k, given_v, omega, behind)) {
    const auto [dq, dk, dv] =
        random_past_gradient({given_g, dlog_sum}, given_q, given_k, given_v, how, behind);
    return {dq, dk, dv};
  }
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto g = readable_by_head(given_g), q = readable_by_head(given_q),
             k = readable_by_head(given_k), v = readable_by_head(given_v);
  const PastRows rows(q, k, v, how, behind);
  const int64_t rest = rows.q.size(2);
  const auto all = empty_beside(q, k, v);
  all.q.narrow(2, 0, behind).zero_();
  all.k.narrow(2, rest, behind).zero_();
  all.v.narrow(2, rest, behind).zero_();
  const auto slopes = dlog_sum.narrow(2, behind, rest).contiguous();
  causal_exponential_backward(
      g.narrow(2, behind, rest), slopes.const_data_ptr<float>(), rows.q, rows.k, rows.v,
      RandomSides(rows.q, rows.v, rows.how), kept,
      {all.q.narrow(2, behind, rest), all.k.narrow(2, 0, rest), all.v.narrow(2, 0, rest)});
  return {all.q, all.k, all.v};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("random_past", forward);
  m.impl("random_past_backward", backward);
}

}  // namespace
}  // namespace longbow
