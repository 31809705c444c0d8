#pragma once
// Rows beside centroids; ops/centroids.h defines it. Numbers are bfloat16 or float16, sums and
// centroids float32.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

struct Centroids {
  static constexpr int64_t kMostClusters = 32;
  static constexpr int64_t kPiece = 256;  // tokens that are summed at a time
  Element type;
  int64_t batch, heads, tokens, width;  // 8, 16, 32, 64, 128 or 256
  int64_t clusters;
  double least;  // norms count as at least this
  HeadRows x;
  const float* centroids;  // [H, K, width]
};

struct CentroidCosines {
  Centroids past;
  float *cosines, *inverse;  // [B, H, N, K], [B, H, N]
  int64_t* nearest;          // [B, H, N]
};
struct CentroidCosinesBackward {
  Centroids past;
  const float *cosines, *inverse, *dcosines;
  HeadResults dx;
};

struct CentroidSums {
  Centroids past;  // its centroids are not read
  const float* inverse;
  const int64_t* nearest;  // [B, H, N], -1 = none
  float* sums;             // [B, pieces, H, K, width]
};

void centroid_cosines_cuda(const CentroidCosines& task, void* stream) noexcept;
void centroid_cosines_backward_cuda(const CentroidCosinesBackward& task, void* stream) noexcept;
void centroid_sums_cuda(const CentroidSums& task, void* stream) noexcept;

}  // namespace longbow::kernels
