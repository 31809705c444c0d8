#include "longbow/ops/cluster_softmax.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "longbow/kernels/cluster_softmax.h"
#include "longbow/kernels/pack_softmax.h"
#include "longbow/ops/bucket_orders.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Maybe optional(const Tensor& x) {
  return x.defined() ? Maybe(x) : std::nullopt;
}
ClusterMembers members_of(const Tensor& cluster, const Tensor& order, const Tensor& first) {
  return {cluster, order, first, first.size(2) - 1};
}

Tensor keys_on_cpu(const Tensor& q, const Tensor& k, const Tensor& cluster, const Tensor& order,
                   const Tensor& first, const Maybe& keep, int64_t top, double scale) {
  return cluster_keys_formula(q, k, members_of(cluster, order, first), keep.value_or(Tensor()), top,
                              scale);
}
Tensor keys_on_meta(const Tensor&, const Tensor& k, const Tensor& cluster, const Tensor&,
                    const Tensor& first, const Maybe&, int64_t top, double) {
  return at::empty({k.size(0), k.size(1), first.size(2) - 1, std::min(top, k.size(2))},
                   cluster.options());
}

// out; the mean queries and, in float32, what they read of all keys and the logarithms of the sums,
// which are empty where the backward pass does not read them.
Four on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& cluster,
            const Tensor& order, const Tensor& first, const Tensor& top, const Maybe& keep,
            double scale) {
  const auto none = at::empty({0}, q.options());
  return {cluster_softmax_formula(q, k, v, members_of(cluster, order, first), top,
                                  keep.value_or(Tensor()), scale),
          none, at::empty({0}, q.options().dtype(at::kFloat)),
          at::empty({0}, q.options().dtype(at::kFloat))};
}
Three backward_on_cpu(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                      const Tensor& cluster, const Tensor& order, const Tensor& first,
                      const Tensor& top, const Maybe& keep, const Tensor&, const Tensor&,
                      const Tensor&, double scale) {
  const auto d = cluster_softmax_formula_backward(dout, q, k, v, members_of(cluster, order, first),
                                                  top, keep.value_or(Tensor()), scale);
  return {d.q, d.k, d.v};
}

Four on_meta(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, const Tensor&,
             const Tensor& first, const Tensor&, const Maybe&, double) {
  const int64_t b = q.size(0), h = q.size(1), clusters = first.size(2) - 1;
  const auto sums = q.options().dtype(at::kFloat);
  return {at::empty({b, h, q.size(2), v.size(3)}, v.options()),
          at::empty({b, h, clusters, q.size(3)}, q.options()),
          at::empty({b, h, clusters, v.size(3)}, sums), at::empty({b, h, clusters, 1}, sums)};
}
Three backward_on_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Maybe&,
                       const Tensor&, const Tensor&, const Tensor&, double) {
  return {at::empty_like(q), at::empty_like(k), at::empty_like(v)};
}

Four call(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& cluster,
          const Tensor& order, const Tensor& first, const Tensor& top, const Maybe& keep,
          double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::cluster_softmax", "")
                             .typed<decltype(on_cpu)>();
  return op.call(q, k, v, cluster, order, first, top, keep, scale);
}
Three call_backward(const Tensor& dout, const TensorVector& kept, double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::cluster_softmax_backward", "")
                             .typed<decltype(backward_on_cpu)>();
  return op.call(dout, kept[0], kept[1], kept[2], kept[3], kept[4], kept[5], kept[6],
                 optional(kept[7]), kept[8], kept[9], kept[10], scale);
}

struct Gradient : Differentiable {
  explicit Gradient(double given) : scale(given) {}
  const double scale;

  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, centres, means, log_sum] =
        call(inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], inputs[5], inputs[6],
             optional(inputs[7]), scale);
    auto kept = inputs;
    kept.insert(kept.end(), {centres, means, log_sum});
    save(kept);
    no_gradient_of({centres, means, log_sum});
    return {out, centres, means, log_sum};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "cluster_softmax has no second derivative");
    const auto [dq, dk, dv] = call_backward(gradients[0], saved(), scale);
    return {dq, dk, dv, {}, {}, {}, {}, {}};
  }
};

Four with_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& cluster,
                   const Tensor& order, const Tensor& first, const Tensor& top, const Maybe& keep,
                   double scale) {
  if (!wants_gradient(q, k, v)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(q, k, v, cluster, order, first, top, keep, scale);
  }
  const auto found =
      applied<Gradient>({q, k, v, cluster, order, first, top, keep.value_or(Tensor())}, scale);
  return {found[0], found[1], found[2], found[3]};
}
Three backward_with_gradient(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Tensor& cluster, const Tensor& order, const Tensor& first,
                             const Tensor& top, const Maybe& keep, const Tensor& centres,
                             const Tensor& means, const Tensor& log_sum, double scale) {
  TORCH_CHECK(!wants_gradient(dout, q, k, v), "cluster_softmax has no second derivative");
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_backward(
      dout, {q, k, v, cluster, order, first, top, keep.value_or(Tensor()), centres, means, log_sum},
      scale);
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "cluster_keys(Tensor q, Tensor k, Tensor cluster, Tensor order, Tensor first, Tensor? keep, "
      "int top, float scale) -> Tensor");
  m.def(
      "cluster_softmax(Tensor q, Tensor k, Tensor v, Tensor cluster, Tensor order, Tensor first, "
      "Tensor top, Tensor? keep, float scale) -> (Tensor out, Tensor centres, Tensor means, Tensor "
      "log_sum)");
  m.def(
      "cluster_softmax_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor cluster, Tensor "
      "order, Tensor first, Tensor top, Tensor? keep, Tensor centres, Tensor means, Tensor "
      "log_sum, float scale) -> (Tensor dq, Tensor dk, Tensor dv)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("cluster_keys", keys_on_cpu);
  m.impl("cluster_softmax", on_cpu);
  m.impl("cluster_softmax_backward", backward_on_cpu);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("cluster_keys", keys_on_meta);
  m.impl("cluster_softmax", on_meta);
  m.impl("cluster_softmax_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("cluster_softmax", with_gradient);
  m.impl("cluster_softmax_backward", backward_with_gradient);
}

void check(const std::string& name, const Tensor& q, const Tensor& k, const ClusterMembers& members,
           const Tensor& keep) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && k.sizes().slice(0, 2) == q.sizes().slice(0, 2) &&
                  k.size(3) == q.size(3) && members.cluster.sizes() == q.sizes().slice(0, 3),
              name, ": q is ", q.sizes(), ", k ", k.sizes(), ", clusters ",
              members.cluster.sizes());
  TORCH_CHECK(!keep.defined() || (keep.dim() == 2 && keep.scalar_type() == at::kBool &&
                                  keep.size(0) == k.size(0) && keep.size(1) == k.size(2)),
              name, ": keep is ", keep.sizes(), ", but k is ", k.sizes());
}

}  // namespace

ClusterMembers cluster_members(const Tensor& cluster, int64_t count) {
  TORCH_CHECK(cluster.dim() == 3 && count > 0, "cluster_members: cluster is ", cluster.sizes(),
              " of ", count);
  const auto order = bucket_orders(cluster, count + 1).order;
  const auto each = at::arange(count + 1, cluster.options())
                        .expand({cluster.size(0), cluster.size(1), count + 1})
                        .contiguous();
  return {cluster, order, at::searchsorted(cluster.gather(-1, order), each), count};
}

Tensor cluster_keys(const Tensor& q, const Tensor& k, const ClusterMembers& members,
                    const Tensor& keep, int64_t top, double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::cluster_keys", "")
                             .typed<decltype(keys_on_cpu)>();
  check("cluster_keys", q, k, members, keep);
  TORCH_CHECK(top > 0, "cluster_keys: ", top, " keys of each cluster");
  const at::NoGradGuard constant;
  return op.call(q, k, members.cluster, members.order, members.first, optional(keep), top, scale);
}

Tensor cluster_softmax(const Tensor& q, const Tensor& k, const Tensor& v,
                       const ClusterMembers& members, const Tensor& top, const Tensor& keep,
                       double scale) {
  check("cluster_softmax", q, k, members, keep);
  TORCH_CHECK(v.dim() == 4 && v.sizes().slice(0, 3) == k.sizes().slice(0, 3) && top.dim() == 4 &&
                  top.sizes().slice(0, 2) == q.sizes().slice(0, 2) &&
                  top.size(2) == members.count && top.size(3) <= k.size(2),
              "cluster_softmax: k is ", k.sizes(), ", v ", v.sizes(), ", top ", top.sizes(),
              " for ", members.count, " clusters");
  return std::get<0>(
      call(q, k, v, members.cluster, members.order, members.first, top, optional(keep), scale));
}

bool has_cluster_kernel(const Tensor& q, const Tensor& k, const Tensor& v, int64_t clusters,
                        int64_t top) {
  constexpr int64_t kMostTokens = int64_t{1} << 30;  // the kernels count in 32 bits
  const auto type = q.scalar_type();
  for (const auto& x : {q, k, v})
    if (!x.is_cuda() || x.scalar_type() != type || x.dim() != 4 || x.numel() == 0 ||
        x.size(2) >= kMostTokens || x.size(3) % 8 != 0 || x.size(3) > kernels::kMostClusterWidth)
      return false;
  return (type == at::kBFloat16 || type == at::kHalf) && clusters <= kernels::kMostPackQueries &&
         std::min(top, k.size(2)) <= kernels::kMostClusterKeys &&
         k.sizes().slice(0, 2) == q.sizes().slice(0, 2) &&
         v.sizes().slice(0, 3) == k.sizes().slice(0, 3);
}

}  // namespace longbow
