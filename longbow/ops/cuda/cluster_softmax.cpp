#include "longbow/ops/cluster_softmax.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "longbow/kernels/cluster_softmax.h"
#include "longbow/kernels/head_span.h"
#include "longbow/ops/cuda/pack_task.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Tensor dense(const Maybe& keep) {
  return keep ? keep->contiguous() : Tensor();
}
const bool* data_of(const Tensor& keep) {
  return keep.defined() ? keep.const_data_ptr<bool>() : nullptr;
}
void* stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

kernels::ClusterMembers task_of(const Tensor& order, const Tensor& first) {
  return {.batch = order.size(0),
          .heads = order.size(1),
          .queries = order.size(2),
          .clusters = first.size(2) - 1,
          .order = order.const_data_ptr<int64_t>(),
          .first = first.const_data_ptr<int64_t>()};
}

Tensor means_of(const Tensor& q, const kernels::ClusterMembers& members, double scale) {
  const auto centres = at::empty({q.size(0), q.size(1), members.clusters, q.size(3)}, q.options());
  kernels::cluster_means_cuda({.type = element_of(q),
                               .members = members,
                               .width = q.size(3),
                               .q = rows_of(q),
                               .scale = static_cast<float>(scale),
                               .centres = centres.mutable_data_ptr()},
                              stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return centres;
}

Tensor keys(const Tensor& given_q, const Tensor& given_k, const Tensor& cluster,
            const Tensor& given_order, const Tensor& given_first, const Maybe& given_keep,
            int64_t given_top, double scale) {
  const int64_t clusters = given_first.size(2) - 1, m = given_k.size(2),
                top = std::min(given_top, m);
  if (!has_cluster_kernel(given_q, given_k, given_k, clusters, top))
    return cluster_keys_formula(given_q, given_k, {cluster, given_order, given_first, clusters},
                                given_keep.value_or(Tensor()), top, scale);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), k = with_rows(given_k), order = given_order.contiguous(),
             first = given_first.contiguous(), keep = dense(given_keep);
  const auto members = task_of(order, first);
  const auto centres = means_of(q, members, scale);
  const int64_t stride = (m + 1) / 2 * 2;
  const auto scores =
      at::empty({q.size(0), q.size(1), clusters, stride}, q.options().dtype(at::kFloat));
  const auto chosen = at::empty({q.size(0), q.size(1), clusters, top}, order.options());
  kernels::cluster_keys_cuda({.type = element_of(q),
                              .batch = q.size(0),
                              .heads = q.size(1),
                              .clusters = clusters,
                              .keys = m,
                              .width = q.size(3),
                              .top = top,
                              .centres = centres.const_data_ptr(),
                              .k = rows_of(k),
                              .keep = data_of(keep),
                              .span = kernels::head_span(q.size(0) * q.size(1), m),
                              .stride = stride,
                              .scores = scores.mutable_data_ptr<float>(),
                              .chosen = chosen.mutable_data_ptr<int64_t>()},
                             stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return chosen;
}

// Everything that the kernels read, without gaps.
struct Given {
  Tensor q, k, v, order, first, top, keep;
  double scale;

  kernels::ClusterSoftmax task(const Tensor& centres, const Tensor& means,
                               const Tensor& log_sum) const {
    return {.type = element_of(q),
            .members = task_of(order, first),
            .top = top.size(3),
            .width = q.size(3),
            .value_width = v.size(3),
            .keys = k.size(2),
            .q = rows_of(q),
            .k = rows_of(k),
            .v = rows_of(v),
            .keep = data_of(keep),
            .chosen = top.const_data_ptr<int64_t>(),
            .scale = static_cast<float>(scale),
            .centres = centres.const_data_ptr(),
            .means = means.const_data_ptr<float>(),
            .log_sum = log_sum.const_data_ptr<float>(),
            .out = {}};
  }
};

Four forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& cluster,
             const Tensor& order, const Tensor& first, const Tensor& top, const Maybe& keep,
             double scale) {
  const auto sums = q.options().dtype(at::kFloat);
  const int64_t clusters = first.size(2) - 1;
  if (!has_cluster_kernel(q, k, v, clusters, top.size(3)))
    return {cluster_softmax_formula(q, k, v, {cluster, order, first, clusters}, top,
                                    keep.value_or(Tensor()), scale),
            at::empty({0}, q.options()), at::empty({0}, sums), at::empty({0}, sums)};
  const c10::cuda::CUDAGuard guard(q.device());
  const Given given = {with_rows(q),       with_rows(k),     with_rows(v), order.contiguous(),
                       first.contiguous(), top.contiguous(), dense(keep),  scale};
  const auto centres = means_of(given.q, task_of(given.order, given.first), scale),
             log_sum = at::empty({q.size(0), q.size(1), clusters, 1}, sums),
             means = pack_read(centres, given.k, given.v, given.keep, log_sum);
  const auto out = empty_rows(given.q, v.size(3));
  auto task = given.task(centres, means, log_sum);
  task.out = results_of(out);
  kernels::cluster_softmax_cuda(task, stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, centres, means, log_sum};
}

// The gradients of chosen keys, in float32, and which clusters chose a key.
struct Chosen {
  Tensor k, v, choosers;

  explicit Chosen(const Given& of) {
    const auto& t = of.top;
    const auto sums = of.q.options().dtype(at::kFloat);
    k = at::empty({t.size(0), t.size(1), t.size(2), t.size(3), of.q.size(3)}, sums);
    v = at::empty({t.size(0), t.size(1), t.size(2), t.size(3), of.v.size(3)}, sums);
    choosers = at::zeros({t.size(0), t.size(1), of.k.size(2), kernels::kWordsOfClusters},
                         sums.dtype(at::kInt));
  }
  unsigned* words() const {
    return reinterpret_cast<unsigned*>(choosers.mutable_data_ptr<int32_t>());
  }
  void add_to(const Given& of, const Tensor& dk, const Tensor& dv) const {
    kernels::cluster_keys_backward_cuda({.type = element_of(of.q),
                                         .batch = k.size(0),
                                         .heads = k.size(1),
                                         .clusters = k.size(2),
                                         .keys = of.k.size(2),
                                         .top = k.size(3),
                                         .width = k.size(4),
                                         .value_width = v.size(4),
                                         .chosen = of.top.const_data_ptr<int64_t>(),
                                         .choosers = words(),
                                         .from_k = k.const_data_ptr<float>(),
                                         .from_v = v.const_data_ptr<float>(),
                                         .dk = results_of(dk),
                                         .dv = results_of(dv)},
                                        stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

// Each cluster first, then its centre over all keys, whose gradient goes to the members at last.
Three by_kernels(const Tensor& dout, const Given& given, const Tensor& centres, const Tensor& means,
                 const Tensor& log_sum) {
  const auto past = given.task(centres, means, log_sum);
  auto pack = pack_task(centres, given.k, given.v, given.keep, log_sum);
  const int64_t spans = kernels::spans_of(pack.keys, pack.span);
  const auto dmeans = at::empty(means.sizes(), given.q.options()), delta = at::empty_like(log_sum),
             dcentres = at::empty(
                 {spans + 1, centres.size(0), centres.size(1), centres.size(2), centres.size(3)},
                 means.options());
  const auto [dq, dk, dv] = empty_as(given.q, given.k, given.v);
  const Chosen chosen(given);
  kernels::cluster_softmax_backward_cuda({.past = past,
                                          .dout = rows_of(dout),
                                          .dq = results_of(dq),
                                          .dk = chosen.k.mutable_data_ptr<float>(),
                                          .dv = chosen.v.mutable_data_ptr<float>(),
                                          .dmeans = dmeans.mutable_data_ptr(),
                                          .delta = delta.mutable_data_ptr<float>(),
                                          .dcentres = dcentres[spans].mutable_data_ptr<float>(),
                                          .choosers = chosen.words()},
                                         stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  kernels::pack_softmax_backward_cuda({.past = pack,
                                       .dout = rows_of(dmeans),
                                       .delta = delta.const_data_ptr<float>(),
                                       .dq = dcentres.mutable_data_ptr<float>(),
                                       .dk = results_of(dk),
                                       .dv = results_of(dv)},
                                      stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  kernels::cluster_means_backward_cuda({.type = past.type,
                                        .members = past.members,
                                        .width = past.width,
                                        .scale = past.scale,
                                        .parts = spans + 1,
                                        .dcentres = dcentres.const_data_ptr<float>(),
                                        .dq = results_of(dq)},
                                       stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  if (past.top > 0) chosen.add_to(given, dk, dv);
  return {dq, dk, dv};
}

Three backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& cluster, const Tensor& order, const Tensor& first, const Tensor& top,
               const Maybe& keep, const Tensor& centres, const Tensor& means, const Tensor& log_sum,
               double scale) {
  if (!has_cluster_kernel(q, k, v, first.size(2) - 1, top.size(3))) {
    const auto d =
        cluster_softmax_formula_backward(dout, q, k, v, {cluster, order, first, first.size(2) - 1},
                                         top, keep.value_or(Tensor()), scale);
    return {d.q, d.k, d.v};
  }
  const c10::cuda::CUDAGuard guard(q.device());
  const Given given = {with_rows(q),       with_rows(k),     with_rows(v), order.contiguous(),
                       first.contiguous(), top.contiguous(), dense(keep),  scale};
  return by_kernels(with_rows(dout), given, centres, means, log_sum);
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("cluster_keys", keys);
  m.impl("cluster_softmax", forward);
  m.impl("cluster_softmax_backward", backward);
}

}  // namespace
}  // namespace longbow
