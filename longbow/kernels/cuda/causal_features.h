#pragma once
// What the kernels of features under a causal mask have in common.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/feature_stage.h"

namespace longbow::kernels {

// From dphi to the gradient of x, which takes the place of x: 16 rows. `turns`: of the rows g and g
// + 8.
template <int R, bool kTurned>
__device__ void put_slopes(Number* x, const mma::C (&dphi)[R / 8], FeatureMap map,
                           const float2 (&turns)[2]) {
  constexpr int X = kTurned ? R / 2 : R;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < X / 8; ++n) {
    uint32_t* place[2];  // upper and lower row
    float slopes[4];
#pragma unroll
    for (int low = 0; low < 2; ++low) {
      place[low] = reinterpret_cast<uint32_t*>(x + (g + 8 * low) * mma::padded(X) + n * 8 + 2 * t);
      const float2 was = mma::unpack<Number>(*place[low]);
      slopes[2 * low] = was.x;
      slopes[2 * low + 1] = was.y;
    }
    apply_slope(map, slopes);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float dx = dphi[n].part[i] * turns[i / 2].x;
      if constexpr (kTurned) dx += dphi[X / 8 + n].part[i] * turns[i / 2].y;
      slopes[i] *= dx;
    }
#pragma unroll
    for (int low = 0; low < 2; ++low)
      *place[low] = mma::pack<Number>(slopes[2 * low], slopes[2 * low + 1]);
  }
}

// For heads of up to 64 channels of values, where whole spans fit into shared memory.
constexpr int64_t kWholeSpan = 128;
bool has_whole_spans(const CausalFeatures& task) noexcept;
void span_read_cuda(const CausalRead& task, void* stream) noexcept;
void span_gradient_cuda(const CausalGradient& task, void* stream) noexcept;

}  // namespace longbow::kernels
#endif
