#include "longbow/ops/state_space.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/state_token.h"
#include "longbow/ops/cuda/decayed_chunks.h"
#include "longbow/ops/decayed_product.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

decayed::ByBlock by_block(const StateSpaceParts& parts, const Tensor& skip, bool reversed) {
  return {parts.c,  parts.b, parts.x,    parts.log_decay,
          reversed, 1,       parts.step, skip.to(at::kFloat).contiguous()};
}

// A single token.
Three token(const Tensor& given, const Tensor& step, const Tensor& log_decay, const Tensor& skip,
            const Maybe& sums, const StateSpace& how) {
  const int64_t b = given.size(0), heads = step.size(2), keys = how.groups * how.state,
                inner = given.size(2) - 2 * keys;
  const auto rows = given.stride(2) == 1 ? given : given.contiguous(), steps = step.contiguous(),
             decays = log_decay.contiguous(), skips = skip.to(at::kFloat).contiguous(),
             before = sums ? sums->to(at::kFloat).contiguous() : Tensor();
  const auto out = at::empty({b, 1, inner}, rows.options()),
             after = at::empty({b, how.groups, how.state, inner / how.groups}, steps.options());
  kernels::state_token_cuda({.rows = rows.const_data_ptr(),
                             .rows_batch = rows.stride(0),
                             .half = rows.scalar_type() == at::kBFloat16,
                             .step = steps.const_data_ptr<float>(),
                             .log_decay = decays.const_data_ptr<float>(),
                             .skip = skips.const_data_ptr<float>(),
                             .before = sums ? before.const_data_ptr<float>() : nullptr,
                             .after = after.mutable_data_ptr<float>(),
                             .out = out.mutable_data_ptr(),
                             .batch = b,
                             .heads = heads,
                             .width = inner / heads,
                             .groups = how.groups,
                             .state = how.state},
                            c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, after, at::empty({0}, steps.options())};
}

Three forward(const Tensor& rows, const Tensor& step, const Tensor& log_decay, const Tensor& skip,
              const Maybe& sums, int64_t groups, int64_t state, bool reversed) {
  const StateSpace how = {groups, state, reversed};
  const c10::cuda::CUDAGuard guard(rows.device());
  if (has_state_token_kernel(rows, step, log_decay))
    return token(rows, step, log_decay, skip, sums, how);
  if (!has_state_space_kernel(rows, step, log_decay, how)) {
    auto after = sums.value_or(Tensor());
    const auto out = state_space_formula(rows, step, log_decay, skip, how, after);
    return {out, after, at::empty({0}, log_decay.options())};
  }
  const auto parts = state_space_parts(rows, step, log_decay, groups, state);
  const auto [out, after, before] =
      by_block(parts, skip, reversed).forward(sums ? sums->to(at::kFloat).contiguous() : Tensor());
  return {out.transpose(1, 2).flatten(2), after, before};
}

// The gradients of x, b and c lie beside each other as they do.
Five backward(const Tensor& dout, const Tensor& dsums, const Tensor& rows, const Tensor& step,
              const Tensor& log_decay, const Tensor& skip, const Tensor& before, int64_t groups,
              int64_t state, bool reversed) {
  const c10::cuda::CUDAGuard guard(rows.device());
  const auto drows = at::empty(rows.sizes(), rows.options()),
             dstep = at::empty(step.sizes(), step.options()),
             dlog_decay = at::empty(step.sizes(), step.options()),
             dskip = at::empty(step.sizes(), step.options());
  const auto parts = state_space_parts(rows, step, log_decay, groups, state),
             to = state_space_parts(drows, dstep, dlog_decay, groups, state);
  const auto dread = readable_by_head(dout.unflatten(2, {groups, -1}).transpose(1, 2));
  const auto dfirst = by_block(parts, skip, reversed)
                          .backward(dread, dsums.to(at::kFloat).contiguous(), before,
                                    {.dx = to.c,
                                     .dy = to.b,
                                     .dz = to.x,
                                     .dlog_decay = to.log_decay,
                                     .dsteps = to.step,
                                     .dskip = dskip.unflatten(2, {groups, -1}).transpose(1, 2)});
  return {drows, dstep, dlog_decay, dskip.sum(at::IntArrayRef{0, 1}).to(skip.scalar_type()),
          dfirst};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("state_space", forward);
  m.impl("state_space_backward", backward);
}

}  // namespace
}  // namespace longbow
