#include "longbow/ops/random_product.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <utility>

#include "longbow/kernels/causal_exponential.h"
#include "longbow/ops/cuda/by_head.h"
#include "longbow/ops/cuda/causal_exponential.h"
#include "longbow/ops/cuda/random_sides.h"
#include "longbow/ops/head_rows.h"
#include "longbow/ops/random_product_task.h"

namespace longbow {
namespace {

using at::Tensor;

int64_t spans_of(const Tensor& x, int64_t span) {
  return (x.size(2) + span - 1) / span;
}
// Of the passes over x: how many blocks a multiprocessor holds is for them to know.
int64_t peaks_span(const Tensor& x) {
  return kernels::feature_span(x.size(2), x.size(0) * x.size(1), 4);
}
int64_t sums_span(const Tensor& x, const kernels::RandomShape& shape) {
  const int64_t rows = shape.sets == 1 ? 160 : 64;  // of a block
  return kernels::feature_span(x.size(2),
                               x.size(0) * x.size(1) * ((shape.projections + rows - 1) / rows), 2);
}
int64_t read_span(const Tensor& x) {
  return kernels::feature_span(x.size(2), x.size(0) * x.size(1), 2);
}
int64_t gradient_span(const Tensor& x) {
  return kernels::feature_span(x.size(2), x.size(0) * x.size(1), 1, 128);
}

// Pairs within a span cost the more, the longer it is; the sums of spans, the shorter.
constexpr int64_t kCausalSpan = 128;

// What the backward pass needs, one behind the other in one tensor.
struct Kept {
  Tensor all;
  int64_t sums, exact, inverse, offset, peaks;  // where each begins

  Kept(const Tensor& q, const Tensor& k, const kernels::RandomShape& shape, bool causal)
      : sums(0),
        exact(q.size(0) * q.size(1) * shape.size() * (causal ? spans_of(k, kCausalSpan) : 1)),
        inverse(exact + (causal ? q.size(0) * q.size(1) * q.size(2) * shape.depth : 0)),
        offset(inverse + q.size(0) * q.size(1) * q.size(2)),
        peaks(offset + (shape.sets == 1 ? offset - inverse : 0)) {
    const int64_t end =
        peaks + (shape.sets == 1 ? q.size(0) * q.size(1) * spans_of(k, peaks_span(k)) : 0);
    size_ = end;
  }
  Kept& allocated(const Tensor& like) {
    all = at::empty({size_}, like.options().dtype(at::kFloat));
    return *this;
  }
  Kept& given(const Tensor& kept) {
    all = kept;
    return *this;
  }
  float* at(int64_t place) const { return all.mutable_data_ptr<float>() + place; }

 private:
  int64_t size_;
};

// What the passes over queries and keys are told.
struct Sides : RandomSides {
  using RandomSides::RandomSides;

  kernels::RandomFeatures queries(const Tensor& q, const Kept& kept) const {
    auto x = features(q);
    if (how.map == RandomMap::exponential) x.offset = kept.at(kept.offset);
    return x;
  }
  kernels::RandomFeatures keys(const Tensor& k, const Kept& kept) const {
    auto x = features(k);
    if (keep.defined()) x.keep = keep.const_data_ptr<bool>();
    if (how.map == RandomMap::exponential) {
      x.peaks = kept.at(kept.peaks);
      x.peak_spans = spans_of(k, peaks_span(k));
    }
    return x;
  }
};

// to = the sums of phi(x) [scale value, column]: over all tokens, or those before or after each
// span.
void sum_up(const kernels::RandomShape& shape, const kernels::RandomFeatures& x,
            const Tensor& value, const float* scale, const float* column, float* to,
            kernels::FoldOrder order) {
  const bool all = order == kernels::FoldOrder::all;
  const int64_t batch = value.size(0), heads = value.size(1),
                span = all ? sums_span(value, shape) : kCausalSpan, spans = spans_of(value, span);
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  Tensor parts;
  if (all && spans > 1)
    parts = at::empty({batch * heads, spans, shape.size()}, value.options().dtype(at::kFloat));
  float* each = parts.defined() ? parts.mutable_data_ptr<float>() : to;
  kernels::random_sums_cuda({.shape = shape,
                             .x = x,
                             .value = by_head(value),
                             .scale = scale,
                             .column = column,
                             .sums = each,
                             .batch = batch,
                             .heads = heads,
                             .depth = value.size(3),
                             .span = span,
                             .rounded = false},
                            stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  if (all && spans == 1) return;
  kernels::feature_fold_cuda({.order = order,
                              .from = each,
                              .to = to,
                              .groups = batch * heads,
                              .spans = spans,
                              .size = shape.size()},
                             stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

kernels::CausalRandom causal_task(const Sides& sides, const Tensor& q, const Tensor& k,
                                  const Tensor& v, const Kept& kept) {
  return {.x = sides.queries(q, kept),
          .other = sides.keys(k, kept),
          .y = {},
          .other_y = by_head(v),
          .sums = kept.at(kept.sums),
          .inverse = kept.at(kept.inverse),
          .column = nullptr,
          .exact = kept.at(kept.exact),
          .batch = q.size(0),
          .heads = q.size(1),
          .depth = v.size(3),
          .span = kCausalSpan};
}

Tensor least_of_all(const Sides& sides, const Tensor& q) {
  return sides.least.defined()
             ? sides.least
             : at::full({q.size(0), q.size(2)}, kLeastWeights, q.options().dtype(at::kFloat));
}

bool fits(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega, int64_t number,
          bool causal) {
  const auto map = static_cast<RandomMap>(number);
  return has_random_kernel(q, k, v, map, omega.size(1), causal) &&
         (!causal || map != RandomMap::exponential || kernels::causal_exponential_fits());
}

RandomForward forward(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
                      const Tensor& omega, const Maybe& sigma, const Maybe& keep,
                      const Maybe& least, int64_t map, bool causal, double scale) {
  if (!fits(given_q, given_k, given_v, omega, map, causal))
    return random_product_by_aten(given_q, given_k, given_v, omega, sigma, keep, least, map, causal,
                                  scale);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto how = random_product_of(omega, sigma, keep, least, map, causal, scale);
  check_random_product(given_q, given_k, given_v, how);
  const auto q = readable_by_head(given_q), k = readable_by_head(given_k),
             v = readable_by_head(given_v);
  const Sides sides(q, v, how);
  auto out = empty_by_head(q, v.size(3));
  if (causal && how.map == RandomMap::exponential)
    return {out, causal_exponential(q, k, v, sides, out, nullptr)};
  const auto kept = Kept(q, k, sides.shape, causal).allocated(q);
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const auto keys = sides.keys(k, kept);
  if (how.map == RandomMap::exponential) {
    auto unknown = keys;
    unknown.peaks = nullptr;
    kernels::random_peaks_cuda({.shape = sides.shape,
                                .x = unknown,
                                .peaks = kept.at(kept.peaks),
                                .batch = k.size(0),
                                .heads = k.size(1),
                                .span = peaks_span(k)},
                               stream);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  sum_up(sides.shape, keys, v, nullptr, nullptr, kept.at(kept.sums),
         causal ? kernels::FoldOrder::before : kernels::FoldOrder::all);
  if (causal) {
    const auto each = least_of_all(sides, q);
    kernels::causal_random_read_cuda({.features = causal_task(sides, q, k, v, kept),
                                      .out = by_head(out),
                                      .inverse = kept.at(kept.inverse),
                                      .least = each.const_data_ptr<float>()},
                                     stream);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {out, kept.all};
  }
  kernels::random_read_cuda(
      {.shape = sides.shape,
       .x = sides.features(q),
       .sums = kept.at(kept.sums),
       .out = by_head(out),
       .inverse = kept.at(kept.inverse),
       .offset = kept.at(kept.offset),
       .batch = q.size(0),
       .heads = q.size(1),
       .depth = v.size(3),
       .span = read_span(q),
       .least = static_cast<float>(kLeastWeights),
       .least_of = sides.least.defined() ? sides.least.const_data_ptr<float>() : nullptr},
      stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, kept.all};
}

// [H, E] of the parts of two passes, [B H, spans, D] each.
Tensor summed_sigma(const Tensor& queries, const Tensor& keys, int64_t heads, int64_t width) {
  return (queries.sum(1) + keys.sum(1))
      .view({-1, heads, queries.size(2)})
      .sum(0)
      .narrow(1, 0, width);
}

RandomBackward backward_of_causal(const Tensor& g, const Tensor& q, const Tensor& k,
                                  const Tensor& v, const Sides& sides, const Kept& kept) {
  const int64_t heads = q.size(1), groups = q.size(0) * heads;
  const auto numbers = q.options().dtype(at::kFloat);
  const auto [dq, dk, dv] = empty_beside(q, k, v);
  auto column = at::empty({groups, q.size(2)}, numbers),
       dsums = at::empty({groups, spans_of(q, kCausalSpan), sides.shape.size()}, numbers),
       dsigma_q = at::empty({groups, spans_of(q, 64), sides.shape.depth}, numbers),
       dsigma_k = at::empty_like(dsigma_q);
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  auto task = causal_task(sides, q, k, v, kept);
  task.y = by_head(g);
  task.column = column.mutable_data_ptr<float>();
  kernels::causal_random_gradient_cuda({.features = task,
                                        .queries = true,
                                        .back = sides.back.const_data_ptr(),
                                        .sigma = sides.sigma.const_data_ptr<float>(),
                                        .dx = by_head(dq),
                                        .dy = {},
                                        .dsigma = dsigma_q.mutable_data_ptr<float>()},
                                       stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  sum_up(sides.shape, task.x, g, task.inverse, task.column, dsums.mutable_data_ptr<float>(),
         kernels::FoldOrder::after);
  std::swap(task.x, task.other);
  task.y = by_head(v);
  task.other_y = by_head(g);
  task.sums = dsums.const_data_ptr<float>();
  kernels::causal_random_gradient_cuda({.features = task,
                                        .queries = false,
                                        .back = sides.back.const_data_ptr(),
                                        .sigma = sides.sigma.const_data_ptr<float>(),
                                        .dx = by_head(dk),
                                        .dy = by_head(dv),
                                        .dsigma = dsigma_k.mutable_data_ptr<float>()},
                                       stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto& sigma = sides.how.sigma;
  return {dq, dk, dv,
          sigma.defined()
              ? summed_sigma(dsigma_q, dsigma_k, heads, q.size(3)).to(sigma.scalar_type())
              : at::empty({0}, q.options())};
}

RandomBackward backward(const Tensor& given_g, const Tensor& given_q, const Tensor& given_k,
                        const Tensor& given_v, const Tensor& omega, const Maybe& sigma,
                        const Maybe& keep, const Maybe& least, const Tensor& given_kept,
                        int64_t map, bool causal, double scale) {
  if (!fits(given_q, given_k, given_v, omega, map, causal))
    return random_product_backward_by_aten(given_g, given_q, given_k, given_v, omega, sigma, keep,
                                           least, given_kept, map, causal, scale);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto how = random_product_of(omega, sigma, keep, least, map, causal, scale);
  const auto g = readable_by_head(given_g), q = readable_by_head(given_q),
             k = readable_by_head(given_k), v = readable_by_head(given_v);
  const Sides sides(q, v, how);
  if (causal && how.map == RandomMap::exponential) {
    const auto gradients = empty_beside(q, k, v);
    causal_exponential_backward(g, nullptr, q, k, v, sides, given_kept, gradients);
    return {gradients.q, gradients.k, gradients.v, at::empty({0}, q.options())};
  }
  const auto kept = Kept(q, k, sides.shape, causal).given(given_kept);
  if (causal) return backward_of_causal(g, q, k, v, sides, kept);
  const bool has_sigma = how.map == RandomMap::trigonometric;
  const int64_t batch = q.size(0), heads = q.size(1), groups = batch * heads;
  const auto numbers = q.options().dtype(at::kFloat);
  const auto parts_of_sigma = [&](const Tensor& x) {
    return has_sigma
               ? at::empty({groups, spans_of(x, gradient_span(x)), sides.shape.depth}, numbers)
               : Tensor();
  };
  const auto [dq, dk, dv] = empty_beside(q, k, v);
  auto column = at::empty({groups, q.size(2)}, numbers),
       dsums = at::empty({groups, sides.shape.size()}, numbers);
  auto dsigma_q = parts_of_sigma(q), dsigma_k = parts_of_sigma(k);
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  kernels::RandomGradient task = {
      .shape = sides.shape,
      .x = sides.queries(q, kept),
      .back = has_sigma ? sides.back.const_data_ptr() : nullptr,
      .sigma = has_sigma ? sides.sigma.const_data_ptr<float>() : nullptr,
      .sums = kept.at(kept.sums),
      .y = by_head(g),
      .inverse = kept.at(kept.inverse),
      .dx = by_head(dq),
      .dy = {},
      .column = column.mutable_data_ptr<float>(),
      .dsigma = has_sigma ? dsigma_q.mutable_data_ptr<float>() : nullptr,
      .batch = batch,
      .heads = heads,
      .depth = v.size(3),
      .span = gradient_span(q)};
  kernels::random_gradient_cuda(task, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  sum_up(sides.shape, task.x, g, task.inverse, task.column, dsums.mutable_data_ptr<float>(),
         kernels::FoldOrder::all);
  task.x = sides.keys(k, kept);
  task.sums = dsums.const_data_ptr<float>();
  task.y = by_head(v);
  task.inverse = nullptr;
  task.dx = by_head(dk);
  task.dy = by_head(dv);
  task.dsigma = has_sigma ? dsigma_k.mutable_data_ptr<float>() : nullptr;
  task.span = gradient_span(k);
  kernels::random_gradient_cuda(task, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dq, dk, dv,
          how.sigma.defined()
              ? summed_sigma(dsigma_q, dsigma_k, heads, q.size(3)).to(how.sigma.scalar_type())
              : at::empty({0}, q.options())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("random_product", forward);
  m.impl("random_product_backward", backward);
}

}  // namespace
}  // namespace longbow
