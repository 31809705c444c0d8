#include "longbow/ops/cuda/decayed_chunks.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

namespace longbow::decayed {

using at::Tensor;

namespace {

const float* floats_of(const Tensor& t) {
  return t.defined() ? t.const_data_ptr<float>() : nullptr;
}

}  // namespace

kernels::Decays decays_of(const Tensor& log_decay, bool reversed) {
  const auto rows = walked_by_head(log_decay, reversed);
  return {.data = static_cast<const float*>(rows.data),
          .batch = rows.batch,
          .head = rows.head,
          .token = rows.token,
          .channel = log_decay.stride(3)};
}

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

Given::Given(const Tensor& queries, const Tensor& keys, const Tensor& values, const Tensor& decays,
             bool from_behind, double factor)
    : x(readable_by_head(queries)),
      y(readable_by_head(keys)),
      z(readable_by_head(values)),
      log_decay(decays),
      reversed(from_behind),
      scale(static_cast<float>(factor)) {}

Sums Given::empty_sums(int64_t blocks, int64_t chunks, const kernels::DecayShape& shape) const {
  return {at::empty({x.size(0) * x.size(1), blocks, chunks + 1, shape.size()}, x.options()),
          at::empty({x.size(0), x.size(1), x.size(3), z.size(3)}, log_decay.options())};
}

ByBlock::ByBlock(const Tensor& queries, const Tensor& keys, const Tensor& values,
                 const Tensor& decays, bool from_behind, double factor, const Tensor& steps,
                 const Tensor& skips)
    : Given(queries, keys, values, decays, from_behind, factor), skip(skips) {
  const auto task = blocks();
  const int64_t groups = task.batch * task.heads;
  added =
      at::empty({groups, task.blocks, task.chunks(), 2, kernels::kBlockChunk}, log_decay.options());
  whole = at::empty({groups, task.blocks, task.chunks(), 1}, log_decay.options());
  kernels::block_decays_cuda(
      {.blocks = blocks(),
       .given = decays_of(log_decay, reversed),
       .steps = steps.defined() ? decays_of(steps, reversed) : kernels::Decays(),
       .whole = whole.mutable_data_ptr<float>()},
      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

kernels::DecayedBlocks ByBlock::blocks() const {
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

Sums ByBlock::summed(const Tensor& of, const Tensor& values, const Tensor& first,
                     bool queries) const {
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

std::tuple<Tensor, Tensor, Tensor> ByBlock::forward(const Tensor& first) const {
  const auto sums = summed(y, z, first, false);
  const auto out = empty_by_head(z, z.size(3));
  kernels::block_read_cuda({.blocks = blocks(),
                            .x = rows(x),
                            .y = rows(y),
                            .z = rows(z),
                            .scale = scale,
                            .sums = sums.at_chunks.const_data_ptr(),
                            .out = rows(out),
                            .skip = floats_of(skip)},
                           c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, sums.last, sums.at_chunks};
}

Tensor ByBlock::backward(const Tensor& dout, const Tensor& dlast, const Tensor& before,
                         const Gradients& to) const {
  const auto dsums = summed(x, dout, dlast, true);
  const auto dg = rows(to.dlog_decay);
  const auto place = [&](const Tensor& t) {
    return t.defined() ? static_cast<float*>(rows(t).data) : nullptr;
  };
  const auto task = blocks();
  const int64_t groups = task.batch * task.heads;
  const auto weights = at::empty(
                 {groups, task.chunks(), kernels::kBlockChunk, kernels::kBlockChunk}, x.options()),
             found = at::empty({groups, task.blocks, task.chunks(), kernels::kBlockChunk},
                               log_decay.options());
  const kernels::BlockGradient gradient = {.blocks = task,
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
                                           .skip = floats_of(skip),
                                           .dsteps = place(to.dsteps),
                                           .dskip = place(to.dskip),
                                           .weights = weights.mutable_data_ptr(),
                                           .found = found.mutable_data_ptr<float>()};
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  kernels::block_pairs_gradient_cuda(gradient, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  kernels::block_gradient_cuda(gradient, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return dsums.last;
}

}  // namespace longbow::decayed
