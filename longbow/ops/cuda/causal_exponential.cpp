#include "longbow/ops/cuda/causal_exponential.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "longbow/kernels/causal_exponential.h"
#include "longbow/ops/cuda/by_head.h"

namespace longbow {
namespace {

using at::Tensor;
using kernels::CausalExponential;

auto stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

// The sums of phi of each span with `scale` value and the column, as the kernels of both maps have
// them, and folded to what the others read.
void fold(const RandomSides& sides, const kernels::RandomFeatures& x, const Tensor& value,
          const float* scale, const float* column, const CausalExponential& all, bool gradients) {
  const int64_t groups = all.batch * all.heads,
                spans = (x.tokens + CausalExponential::span - 1) / CausalExponential::span;
  const auto parts =
      at::empty({groups * spans * sides.shape.projections * (sides.shape.depth / 2 + 4)},
                value.options().dtype(at::kFloat));
  kernels::random_sums_cuda({.shape = sides.shape,
                             .x = x,
                             .value = by_head(value),
                             .scale = scale,
                             .column = column,
                             .sums = parts.mutable_data_ptr<float>(),
                             .batch = all.batch,
                             .heads = all.heads,
                             .depth = value.size(3),
                             .span = CausalExponential::span,
                             .rounded = true},
                            stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  kernels::exponential_fold_cuda({.from = parts.const_data_ptr<float>(),
                                  .span_peaks = all.span_peaks,
                                  .before = gradients ? all.before : nullptr,
                                  .sums = const_cast<void*>(all.sums),
                                  .beside = const_cast<float*>(all.beside),
                                  .groups = groups,
                                  .spans = spans,
                                  .projections = sides.shape.projections},
                                 stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// What the backward pass needs, one behind the other in one tensor, and where the kernels find it.
struct Kept {
  Tensor all;
  CausalExponential task;
  float *query_offset, *key_offset, *query_sum_offset, *peaks, *span_peaks, *sums, *beside;

  // Allocates where nothing is given.
  Kept(const Tensor& q, const Tensor& k, const Tensor& v, const RandomSides& sides,
       const Tensor& given = {})
      : all(given) {
    const int64_t groups = q.size(0) * q.size(1), tokens = groups * q.size(2),
                  spans = groups *
                          ((q.size(2) + CausalExponential::span - 1) / CausalExponential::span),
                  projections = sides.shape.projections;
    int64_t size = 0;
    const auto next = [&](int64_t numbers) {
      const int64_t first = size;
      size += numbers;
      return first;
    };
    // Half as many numbers as sums and weights, which are of bfloat16.
    const int64_t at_exact = next(tokens * sides.shape.depth),
                  at_pairs = next(spans * CausalExponential::tiles * 16 * 16 / 2),
                  at_sums = next(spans * projections * sides.shape.depth / 2),
                  at_beside = next(spans * projections), at_peaks = next(tokens),
                  at_most = next(tokens), at_inverse = next(tokens), at_queries = next(tokens),
                  at_keys = next(tokens), at_offset = next(tokens), at_spans = next(spans),
                  at_before = next(spans);
    if (!all.defined()) all = at::empty({size}, q.options().dtype(at::kFloat));
    float* const data = all.mutable_data_ptr<float>();
    sums = data + at_sums;
    beside = data + at_beside;
    peaks = data + at_peaks;
    query_offset = data + at_queries;
    key_offset = data + at_keys;
    query_sum_offset = data + at_offset;
    span_peaks = data + at_spans;
    task = {.shape = sides.shape,
            .q = sides.features(q),
            .k = sides.features(k),
            .v = by_head(v),
            .peaks = peaks,
            .span_peaks = span_peaks,
            .most = data + at_most,
            .before = data + at_before,
            .inverse = data + at_inverse,
            .exact = data + at_exact,
            .pairs = data + at_pairs,
            .sums = sums,
            .beside = beside,
            .batch = q.size(0),
            .heads = q.size(1),
            .depth = v.size(3)};
    if (sides.keep.defined()) task.k.keep = sides.keep.const_data_ptr<bool>();
  }
  // What the passes but the first read.
  CausalExponential with_offsets() const {
    auto found = task;
    found.q.offset = query_offset;
    found.k.offset = key_offset;
    return found;
  }
};

}  // namespace

Tensor causal_exponential(const Tensor& q, const Tensor& k, const Tensor& v,
                          const RandomSides& sides, const Tensor& out, float* log_sum) {
  const Kept kept(q, k, v, sides);
  const auto sum_offset = at::empty({q.size(0) * q.size(1) * k.size(2)}, kept.all.options());
  kernels::exponential_peaks_cuda({.shape = sides.shape,
                                   .q = kept.task.q,
                                   .k = kept.task.k,
                                   .query_offset = kept.query_offset,
                                   .key_offset = kept.key_offset,
                                   .peaks = kept.peaks,
                                   .sum_offset = sum_offset.mutable_data_ptr<float>(),
                                   .span_peaks = kept.span_peaks,
                                   .heads = q.size(1),
                                   .groups = q.size(0) * q.size(1)},
                                  stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  auto keys = kept.task.k;
  keys.offset = sum_offset.const_data_ptr<float>();
  fold(sides, keys, v, nullptr, nullptr, kept.task, false);
  const auto* least = sides.least.defined() ? sides.least.const_data_ptr<float>() : nullptr;
  kernels::causal_exponential_read_cuda({.all = kept.with_offsets(),
                                         .out = by_head(out),
                                         .sum_offset = kept.query_sum_offset,
                                         .log_sum = log_sum,
                                         .least = static_cast<float>(kLeastWeights),
                                         .least_of = least},
                                        stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return kept.all;
}

void causal_exponential_backward(const Tensor& g, const float* dlog_sum, const Tensor& q,
                                 const Tensor& k, const Tensor& v, const RandomSides& sides,
                                 const Tensor& given, const BesideRows& gradients) {
  const Kept kept(q, k, v, sides, given);
  auto column = at::empty({q.size(0) * q.size(1) * q.size(2)}, given.options()),
       sums = at::empty({kept.beside - kept.sums}, given.options());
  kernels::causal_exponential_queries_cuda({.all = kept.with_offsets(),
                                            .g = by_head(g),
                                            .dq = by_head(gradients.q),
                                            .dlog_sum = dlog_sum,
                                            .column = column.mutable_data_ptr<float>()},
                                           stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  auto task = kept.with_offsets();
  auto beside = at::empty({kept.peaks - kept.beside}, given.options());
  task.sums = sums.const_data_ptr();
  task.beside = beside.const_data_ptr<float>();
  auto queries = kept.task.q;
  queries.offset = kept.query_sum_offset;
  fold(sides, queries, g, task.inverse, column.const_data_ptr<float>(), task, true);
  kernels::causal_exponential_keys_cuda({.all = task,
                                         .g = by_head(g),
                                         .dk = by_head(gradients.k),
                                         .dv = by_head(gradients.v),
                                         .column = column.const_data_ptr<float>()},
                                        stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace longbow
