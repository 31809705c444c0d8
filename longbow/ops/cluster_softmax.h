#pragma once
// Softmax attention by clusters of queries (longbow/attention/clustered.cpp).
#include <ATen/core/Tensor.h>

namespace longbow {

// Queries by cluster: cluster [B, H, N] int64, `count` for those of none. `order` has the members
// of a cluster beside each other as they stand, those of none last; first [B, H, count + 1] is
// where each cluster begins.
struct ClusterMembers {
  at::Tensor cluster, order, first;
  int64_t count = 0;
};
ClusterMembers cluster_members(const at::Tensor& cluster, int64_t count);

// The keys [B, H, clusters, min(top, M)] int64 that weigh most for the mean query c_j of each
// cluster, the largest first: by scale c_j . k_l over the kept l; hidden ones are last. keep [B, M]
// bool or undefined. No gradient.
at::Tensor cluster_keys(const at::Tensor& q, const at::Tensor& k, const ClusterMembers& members,
                        const at::Tensor& keep, int64_t top, double scale);

// With A_j = softmax over the kept l of scale c_j . k_l, and m_j the sum of A_jl over the keys T_j
// in `top`, a query i of cluster j reads
//   o_i = m_j sum_{l in T_j} softmax_l(scale q_i . k_l) v_l + sum_{l not in T_j} A_jl v_l,
// one of no cluster zero. q [B, H, N, E], k [B, H, M, E], v [B, H, M, D] -> [B, H, N, D]. No key is
// twice in a T_j. Only the arguments and what the mean queries read are kept for the backward pass.
at::Tensor cluster_softmax(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const ClusterMembers& members, const at::Tensor& top,
                           const at::Tensor& keep, double scale);

// The same in ATen alone, with N x M weights, and the gradients of q, k and v.
at::Tensor cluster_keys_formula(const at::Tensor& q, const at::Tensor& k,
                                const ClusterMembers& members, const at::Tensor& keep, int64_t top,
                                double scale);
at::Tensor cluster_softmax_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const ClusterMembers& members, const at::Tensor& top,
                                   const at::Tensor& keep, double scale);
struct ClusterGradients {
  at::Tensor q, k, v;
};
ClusterGradients cluster_softmax_formula_backward(const at::Tensor& dout, const at::Tensor& q,
                                                  const at::Tensor& k, const at::Tensor& v,
                                                  const ClusterMembers& members,
                                                  const at::Tensor& top, const at::Tensor& keep,
                                                  double scale);

// Whether kernels do it that write no weights to memory: on a GPU in a half type, for up to 128
// clusters, 64 keys of each and heads of up to 64 channels. Elsewhere it has no advantage.
bool has_cluster_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        int64_t clusters, int64_t top);

}  // namespace longbow
