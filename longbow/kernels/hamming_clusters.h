#pragma once
// K-means of hashes by the number of bits that differ; ops/hamming_clusters.h defines it.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

struct HammingClusters {
  static constexpr int64_t kMostBits = 64, kMostClusters = 256, kMostWidth = 64;
  // Of a head: counters have 16 bits, and up to 32 bits of a hash have two of them.
  static constexpr int64_t most_rows(int64_t bits) { return bits <= 32 ? 2 * 65528 : 65535; }

  Element type;
  int64_t batch, heads, rows, width;  // B, H, N, D: a multiple of 8
  int bits, clusters, iterations;
  HeadRows q;
  const float* planes;  // [bits, D + 1], the threshold last
  const bool* keep;     // [B, N], or null: all rows are real
  int64_t span;         // rows that a thread block hashes, as in head_span.h
  uint64_t* codes;      // [B, H, N]: the hashes, room for the kernel
  int64_t* cluster;     // [B, H, N]: the result
};

void hamming_clusters_cuda(const HammingClusters& task, void* stream) noexcept;

}  // namespace longbow::kernels
