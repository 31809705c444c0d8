#include "longbow/ops/random_window.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/kernels/causal_exponential.h"
#include "longbow/kernels/random_window.h"
#include "longbow/ops/cuda/by_head.h"
#include "longbow/ops/head_rows.h"
#include "longbow/ops/random_window_task.h"

namespace longbow {
namespace {

using at::Tensor;
using kernels::RandomMap;
using Maybe = std::optional<Tensor>;

auto stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

// What all passes are told, and what they keep, one behind the other in one tensor.
struct Passes {
  static constexpr int64_t kSpan = kernels::RandomWindow::span;
  Tensor omega, keep, kept;
  kernels::RandomWindow task;
  float *span_peaks, *beside, *peaks, *key_offset, *query_sum_offset;
  void* sums;
  int64_t rows;  // features

  // Allocates where nothing is given.
  Passes(const Tensor& q, const Tensor& k, const Tensor& v, const RandomWindow& how,
         const Tensor& given = {})
      : keep(how.keep.defined() ? how.keep.contiguous() : Tensor()), kept(given) {
    const auto map = how.mirrored ? RandomMap::mirrored : RandomMap::exponential;
    const auto shape = kernels::random_window_shape(map, how.omega.size(1), q.size(3), v.size(3));
    omega = at::constant_pad_nd(
                how.omega, {0, shape.depth - q.size(3), 0, shape.projections - how.omega.size(1)})
                .to(at::kBFloat16)
                .contiguous();
    const int64_t groups = q.size(0) * q.size(1), tokens = groups * q.size(2),
                  spans = (q.size(2) + kSpan - 1) / kSpan,
                  sums_of = how.causal ? groups * spans : groups;
    rows = shape.sets * shape.projections;
    int64_t size = 0;
    const auto next = [&](int64_t numbers) {
      const int64_t first = size;
      size += numbers;
      return first;
    };
    // Half as many numbers as sums, which are of bfloat16.
    const int64_t at_exact = next(tokens * shape.depth),
                  at_sums = next(sums_of * rows * shape.depth / 2),
                  at_beside = next(sums_of * rows), at_most = next(tokens),
                  at_offset = next(tokens), at_inverse = next(tokens),
                  at_spans = next(groups * spans), causal_tokens = how.causal ? tokens : 0,
                  at_peaks = next(causal_tokens), at_peak = next(causal_tokens),
                  at_keys = next(causal_tokens), at_queries = next(causal_tokens),
                  at_before = next(how.causal ? groups * spans : 0);
    if (!kept.defined()) kept = at::empty({size}, q.options().dtype(at::kFloat));
    float* const data = kept.mutable_data_ptr<float>();
    sums = data + at_sums;
    beside = data + at_beside;
    span_peaks = data + at_spans;
    peaks = data + at_peaks;
    key_offset = data + at_keys;
    query_sum_offset = data + at_queries;
    const auto features = [&](const Tensor& x) {
      return kernels::RandomFeatures{.x = by_head(x),
                                     .tokens = x.size(2),
                                     .width = x.size(3),
                                     .projections = how.omega.size(1),
                                     .map = map,
                                     .omega = omega.const_data_ptr(),
                                     .omega_head = omega.size(0) > 1 ? omega.stride(0) : 0,
                                     .factor = static_cast<float>(how.scale),
                                     .scale = 1,
                                     .offset = nullptr,
                                     .peaks = nullptr,
                                     .peak_spans = 0,
                                     .keep = nullptr};
    };
    task = {.shape = shape,
            .q = features(q),
            .k = features(k),
            .v = by_head(v),
            .back = how.back,
            .ahead = how.ahead,
            .most = data + at_most,
            .offset = data + at_offset,
            .inverse = data + at_inverse,
            .exact = data + at_exact,
            .sums = sums,
            .beside = beside,
            .causal = how.causal,
            .peaks = peaks,
            .peak = data + at_peak,
            .before = data + at_before,
            .batch = q.size(0),
            .heads = q.size(1),
            .depth = v.size(3)};
    task.q.offset = task.offset;
    if (how.causal) task.k.offset = key_offset;
    task.k.peaks = span_peaks;
    task.k.peak_spans = spans;
    if (keep.defined()) task.k.keep = keep.const_data_ptr<bool>();
  }

  // to = the sums over all tokens of phi(x) [scale value, column]; if causal, over those before
  // each span, or from the gradients of those to the gradients of the sums of each.
  void sum_up(const kernels::RandomFeatures& x, const Tensor& value, const float* scale,
              const float* column, void* to, float* to_beside) const {
    const auto& shape = task.shape;
    const int64_t groups = task.batch * task.heads, block_rows = shape.sets == 1 ? 160 : 128,
                  most = kernels::feature_span(x.tokens,
                                               groups * ((rows + block_rows - 1) / block_rows), 2),
                  span = task.causal ? kSpan : most, spans = (x.tokens + span - 1) / span,
                  width = (task.causal ? shape.depth / 2 : shape.depth) + 4;
    const auto parts = at::empty({groups, spans, rows, width}, kept.options());
    kernels::random_sums_cuda({.shape = shape,
                               .x = x,
                               .value = by_head(value),
                               .scale = scale,
                               .column = column,
                               .sums = parts.mutable_data_ptr<float>(),
                               .batch = task.batch,
                               .heads = task.heads,
                               .depth = task.depth,
                               .span = span,
                               .rounded = task.causal},
                              stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    if (task.causal)
      kernels::exponential_fold_cuda({.from = parts.const_data_ptr<float>(),
                                      .span_peaks = span_peaks,
                                      .before = scale ? task.before : nullptr,
                                      .sums = to,
                                      .beside = to_beside,
                                      .groups = groups,
                                      .spans = spans,
                                      .projections = rows},
                                     stream());
    else
      kernels::random_window_fold_cuda({.from = parts.const_data_ptr<float>(),
                                        .sums = to,
                                        .beside = to_beside,
                                        .groups = groups,
                                        .spans = spans,
                                        .rows = rows},
                                       stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

WindowForward forward(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
                      const Tensor& omega, const Maybe& keep, bool mirrored, double scale,
                      int64_t back, int64_t ahead, bool causal) {
  const auto how = random_window_of(omega, keep, mirrored, scale, back, ahead, causal);
  if (!has_random_window_kernel(given_q, given_k, given_v, how))
    return {random_window_formula(given_q, given_k, given_v, how),
            at::empty({0}, given_q.options())};
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = readable_by_head(given_q), k = readable_by_head(given_k),
             v = readable_by_head(given_v);
  const Passes passes(q, k, v, how);
  const auto& task = passes.task;
  const int64_t tokens = q.size(0) * q.size(1) * q.size(2);
  const auto largest = at::empty({tokens}, passes.kept.options()),
             sum_offset = at::empty({causal ? tokens : 0}, passes.kept.options());
  auto* const sum_offsets = causal ? sum_offset.mutable_data_ptr<float>() : nullptr;
  auto queries = task.q, keys = task.k;
  queries.offset = keys.offset = nullptr;
  kernels::exponential_peaks_cuda({.shape = task.shape,
                                   .q = queries,
                                   .k = keys,
                                   .query_offset = largest.mutable_data_ptr<float>(),
                                   .key_offset = causal ? passes.key_offset : nullptr,
                                   .peaks = causal ? passes.peaks : nullptr,
                                   .sum_offset = sum_offsets,
                                   .span_peaks = passes.span_peaks,
                                   .heads = task.heads,
                                   .groups = task.batch * task.heads},
                                  stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  keys.offset = sum_offsets;
  passes.sum_up(keys, v, nullptr, nullptr, passes.sums, passes.beside);
  const auto out = empty_by_head(q, v.size(3));
  kernels::random_window_read_cuda({.all = task,
                                    .largest = largest.const_data_ptr<float>(),
                                    .out = by_head(out),
                                    .sum_offset = passes.query_sum_offset},
                                   stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, passes.kept};
}

WindowBackward backward(const Tensor& given_g, const Tensor& given_q, const Tensor& given_k,
                        const Tensor& given_v, const Tensor& omega, const Maybe& keep,
                        const Tensor& kept, bool mirrored, double scale, int64_t back,
                        int64_t ahead, bool causal) {
  const auto how = random_window_of(omega, keep, mirrored, scale, back, ahead, causal);
  if (!has_random_window_kernel(given_q, given_k, given_v, how)) {
    const auto [dq, dk, dv] = random_window_gradient(given_g, given_q, given_k, given_v, how);
    return {dq, dk, dv};
  }
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto g = readable_by_head(given_g), q = readable_by_head(given_q),
             k = readable_by_head(given_k), v = readable_by_head(given_v);
  const Passes passes(q, k, v, how, kept);
  auto task = passes.task;
  const auto [dq, dk, dv] = empty_beside(q, k, v);
  const int64_t groups = task.batch * task.heads,
                sums_of = causal ? groups * task.k.peak_spans : groups;
  const auto column = at::empty({groups * q.size(2)}, kept.options()),
             beside = at::empty({sums_of, passes.rows}, kept.options()),
             sums = at::empty({sums_of, passes.rows, task.shape.depth}, q.options());
  const auto* columns = column.const_data_ptr<float>();
  kernels::random_window_queries_cuda(
      {.all = task, .g = by_head(g), .dq = by_head(dq), .column = column.mutable_data_ptr<float>()},
      stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  auto queries = task.q;
  if (causal) queries.offset = passes.query_sum_offset;
  passes.sum_up(queries, g, task.inverse, columns, sums.mutable_data_ptr(),
                beside.mutable_data_ptr<float>());
  task.sums = sums.const_data_ptr();
  task.beside = beside.const_data_ptr<float>();
  kernels::random_window_keys_cuda(
      {.all = task, .g = by_head(g), .dk = by_head(dk), .dv = by_head(dv), .column = columns},
      stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dq, dk, dv};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("random_window", forward);
  m.impl("random_window_backward", backward);
}

}  // namespace
}  // namespace longbow
