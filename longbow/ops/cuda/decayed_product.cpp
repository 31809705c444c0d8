#include "longbow/ops/decayed_product.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/decayed_product.h"
#include "longbow/ops/cuda/by_head.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

// Tokens as the kernels walk over them.
kernels::ByHead walked(const Tensor& x, bool reversed) {
  auto rows = by_head(x);
  if (!reversed) return rows;
  rows.data = static_cast<char*>(rows.data) + (x.size(2) - 1) * rows.token * x.element_size();
  rows.token = -rows.token;
  return rows;
}

kernels::DecayedHeads heads_of(const Tensor& x, const Tensor& z, const Tensor& log_decay,
                               bool reversed) {
  const auto decays = walked(log_decay, reversed);
  return {.shape = kernels::decay_shape(x.size(3), z.size(3)),
          .decays = {.data = static_cast<const float*>(decays.data),
                     .batch = decays.batch,
                     .head = decays.head,
                     .token = decays.token,
                     .channel = log_decay.size(3) == 1 ? 0 : log_decay.stride(3)},
          .batch = x.size(0),
          .heads = x.size(1),
          .tokens = x.size(2),
          .width = x.size(3),
          .depth = z.size(3)};
}

struct Sums {
  Tensor at_chunks, last;  // those at the chunks' ends, and where the scan ends
};
// Of keys before each chunk, of queries after each.
Sums summed(const kernels::DecayedHeads& heads, const kernels::ByHead& rows,
            const kernels::ByHead& values, const Tensor& first, double scale, bool queries,
            const at::TensorOptions& options) {
  const int64_t groups = heads.batch * heads.heads, chunks = heads.chunks();
  const auto wide = options.dtype(at::kFloat);
  Sums sums = {at::empty({groups, chunks + 1, heads.shape.size()}, options),
               at::empty({heads.batch, heads.heads, heads.width, heads.depth}, wide)};
  const auto whole = at::empty({groups, chunks, heads.shape.rows}, wide);
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  kernels::decayed_sums_cuda({.heads = heads,
                              .rows = rows,
                              .values = values,
                              .queries = queries,
                              .scale = static_cast<float>(scale),
                              .sums = sums.at_chunks.mutable_data_ptr(),
                              .whole = whole.mutable_data_ptr<float>()},
                             stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  kernels::decay_scan_cuda({.shape = heads.shape,
                            .sums = sums.at_chunks.mutable_data_ptr(),
                            .whole = whole.const_data_ptr<float>(),
                            .first = first.defined() ? first.const_data_ptr<float>() : nullptr,
                            .last = sums.last.mutable_data_ptr<float>(),
                            .groups = groups,
                            .chunks = chunks,
                            .width = heads.width,
                            .depth = heads.depth,
                            .backwards = queries},
                           stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return sums;
}

Three forward(const Tensor& given_x, const Tensor& given_y, const Tensor& given_z,
              const Tensor& log_decay, const Maybe& given_sums, bool columns, bool reversed,
              double scale) {
  const auto fading = columns ? Fading::columns : Fading::rows;
  if (!has_decay_kernel(given_x, given_y, given_z, log_decay, fading)) {
    auto sums = given_sums.value_or(Tensor());
    const auto out =
        decayed_product_formula(given_x, given_y, given_z, log_decay,
                                {.fading = fading, .scale = scale, .reversed = reversed}, sums);
    return {out, sums, at::empty({0}, log_decay.options())};
  }
  const c10::cuda::CUDAGuard guard(given_x.device());
  const auto x = readable_by_head(given_x), y = readable_by_head(given_y),
             z = readable_by_head(given_z);
  const auto heads = heads_of(x, z, log_decay, reversed);
  const auto first = given_sums ? given_sums->to(at::kFloat).contiguous() : Tensor();
  const auto sums =
      summed(heads, walked(y, reversed), walked(z, reversed), first, 1, false, x.options());
  const auto out = empty_by_head(z, z.size(3));
  kernels::decayed_read_cuda({.heads = heads,
                              .x = walked(x, reversed),
                              .y = walked(y, reversed),
                              .z = walked(z, reversed),
                              .scale = static_cast<float>(scale),
                              .sums = sums.at_chunks.const_data_ptr(),
                              .out = walked(out, reversed)},
                             c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, sums.last, sums.at_chunks};
}

Five backward(const Tensor& given_dout, const Tensor& given_dsums, const Tensor& given_x,
              const Tensor& given_y, const Tensor& given_z, const Tensor& log_decay, const Maybe&,
              const Tensor& before, bool, bool reversed, double scale) {
  const c10::cuda::CUDAGuard guard(given_x.device());
  const auto x = readable_by_head(given_x), y = readable_by_head(given_y),
             z = readable_by_head(given_z), dout = readable_by_head(given_dout),
             dafter = given_dsums.to(at::kFloat).contiguous();
  const auto heads = heads_of(x, z, log_decay, reversed);
  const auto dsums =
      summed(heads, walked(x, reversed), walked(dout, reversed), dafter, scale, true, x.options());
  const auto dx = empty_by_head(x, x.size(3)), dy = empty_by_head(y, y.size(3)),
             dz = empty_by_head(z, z.size(3)), ddecays = empty_by_head(log_decay, x.size(3));
  const auto dg = walked(ddecays, reversed);
  kernels::decayed_gradient_cuda({.heads = heads,
                                  .x = walked(x, reversed),
                                  .y = walked(y, reversed),
                                  .z = walked(z, reversed),
                                  .dout = walked(dout, reversed),
                                  .scale = static_cast<float>(scale),
                                  .sums = before.const_data_ptr(),
                                  .dsums = dsums.at_chunks.const_data_ptr(),
                                  .dx = walked(dx, reversed),
                                  .dy = walked(dy, reversed),
                                  .dz = walked(dz, reversed),
                                  .ddecays = static_cast<float*>(dg.data),
                                  .ddecays_batch = dg.batch,
                                  .ddecays_head = dg.head,
                                  .ddecays_token = dg.token},
                                 c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dx, dy, dz, log_decay.size(3) == 1 ? ddecays.sum(-1, true) : ddecays, dsums.last};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("decayed_product", forward);
  m.impl("decayed_product_backward", backward);
}

}  // namespace
}  // namespace longbow
