#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "longbow/ops/cluster_softmax.h"

namespace longbow {
namespace {

using at::Tensor;

constexpr double kNever = -std::numeric_limits<double>::infinity();

// In float32 at least.
struct Weights {
  Tensor q, k, v, members, count;  // q is scaled; [B, H, N, C], [B, H, C, 1]
  Tensor centres, shared;          // [B, H, C, E], A [B, H, C, M]
  Tensor chosen;                   // [B, H, C, M]: 1 for the keys of T_j
  Tensor mass, own;                // m [B, H, N, 1], softmax over T_j [B, H, N, M]
};

Tensor scores_of(const Tensor& q, const Tensor& k, const Tensor& keep) {
  const auto scores = q.matmul(k.transpose(-2, -1));
  return keep.defined()
             ? scores.masked_fill(keep.logical_not().view({-1, 1, 1, keep.size(1)}), kNever)
             : scores;
}

// Those of the mean queries alone, where there are no chosen keys.
Weights weights_of(const Tensor& q, const Tensor& k, const ClusterMembers& of, const Tensor& top,
                   const Tensor& keep, double scale) {
  const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Weights w;
  w.q = q.to(type) * scale;
  w.k = k.to(type);
  w.members = (of.cluster.unsqueeze(-1) == at::arange(of.count, of.cluster.options())).to(type);
  w.count = w.members.sum(2).clamp_min(1).unsqueeze(-1);
  w.centres = w.members.transpose(-2, -1).matmul(w.q) / w.count;
  w.shared = at::_safe_softmax(scores_of(w.centres, w.k, keep), -1);
  if (!top.defined()) return w;
  w.chosen = at::zeros_like(w.shared).scatter(-1, top, 1);
  w.mass = w.members.matmul((w.shared * w.chosen).sum(-1, true));
  w.own = at::_safe_softmax(
      scores_of(w.q, w.k, keep).masked_fill(w.members.matmul(w.chosen) == 0, kNever), -1);
  return w;
}

}  // namespace

Tensor cluster_keys_formula(const Tensor& q, const Tensor& k, const ClusterMembers& members,
                            const Tensor& keep, int64_t top, double scale) {
  const auto w = weights_of(q, k, members, {}, keep, scale);
  const auto scores = scores_of(w.centres, w.k, keep);
  return std::get<1>(scores.topk(std::min(top, k.size(2)), -1));
}

Tensor cluster_softmax_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                               const ClusterMembers& members, const Tensor& top, const Tensor& keep,
                               double scale) {
  const auto w = weights_of(q, k, members, top, keep, scale);
  const auto all = w.members.matmul(w.shared * (1 - w.chosen)) + w.mass * w.own;
  return all.matmul(v.to(all.scalar_type())).to(v.scalar_type());
}

// With g = dout and G_j the sum of g_i over a cluster, dA_jl is G_j . v_l, but for chosen keys the
// sum over members of what their own softmax reads times g_i.
ClusterGradients cluster_softmax_formula_backward(const Tensor& dout, const Tensor& q,
                                                  const Tensor& k, const Tensor& v,
                                                  const ClusterMembers& members, const Tensor& top,
                                                  const Tensor& keep, double scale) {
  const auto w = weights_of(q, k, members, top, keep, scale);
  const auto type = w.q.scalar_type();
  const auto g = dout.to(type), gathered = w.members.transpose(-2, -1);
  const auto dweights = g.matmul(v.to(type).transpose(-2, -1));  // [B, H, N, M]
  const auto read = (w.own * dweights).sum(-1, true);
  const auto ds = w.mass * w.own * (dweights - read);
  const auto dshared =
      gathered.matmul(dweights) * (1 - w.chosen) + gathered.matmul(read) * w.chosen;
  const auto dscores = at::_softmax_backward_data(dshared, w.shared, -1, type);
  const auto dq = ds.matmul(w.k) + w.members.matmul(dscores.matmul(w.k) / w.count);
  const auto dk = ds.transpose(-2, -1).matmul(w.q) + dscores.transpose(-2, -1).matmul(w.centres);
  const auto all = w.members.matmul(w.shared * (1 - w.chosen)) + w.mass * w.own;
  return {(dq * scale).to(q.scalar_type()), dk.to(k.scalar_type()),
          all.transpose(-2, -1).matmul(g).to(v.scalar_type())};
}

}  // namespace longbow
