#include "longbow/ops/decayed_product.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/ops/cuda/decayed_chunks.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using namespace decayed;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

// Rows that fade each its own way.
struct ByRow : Given {
  using Given::Given;

  kernels::DecayedHeads heads() const {
    return {.shape = kernels::decay_shape(x.size(3), z.size(3)),
            .decays = decays_of(log_decay, reversed),
            .batch = x.size(0),
            .heads = x.size(1),
            .tokens = x.size(2),
            .width = x.size(3),
            .depth = z.size(3)};
  }
  Sums summed(const Tensor& of, const Tensor& values, const Tensor& first, bool queries) const {
    const auto task = heads();
    const auto sums = empty_sums(1, task.chunks(), task.shape);
    const auto whole = at::empty({task.batch * task.heads, 1, task.chunks(), task.shape.rows},
                                 log_decay.options());
    kernels::decayed_sums_cuda({.heads = task,
                                .rows = rows(of),
                                .values = rows(values),
                                .queries = queries,
                                .scale = scale,
                                .sums = sums.at_chunks.mutable_data_ptr(),
                                .whole = whole.mutable_data_ptr<float>()},
                               c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    scan(sums, task.shape, whole, first, 1, queries);
    return sums;
  }
  Three forward(const Tensor& first) const {
    const auto sums = summed(y, z, first, false);
    const auto out = empty_by_head(z, z.size(3));
    kernels::decayed_read_cuda({.heads = heads(),
                                .x = rows(x),
                                .y = rows(y),
                                .z = rows(z),
                                .scale = scale,
                                .sums = sums.at_chunks.const_data_ptr(),
                                .out = rows(out)},
                               c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {out, sums.last, sums.at_chunks};
  }
  // Returns the gradient of the sums before the first token.
  Tensor backward(const Tensor& dout, const Tensor& dlast, const Tensor& before,
                  const Gradients& to) const {
    const auto dsums = summed(x, dout, dlast, true);
    const auto dg = rows(to.dlog_decay);
    kernels::decayed_gradient_cuda({.heads = heads(),
                                    .x = rows(x),
                                    .y = rows(y),
                                    .z = rows(z),
                                    .dout = rows(dout),
                                    .scale = scale,
                                    .sums = before.const_data_ptr(),
                                    .dsums = dsums.at_chunks.const_data_ptr(),
                                    .dx = rows(to.dx),
                                    .dy = rows(to.dy),
                                    .dz = rows(to.dz),
                                    .ddecays = static_cast<float*>(dg.data),
                                    .ddecays_batch = dg.batch,
                                    .ddecays_head = dg.head,
                                    .ddecays_token = dg.token,
                                    .add = to.add},
                                   c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return dsums.last;
  }
};

Three forward(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& log_decay,
              const Maybe& given_sums, bool columns, bool reversed, double scale) {
  const auto fading = columns ? Fading::columns : Fading::rows;
  if (!has_decay_kernel(x, y, z, log_decay, fading)) {
    auto sums = given_sums.value_or(Tensor());
    const auto out = decayed_product_formula(
        x, y, z, log_decay, {.fading = fading, .scale = scale, .reversed = reversed}, sums);
    return {out, sums, at::empty({0}, log_decay.options())};
  }
  const c10::cuda::CUDAGuard guard(x.device());
  const auto first = given_sums ? given_sums->to(at::kFloat).contiguous() : Tensor();
  return fades_by_block(log_decay, fading)
             ? ByBlock(x, y, z, log_decay, reversed, scale).forward(first)
             : ByRow(x, y, z, log_decay, reversed, scale).forward(first);
}

Gradients fresh_gradients(const Tensor& x, const Tensor& y, const Tensor& z,
                          const Tensor& log_decay) {
  const auto [dx, dy, dz] = empty_beside(x, y, z);
  return {dx, dy, dz, empty_by_head(log_decay, log_decay.size(3))};
}

Five backward(const Tensor& given_dout, const Tensor& given_dsums, const Tensor& x, const Tensor& y,
              const Tensor& z, const Tensor& log_decay, const Tensor& before, bool columns,
              bool reversed, double scale) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto dout = readable_by_head(given_dout), dlast = given_dsums.to(at::kFloat).contiguous();
  const auto to = fresh_gradients(x, y, z, log_decay);
  const auto dfirst =
      fades_by_block(log_decay, columns ? Fading::columns : Fading::rows)
          ? ByBlock(x, y, z, log_decay, reversed, scale).backward(dout, dlast, before, to)
          : ByRow(x, y, z, log_decay, reversed, scale).backward(dout, dlast, before, to);
  return {to.dx, to.dy, to.dz, to.dlog_decay, dfirst};
}

void backward_add(const Tensor& given_dout, const Tensor& x, const Tensor& y, const Tensor& z,
                  const Tensor& log_decay, const Tensor& before, bool columns, bool reversed,
                  double scale, const Tensor& dx, const Tensor& dy, const Tensor& dz,
                  const Tensor& dlog_decay) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto dout = readable_by_head(given_dout),
             none = at::zeros({x.size(0), x.size(1), x.size(3), z.size(3)}, log_decay.options());
  if (fades_by_block(log_decay, columns ? Fading::columns : Fading::rows)) {
    const auto to = fresh_gradients(x, y, z, log_decay);
    ByBlock(x, y, z, log_decay, reversed, scale).backward(dout, none, before, to);
    dx.add_(to.dx);
    dy.add_(to.dy);
    dz.add_(to.dz);
    dlog_decay.add_(to.dlog_decay);
    return;
  }
  ByRow(x, y, z, log_decay, reversed, scale)
      .backward(dout, none, before, {dx, dy, dz, dlog_decay, /*add=*/true});
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("decayed_product", forward);
  m.impl("decayed_product_backward", backward);
  m.impl("decayed_product_backward_add", backward_add);
}

}  // namespace
}  // namespace longbow
