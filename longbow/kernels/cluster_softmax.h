#pragma once
// Softmax attention by clusters of queries; ops/cluster_softmax.h defines it. Numbers are bfloat16
// or float16, scores and sums float32.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

constexpr int64_t kMostClusterKeys = 64, kMostClusterWidth = 64;
constexpr int kWordsOfClusters = 4;  // of 32 bits: one for each cluster

// Which queries are whose: those of a cluster beside each other, and behind the last cluster those
// that are of none.
struct ClusterMembers {
  int64_t batch, heads, queries, clusters;  // B, H, N, C
  const int64_t* order;                     // [B, H, N]
  const int64_t* first;                     // [B, H, C + 1]
};

// The mean query of each cluster, scaled; zeros where it has no members.
struct ClusterMeans {
  Element type;
  ClusterMembers members;
  int64_t width;  // E, a multiple of 8
  HeadRows q;
  float scale;
  void* centres;  // [B, H, C, E]
};
// Adds to dq what the gradients of scaled means, in several parts, are for each member.
struct ClusterMeansBackward {
  Element type;
  ClusterMembers members;
  int64_t width;
  float scale;
  int64_t parts;
  const float* dcentres;  // [parts, B, H, C, E]
  HeadResults dq;
};

// The keys with the largest scores of each centre, the largest first; of equals the first.
struct ClusterKeys {
  Element type;
  int64_t batch, heads, clusters, keys, width, top;  // B, H, C <= 128, M, E, T
  const void* centres;                               // [B, H, C, E]
  HeadRows k;
  const bool* keep;      // [B, M], or null
  int64_t span, stride;  // keys of a thread block, and between two rows of scores: an even number
  float* scores;         // [B, H, C, stride], room for the kernel
  int64_t* chosen;       // [B, H, C, T]
};

struct ClusterSoftmax {
  Element type;
  ClusterMembers members;
  int64_t top, width, value_width;  // T, E, D
  int64_t keys;                     // M
  HeadRows q, k, v;
  const bool* keep;       // [B, M], or null
  const int64_t* chosen;  // [B, H, C, T]
  float scale;
  const void* centres;   // [B, H, C, E]
  const float* means;    // [B, H, C, D]: what the centres read of all keys
  const float* log_sum;  // [B, H, C]
  HeadResults out;
};
struct ClusterSoftmaxBackward {
  ClusterSoftmax past;
  HeadRows dout;
  HeadResults dq;      // what comes by a query's own scores
  float *dk, *dv;      // [B, H, C, T, E] and [.., D]
  void* dmeans;        // [B, H, C, D]: of what the centres read of all keys
  float* delta;        // [B, H, C]: sum_l A_jl dA_jl
  float* dcentres;     // [B, H, C, E]: what the chosen keys add to it
  unsigned* choosers;  // [B, H, M, kWordsOfClusters], zeros: the clusters that chose a key
};

// Adds gradients of chosen keys to those of all.
struct ClusterKeysBackward {
  Element type;
  int64_t batch, heads, clusters, keys, top, width, value_width;
  const int64_t* chosen;         // [B, H, C, T]
  const unsigned* choosers;      // as above
  const float *from_k, *from_v;  // [B, H, C, T, E] and [.., D]
  HeadResults dk, dv;
};

void cluster_means_cuda(const ClusterMeans& task, void* stream) noexcept;
void cluster_means_backward_cuda(const ClusterMeansBackward& task, void* stream) noexcept;
void cluster_keys_cuda(const ClusterKeys& task, void* stream) noexcept;
void cluster_keys_backward_cuda(const ClusterKeysBackward& task, void* stream) noexcept;
void cluster_softmax_cuda(const ClusterSoftmax& task, void* stream) noexcept;
void cluster_softmax_backward_cuda(const ClusterSoftmaxBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels
