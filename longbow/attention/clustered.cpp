// Clustered attention (Vyas, Katharopoulos and Fleuret, 2020, arXiv:2007.04825): queries with like
// hashes are one cluster, and the mean query of a cluster attends for all of its members:
//   c_j = mean of q_i over cluster j,   A_j = softmax(c_j K^T / sqrt D),   o_i = A_z(i) V.
// Improved: on the T_j keys that weigh most for c_j, members share the mass m_j = sum_{l in T_j}
// A_jl by their own scores; the other keys keep A_j:
//   o_i = m_j sum_{l in T_j} softmax_l(q_i . k_l / sqrt D) v_l + sum_{l not in T_j} A_jl v_l.
// Exact when every query is its own cluster, or T_j holds all keys.
#include <ATen/ATen.h>

#include <cmath>

#include "longbow/attention/clustered/group_tiles.h"
#include "longbow/attention/mechanism.h"
#include "longbow/nn/features/random_features.h"
#include "longbow/nn/softmax/softmax.h"
#include "longbow/ops/cluster_softmax.h"
#include "longbow/ops/hamming_clusters.h"

namespace longbow {
namespace {

struct Config {
  int64_t clusters = 100, top = 32, bits = 32, iterations = 10, redraw = 1;
  double dropout = 0;
};
template <class V>
void fields(V& v, Config& c) {
  v("clusters", c.clusters, "clusters of queries", range(1, 65536));
  v("top", c.top, "keys that members weigh by their own scores; 0 = the plain form",
    range(0, 65536));
  v("bits", c.bits, "of a query's hash", range(1, 1024));
  v("iterations", c.iterations, "of k-means over the hashes", range(0, 1000));
  v("redraw", c.redraw, "training steps between two draws of the hash; 0 = never", at_least(0));
  v("dropout", c.dropout, "rate on the attention weights", range(0, 0.99));
}

class Clustered : public AttentionImpl {
 public:
  Clustered(const Site& site, const Config& config)
      : config_(config),
        path_(site.path),
        scale_(1 / std::sqrt(static_cast<double>(site.shape.head()))),
        planes_(*this, site, "planes",
                {.rows = config.bits,
                 .width = site.shape.head() + 1,
                 .orthogonal = false,
                 .redraw = config.redraw}) {}

  Tensor attend(const Heads& heads, Context& context) override {
    const auto cluster =
        context.pick(path_ + ".clusters", [&] { return clusters_of(heads.q, context); });
    const bool drops = is_training() && config_.dropout > 0;
    if (!drops && !context.maps &&
        has_cluster_kernel(heads.q, heads.k, heads.v, config_.clusters, config_.top))
      return read_at_once(heads, cluster, context);
    const auto type = wide(heads.q);
    const auto q = heads.q.to(type) * scale_, k = heads.k.to(type), v = heads.v.to(type);
    const auto members = memberships(cluster, config_.clusters, type);  // [B, H, N, clusters]
    const auto count = members.sum(2).clamp_min(1).unsqueeze(-1);
    const auto centres = members.transpose(-2, -1).matmul(q) / count;  // [B, H, clusters, D]
    const auto weights =
        masked_softmax(centres.matmul(k.transpose(-2, -1)), visible_keys(context.mask.keep));
    if (context.maps) (*context.maps)[path_] = members.detach().matmul(weights.detach());
    const auto kept = dropout(weights, config_.dropout, is_training(), context, path_ + ".dropout");
    if (config_.top == 0) return members.matmul(kept.matmul(v)).to(heads.v.scalar_type());
    const auto top = context.pick(path_ + ".top", [&] {
      return std::get<1>(weights.detach().topk(std::min(config_.top, k.size(2)), -1));
    });
    const auto rest = members.matmul(kept.scatter(-1, top, 0).matmul(v));
    const auto mass = weights.gather(-1, top).sum(-1);  // [B, H, clusters]
    return (rest + by_own_scores(q, k, v, cluster, top, mass, context)).to(heads.v.scalar_type());
  }

  void after_step(int64_t step) override { planes_.after_step(step); }

 private:
  Tensor clusters_of(const Tensor& q, const Context& context) const {
    const auto& mask = context.mask;
    const auto real =
        mask.query_keep.defined() || context.memory.defined() ? mask.query_keep : mask.keep;
    return hamming_clusters(q, (*planes_)[0], real, config_.clusters, config_.iterations);
  }

  Tensor read_at_once(const Heads& heads, const Tensor& cluster, const Context& context) const {
    const auto members = cluster_members(cluster, config_.clusters);
    const auto& keep = context.mask.keep;
    const auto top =
        config_.top == 0
            ? at::empty({cluster.size(0), cluster.size(1), config_.clusters, 0}, cluster.options())
            : context.pick(path_ + ".top", [&] {
                return cluster_keys(heads.q, heads.k, members, keep, config_.top, scale_);
              });
    return cluster_softmax(heads.q, heads.k, heads.v, members, top, keep, scale_);
  }

  // m_j softmax(q_i k_l) v_l over the keys [B, H, clusters, T] of a query's cluster. Tiles of
  // queries of one cluster share these keys.
  Tensor by_own_scores(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& cluster,
                       const Tensor& top, const Tensor& mass, Context& context) const {
    const GroupTiles tiles(cluster, config_.clusters, kTile);
    const int64_t keys = top.size(3), count = tiles.owner().size(2);
    const auto owner = tiles.owner().unsqueeze(-1);  // [B, H, K, 1]
    const auto index = top.gather(2, owner.expand({-1, -1, -1, keys})).flatten(2);
    const auto shared = [&](const Tensor& x) {  // [B, H, K, T, D]
      return x.gather(2, index.unsqueeze(-1).expand({-1, -1, -1, x.size(3)}))
          .unflatten(2, {count, keys});
    };
    Tensor visible;
    if (context.mask.keep.defined())
      visible = context.mask.keep.unsqueeze(1)
                    .expand({-1, q.size(1), -1})
                    .gather(2, index)
                    .view({q.size(0), q.size(1), count, 1, keys});
    const auto y = softmax_read(tiles.cut(q), shared(k), shared(v), visible,
                                {config_.dropout, is_training(), path_ + ".top"}, context);
    return tiles.rows(y * mass.gather(2, tiles.owner()).unsqueeze(-1).unsqueeze(-1));
  }

  static constexpr int64_t kTile = 32;  // queries

  Config config_;
  std::string path_;
  double scale_;
  RandomMatrices planes_;  // [1, bits, D + 1]
};

Promises promises(const Config&) {
  return {.cross = true, .positional = true};  // the first centres are tokens at even distances
}

Attention make(const Site& site, const Config& c) {
  return std::make_shared<Clustered>(site, c);
}

}  // namespace

Mechanism clustered_mechanism() {
  return over_heads<Config>(
      {.name = "clustered",
       .family = "clusters",
       .paper = "arXiv:2007.04825",
       .cost = "O(N (C + T) D)",
       .summary = "The mean query of a cluster attends for its members, which weigh the keys that "
                  "matter most by themselves.",
       .exact = "a cluster for each query, or top >= M: softmax",
       .variants = {{"small", "{clusters: 5, top: 4, bits: 9, iterations: 3}"},
                    {"plain", "{clusters: 7, top: 0}"}}},
      promises, make);
}

}  // namespace longbow
