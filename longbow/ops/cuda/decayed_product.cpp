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

kernels::Decays decays_of(const Tensor& log_decay, bool reversed) {
  const auto rows = walked_by_head(log_decay, reversed);
  return {.data = static_cast<const float*>(rows.data),
          .batch = rows.batch,
          .head = rows.head,
          .token = rows.token,
          .channel = log_decay.stride(3)};
}

// Sums at the ends of chunks, and where the scan ends.
struct Sums {
  Tensor at_chunks, last;
};

// Of keys those before each chunk, of queries those after each, from their own sums on.
void scan(const Sums& sums, const kernels::DecayShape& shape, const Tensor& whole,
          const Tensor& first, int64_t blocks, bool queries) {
  const auto& last = sums.last;  // [B, H, width, blocks depth]
  kernels::decay_scan_cuda({.shape = shape,
                            .sums = sums.at_chunks.mutable_data_ptr(),
                            .whole = whole.const_data_ptr<float>(),
                            .whole_width = whole.size(3),
                            .first = first.defined() ? first.const_data_ptr<float>() : nullptr,
                            .last = last.mutable_data_ptr<float>(),
                            .groups = last.size(0) * last.size(1),
                            .blocks = blocks,
                            .chunks = whole.size(2),
                            .width = last.size(2),
                            .depth = last.size(3) / blocks,
                            .backwards = queries},
                           c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// What both passes are given: tokens as the kernels walk over them, and where the pieces begin.
struct Given {
  Tensor x, y, z, log_decay;
  bool reversed;
  float scale;

  Given(const Tensor& queries, const Tensor& keys, const Tensor& values, const Tensor& decays,
        bool from_behind, double factor)
      : x(readable_by_head(queries)),
        y(readable_by_head(keys)),
        z(readable_by_head(values)),
        log_decay(decays),
        reversed(from_behind),
        scale(static_cast<float>(factor)) {}
  kernels::ByHead rows(const Tensor& t) const { return walked_by_head(t, reversed); }
  Sums empty_sums(int64_t blocks, int64_t chunks, const kernels::DecayShape& shape) const {
    return {at::empty({x.size(0) * x.size(1), blocks, chunks + 1, shape.size()}, x.options()),
            at::empty({x.size(0), x.size(1), x.size(3), z.size(3)}, log_decay.options())};
  }
};

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
  Five backward(const Tensor& dout, const Tensor& dlast, const Tensor& before) const {
    const auto dsums = summed(x, dout, dlast, true);
    const auto dx = empty_by_head(x, x.size(3)), dy = empty_by_head(y, y.size(3)),
               dz = empty_by_head(z, z.size(3)),
               ddecays = empty_by_head(log_decay, log_decay.size(3));
    const auto dg = rows(ddecays);
    kernels::decayed_gradient_cuda({.heads = heads(),
                                    .x = rows(x),
                                    .y = rows(y),
                                    .z = rows(z),
                                    .dout = rows(dout),
                                    .scale = scale,
                                    .sums = before.const_data_ptr(),
                                    .dsums = dsums.at_chunks.const_data_ptr(),
                                    .dx = rows(dx),
                                    .dy = rows(dy),
                                    .dz = rows(dz),
                                    .ddecays = static_cast<float*>(dg.data),
                                    .ddecays_batch = dg.batch,
                                    .ddecays_head = dg.head,
                                    .ddecays_token = dg.token},
                                   c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {dx, dy, dz, ddecays, dsums.last};
  }
};

// Columns that fade by blocks.
struct ByBlock : Given {
  Tensor added, whole;  // the decays added up within chunks, and those of whole chunks

  ByBlock(const Tensor& queries, const Tensor& keys, const Tensor& values, const Tensor& decays,
          bool from_behind, double factor)
      : Given(queries, keys, values, decays, from_behind, factor) {
    const auto task = blocks();
    const int64_t groups = task.batch * task.heads;
    added =
        at::empty({groups, task.blocks, task.chunks(), kernels::kBlockChunk}, log_decay.options());
    whole = at::empty({groups, task.blocks, task.chunks(), 1}, log_decay.options());
    kernels::block_decays_cuda({.blocks = blocks(),
                                .given = decays_of(log_decay, reversed),
                                .whole = whole.mutable_data_ptr<float>()},
                               c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  kernels::DecayedBlocks blocks() const {
    const int64_t count = log_decay.size(3), depth = z.size(3) / count;
    return {.shape = kernels::block_shape(x.size(3), depth),
            .batch = x.size(0),
            .heads = x.size(1),
            .blocks = count,
            .tokens = x.size(2),
            .width = x.size(3),
            .depth = depth,
            .decays = added.defined() ? added.mutable_data_ptr<float>() : nullptr};
  }
  Sums summed(const Tensor& of, const Tensor& values, const Tensor& first, bool queries) const {
    const auto task = blocks();
    const auto sums = empty_sums(task.blocks, task.chunks(), task.shape);
    kernels::block_sums_cuda({.blocks = task,
                              .rows = rows(of),
                              .values = rows(values),
                              .queries = queries,
                              .scale = scale,
                              .sums = sums.at_chunks.mutable_data_ptr()},
                             c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    scan(sums, task.shape, whole, first, task.blocks, queries);
    return sums;
  }
  Three forward(const Tensor& first) const {
    const auto sums = summed(y, z, first, false);
    const auto out = empty_by_head(z, z.size(3));
    kernels::block_read_cuda({.blocks = blocks(),
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
  Five backward(const Tensor& dout, const Tensor& dlast, const Tensor& before) const {
    const auto dsums = summed(x, dout, dlast, true);
    const auto dx = empty_by_head(x, x.size(3)), dy = empty_by_head(y, y.size(3)),
               dz = empty_by_head(z, z.size(3)),
               ddecays = empty_by_head(log_decay, log_decay.size(3));
    const auto dg = rows(ddecays);
    kernels::block_gradient_cuda({.blocks = blocks(),
                                  .x = rows(x),
                                  .y = rows(y),
                                  .z = rows(z),
                                  .dout = rows(dout),
                                  .scale = scale,
                                  .sums = before.const_data_ptr(),
                                  .dsums = dsums.at_chunks.const_data_ptr(),
                                  .dx = rows(dx),
                                  .dy = rows(dy),
                                  .dz = rows(dz),
                                  .ddecays = static_cast<float*>(dg.data),
                                  .ddecays_batch = dg.batch,
                                  .ddecays_head = dg.head,
                                  .ddecays_token = dg.token},
                                 c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {dx, dy, dz, ddecays, dsums.last};
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

Five backward(const Tensor& given_dout, const Tensor& given_dsums, const Tensor& x, const Tensor& y,
              const Tensor& z, const Tensor& log_decay, const Tensor& before, bool columns,
              bool reversed, double scale) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto dout = readable_by_head(given_dout), dlast = given_dsums.to(at::kFloat).contiguous();
  return fades_by_block(log_decay, columns ? Fading::columns : Fading::rows)
             ? ByBlock(x, y, z, log_decay, reversed, scale).backward(dout, dlast, before)
             : ByRow(x, y, z, log_decay, reversed, scale).backward(dout, dlast, before);
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("decayed_product", forward);
  m.impl("decayed_product_backward", backward);
}

}  // namespace
}  // namespace longbow
