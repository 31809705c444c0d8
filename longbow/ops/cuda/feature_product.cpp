#include "longbow/ops/feature_product.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/ops/cuda/by_head.h"
#include "longbow/ops/cuda/rows.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;

// Tensors of the options as the kernel reads them; it holds what their addresses point to.
struct Sides {
  Tensor keep, query_turns, key_turns;

  explicit Sides(const FeatureProduct& how)
      : keep(how.keep.defined() ? how.keep.contiguous() : how.keep),
        query_turns(dense(how.query_turns)),
        key_turns(dense(how.key_turns)) {}
  static Tensor dense(const Tensor& turns) {
    return turns.defined() ? dense_rows(turns.to(at::kFloat)) : turns;
  }
  static kernels::Features features(const Tensor& x, FeatureMap map, const Tensor& turns,
                                    const Tensor& keep) {
    return {.x = by_head(x),
            .tokens = x.size(2),
            .width = x.size(3),
            .map = map,
            .turns = turns.defined() ? turns.const_data_ptr<float>() : nullptr,
            .turns_batch = turns.defined() && turns.size(0) > 1 ? turns.stride(0) : 0,
            .keep = keep.defined() ? keep.const_data_ptr<bool>() : nullptr};
  }
  kernels::Features queries(const Tensor& q, const FeatureProduct& how) const {
    return features(q, how.query_map, query_turns, {});
  }
  kernels::Features keys(const Tensor& k, const FeatureProduct& how) const {
    return features(k, how.key_map, key_turns, keep);
  }
};

// Pairs within a span cost the more, the longer it is; the sums of spans, the shorter.
constexpr int64_t kCausalSpan = 128;

// The sums of phi(x) [scale value, column]: over all tokens, or those before or after each span.
Tensor summed(const kernels::FeatureShape& shape, const kernels::Features& x, const Tensor& value,
              const Tensor& scale, const Tensor& column, kernels::FoldOrder order) {
  const bool all = order == kernels::FoldOrder::all;
  const int64_t batch = value.size(0), heads = value.size(1), groups = batch * heads,
                span = all ? kernels::feature_sums_span(shape, x.tokens, groups) : kCausalSpan,
                spans = (x.tokens + span - 1) / span;
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  auto parts = at::empty({groups, spans, shape.size()}, value.options().dtype(at::kFloat));
  kernels::feature_sums_cuda({.shape = shape,
                              .x = x,
                              .value = by_head(value),
                              .scale = scale.defined() ? scale.const_data_ptr<float>() : nullptr,
                              .column = column.defined() ? column.const_data_ptr<float>() : nullptr,
                              .sums = parts.mutable_data_ptr<float>(),
                              .batch = batch,
                              .heads = heads,
                              .depth = value.size(3),
                              .span = span},
                             stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  if (all && spans == 1) return parts;
  auto sums = all ? at::empty({groups, shape.size()}, parts.options()) : parts;
  kernels::feature_fold_cuda({.order = order,
                              .from = parts.const_data_ptr<float>(),
                              .to = sums.mutable_data_ptr<float>(),
                              .groups = groups,
                              .spans = spans,
                              .size = shape.size()},
                             stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return sums;
}

Three forward(const Tensor& given_q, const Tensor& given_k, const Tensor& given_v,
              const Maybe& keep, const Maybe& query_turns, const Maybe& key_turns, bool causal,
              at::IntArrayRef maps, at::ArrayRef<double> bounds) {
  const auto how = feature_product_of(keep, query_turns, key_turns, causal, maps, bounds);
  if (!has_feature_kernel(given_q, given_k, given_v, how))
    return feature_product_by_aten(given_q, given_k, given_v, keep, query_turns, key_turns, causal,
                                   maps, bounds);
  const c10::cuda::CUDAGuard guard(given_q.device());
  check_feature_product(given_q, given_k, given_v, how);
  const auto q = readable_by_head(given_q), k = readable_by_head(given_k),
             v = readable_by_head(given_v);
  const Sides sides(how);
  const auto shape = kernels::feature_shape(q.size(3), how.query_turns.defined(), v.size(3));
  const auto keys = sides.keys(k, how), queries = sides.queries(q, how);
  const auto sums =
      summed(shape, keys, v, {}, {}, causal ? kernels::FoldOrder::before : kernels::FoldOrder::all);
  auto out = empty_by_head(q, v.size(3));
  auto inverse = at::empty({q.size(0), q.size(1), q.size(2)}, sums.options());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const auto added = static_cast<float>(how.added), least = static_cast<float>(how.least);
  if (causal)
    kernels::causal_read_cuda({.features = {.shape = shape,
                                            .x = queries,
                                            .other = keys,
                                            .y = {},
                                            .other_y = by_head(v),
                                            .sums = sums.const_data_ptr<float>(),
                                            .inverse = nullptr,
                                            .column = nullptr,
                                            .batch = q.size(0),
                                            .heads = q.size(1),
                                            .depth = v.size(3),
                                            .span = kCausalSpan},
                               .out = by_head(out),
                               .inverse = inverse.mutable_data_ptr<float>(),
                               .normalised = how.normalised,
                               .added = added,
                               .least = least},
                              stream);
  else
    kernels::feature_read_cuda({.shape = shape,
                                .x = queries,
                                .sums = sums.const_data_ptr<float>(),
                                .out = by_head(out),
                                .inverse = inverse.mutable_data_ptr<float>(),
                                .batch = q.size(0),
                                .heads = q.size(1),
                                .depth = v.size(3),
                                .normalised = how.normalised,
                                .added = added,
                                .least = least},
                               stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, inverse, sums};
}

// Where it was normalised, the inverses, and a place for the columns of the queries; else these are
// the gradient of the weights' sums.
struct Divided {
  Tensor inverse, column;
  Divided(const Tensor& given, bool normalised)
      : inverse(normalised ? given : Tensor()),
        column(normalised ? at::empty_like(given) : given.to(at::kFloat).contiguous()) {}
  const float* inverse_data() const {
    return inverse.defined() ? inverse.const_data_ptr<float>() : nullptr;
  }
};

// First the queries, which also give the sums' gradients their column, then the keys.
Three backward_of_all(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                      const Divided& by, const Tensor& sums, const FeatureProduct& how) {
  const Sides sides(how);
  const auto shape = kernels::feature_shape(q.size(3), how.query_turns.defined(), v.size(3));
  const auto [dq, dk, dv] = empty_beside(q, k, v);
  kernels::FeatureGradient task = {.shape = shape,
                                   .x = sides.queries(q, how),
                                   .sums = sums.const_data_ptr<float>(),
                                   .y = by_head(g),
                                   .queries = true,
                                   .inverse = by.inverse_data(),
                                   .dx = by_head(dq),
                                   .dy = {},
                                   .column = by.column.mutable_data_ptr<float>(),
                                   .batch = q.size(0),
                                   .heads = q.size(1),
                                   .depth = v.size(3)};
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  kernels::feature_gradient_cuda(task, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto dsums = summed(shape, task.x, g, by.inverse, by.column, kernels::FoldOrder::all);
  task.x = sides.keys(k, how);
  task.sums = dsums.const_data_ptr<float>();
  task.y = by_head(v);
  task.queries = false;
  task.inverse = nullptr;
  task.dx = by_head(dk);
  task.dy = by_head(dv);
  kernels::feature_gradient_cuda(task, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dq, dk, dv};
}

Three backward_of_causal(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v,
                         const Divided& by, const Tensor& sums, const FeatureProduct& how) {
  const Sides sides(how);
  const auto shape = kernels::feature_shape(q.size(3), how.query_turns.defined(), v.size(3));
  const auto keys = sides.keys(k, how), queries = sides.queries(q, how);
  const auto [dq, dk, dv] = empty_beside(q, k, v);
  kernels::CausalFeatures features = {.shape = shape,
                                      .x = queries,
                                      .other = keys,
                                      .y = by_head(g),
                                      .other_y = by_head(v),
                                      .sums = sums.const_data_ptr<float>(),
                                      .inverse = by.inverse_data(),
                                      .column = by.column.mutable_data_ptr<float>(),
                                      .batch = q.size(0),
                                      .heads = q.size(1),
                                      .depth = v.size(3),
                                      .span = kCausalSpan};
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  kernels::causal_gradient_cuda(
      {.features = features, .queries = true, .dx = by_head(dq), .dy = {}}, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto dsums = summed(shape, queries, g, by.inverse, by.column, kernels::FoldOrder::after);
  features.x = keys;
  features.other = queries;
  features.y = by_head(v);
  features.other_y = by_head(g);
  features.sums = dsums.const_data_ptr<float>();
  kernels::causal_gradient_cuda(
      {.features = features, .queries = false, .dx = by_head(dk), .dy = by_head(dv)}, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dq, dk, dv};
}

Three backward(const Tensor& given_g, const Tensor& given_q, const Tensor& given_k,
               const Tensor& given_v, const Tensor& inverse, const Tensor& sums, const Maybe& keep,
               const Maybe& query_turns, const Maybe& key_turns, bool causal, at::IntArrayRef maps,
               at::ArrayRef<double> bounds) {
  const auto how = feature_product_of(keep, query_turns, key_turns, causal, maps, bounds);
  if (!has_feature_kernel(given_q, given_k, given_v, how))
    return feature_product_backward_by_aten(given_g, given_q, given_k, given_v, inverse, sums, keep,
                                            query_turns, key_turns, causal, maps, bounds);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto by_kind = causal ? backward_of_causal : backward_of_all;
  return by_kind(readable_by_head(given_g), readable_by_head(given_q), readable_by_head(given_k),
                 readable_by_head(given_v), Divided(inverse, how.normalised), sums, how);
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("feature_product", forward);
  m.impl("feature_product_backward", backward);
}

}  // namespace
}  // namespace longbow
