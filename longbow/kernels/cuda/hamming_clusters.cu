// A first kernel packs the bits of 64 rows at a time: planes are split into two numbers of the type
// of the rows, which have 16 of their bits or more. A second one has a thread block for each head,
// which makes all iterations. Bits are 1 or -1 there, so that tensor cores compare 16 rows with 8
// centres at once: products are whole numbers two apart, and a sum that begins at -c / 256 for
// centre c decides ties. Members count their ones by 16 bits of a counter each.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/slot_tiles.h"
#include "longbow/kernels/hamming_clusters.h"
#include "longbow/kernels/head_span.h"

namespace longbow::kernels {
namespace {

using namespace slots;

constexpr int kPlanes = static_cast<int>(HammingClusters::kMostBits);

// Planes as the sums of two numbers each, zeros behind the last.
template <class T>
__device__ void split_planes(const HammingClusters& task, T* upper, T* lower) {
  const auto width = static_cast<int>(task.width);
  for (int i = static_cast<int>(threadIdx.x); i < kPlanes * kWidth; i += kThreads) {
    const int plane = i / kWidth, column = i % kWidth, at = plane * kStride + column;
    const bool there = plane < task.bits && column < width;
    const float number = there ? task.planes[plane * (width + 1) + column] : 0;
    upper[at] = static_cast<T>(number);
    lower[at] = static_cast<T>(number - static_cast<float>(upper[at]));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) hash(HammingClusters task) {
  const HeadSpan span(task.heads, task.rows, task.span);
  __shared__ float threshold[kPlanes];
  T* const upper = reinterpret_cast<T*>(dynamic_memory());
  T* const lower = upper + kPlanes * kStride;
  T* const rows = lower + kPlanes * kStride;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int own = static_cast<int>(threadIdx.x) / 32 * 16;
  split_planes(task, upper, lower);
  for (int i = static_cast<int>(threadIdx.x); i < kPlanes; i += kThreads)
    threshold[i] = i < task.bits ? task.planes[i * (task.width + 1) + task.width] : INFINITY;
  for (int first = span.first; first < span.end; first += kTile) {
    __syncthreads();
    load_rows<kWidth>(rows, span.rows<T>(task.q), task.q.token, kTile, static_cast<int>(task.width),
                      [&](int row) { return first + row < span.end ? first + row : -1; });
    mma::commit_copies();
    mma::await_copies<0>();
    __syncthreads();
    mma::A a[1][kWidth / 16];
    load_left(a, rows + own * kStride);
    mma::C product[1][kPlanes / 8] = {};
    add_products<T>(product, a, lower);
    add_products<T>(product, a, upper);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unsigned word[2] = {0, 0};
#pragma unroll
      for (int n = 0; n < kPlanes / 8; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          if (product[0][n].part[2 * i + j] > threshold[n * 8 + 2 * t + j])
            word[n / 4] |= 1u << (n % 4 * 8 + 2 * t + j);
#pragma unroll
      for (unsigned& half : word) {
        half |= __shfl_xor_sync(0xffffffffu, half, 1);
        half |= __shfl_xor_sync(0xffffffffu, half, 2);
      }
      const int row = first + own + i * 8 + g;
      if (t == 0 && row < span.end)
        task.codes[span.both * task.rows + row] = uint64_t{word[1]} << 32 | word[0];
    }
  }
}

constexpr int kCrowd = 1024, kCrowdWarps = kCrowd / 32;
constexpr float kNone = -1e4f;  // less than any product

// Two bits as 1 or -1 in bfloat16.
__device__ __forceinline__ uint32_t signs(uint64_t bits) {
  const auto two = static_cast<uint32_t>(bits);
  return 0xbf80bf80u ^ (two & 1) << 15 ^ (two & 2) << 30;
}

// The clusters of one head, of up to 16 kSteps bits.
template <int kSteps>
struct Crowd {
  static constexpr int kWords = kSteps <= 2 ? 16 : 32, kCopies = 32 / kWords;
  static constexpr int kTogether = kSteps <= 2 ? 2 : 1;  // times 16 rows that a warp compares
  const HammingClusters& task;
  const uint64_t* codes;
  const bool* keep;
  int rows, tiles;
  uint2* factors;     // [tiles, kSteps, 32]: centres as a product takes them
  uint64_t* centres;  // [clusters]
  unsigned* ones;     // [clusters, 32]: those of bits b and b + 16 in one word; where 32 words are
                      // more than there are, half of the rows have a copy of their own
  unsigned* members;  // [clusters]

  __device__ explicit Crowd(const HammingClusters& given)
      : task(given),
        codes(given.codes + blockIdx.x * given.rows),
        keep(given.keep ? given.keep + blockIdx.x / given.heads * given.rows : nullptr),
        rows(static_cast<int>(given.rows)),
        tiles((given.clusters + 7) / 8),
        factors(reinterpret_cast<uint2*>(dynamic_memory())),
        centres(reinterpret_cast<uint64_t*>(factors + tiles * kSteps * 32)),
        ones(reinterpret_cast<unsigned*>(centres + given.clusters)),
        members(ones + 32 * given.clusters) {}
  static size_t bytes(int clusters) {
    return sizeof(uint2) * ((clusters + 7) / 8) * kSteps * 32 +
           (sizeof(uint64_t) + 33 * sizeof(unsigned)) * clusters;
  }

  // The first centres are real rows at even distances.
  __device__ void begin() const {
    unsigned real = task.keep ? 0 : static_cast<unsigned>(rows);
    if (threadIdx.x == 0) members[0] = 0;
    __syncthreads();
    for (int row = static_cast<int>(threadIdx.x); task.keep && row < rows; row += kCrowd)
      real += keep[row] ? 1 : 0;
    if (task.keep && real > 0) atomicAdd(members, real);
    __syncthreads();
    if (task.keep) real = members[0];
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < task.clusters; c += kCrowd) {
      centres[c] = codes[(2 * c + 1) * int64_t{real} / (2 * task.clusters)];
      members[c] = 0;
    }
    for (int i = static_cast<int>(threadIdx.x); i < 32 * task.clusters; i += kCrowd) ones[i] = 0;
    __syncthreads();
  }

  __device__ uint32_t factor(int centre, int bit) const {
    if (centre >= task.clusters || bit >= task.bits) return 0;
    const uint32_t both = signs(centres[centre] >> bit);
    return bit + 1 < task.bits ? both : both & 0xffffu;
  }
  __device__ void spread() const {
    for (int i = static_cast<int>(threadIdx.x); i < tiles * kSteps * 32; i += kCrowd) {
      const int centre = i / (32 * kSteps) * 8 + i % 32 / 4;
      const int bit = i / 32 % kSteps * 16 + i % 4 * 2;
      factors[i] = {factor(centre, bit), factor(centre, bit + 8)};
    }
    __syncthreads();
  }

  // use(row, cluster), by the four lanes that share a row and at once for rows of a warp.
  template <class F>
  __device__ void assign(const F& use) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane / 4, t = lane % 4, share = kTogether * 16;
    for (int first = warp * share; first < rows; first += kCrowdWarps * share) {
      float best[kTogether][2];
      mma::A a[kTogether][kSteps];
#pragma unroll
      for (int m = 0; m < kTogether; ++m) {
        uint64_t code[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int row = first + m * 16 + i * 8 + g;
          code[i] = row < rows ? codes[row] : 0;
          best[m][i] = -INFINITY;
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            a[m][step].part[i] = signs(code[i % 2] >> (step * 16 + i / 2 * 8 + 2 * t));
      }
      float base = static_cast<float>(t) * (-2.0f / 256);
      for (int n = 0; n < tiles; ++n) {
        float first_of[2];  // how the sums of two centres begin
#pragma unroll
        for (int j = 0; j < 2; ++j)
          first_of[j] =
              n * 8 + 2 * t + j < task.clusters ? base - static_cast<float>(j) / 256 : kNone;
        base -= 8.0f / 256;
        mma::C product[kTogether];
#pragma unroll
        for (auto& one : product) one = {{first_of[0], first_of[1], first_of[0], first_of[1]}};
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          const uint2 two = factors[(n * kSteps + step) * 32 + lane];
#pragma unroll
          for (int m = 0; m < kTogether; ++m)
            mma::multiply<__nv_bfloat16>(product[m], a[m][step], mma::B{{two.x, two.y}});
        }
#pragma unroll
        for (int m = 0; m < kTogether; ++m)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            best[m][i] =
                fmaxf(best[m][i], fmaxf(product[m].part[2 * i], product[m].part[2 * i + 1]));
      }
#pragma unroll
      for (int m = 0; m < kTogether; ++m)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float most = best[m][i];
          most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
          most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
          const int row = first + m * 16 + i * 8 + g;
          if (row >= rows) continue;
          const bool real = !keep || keep[row];
          use(row, real ? static_cast<int>((ceilf(most) - most) * 256) : task.clusters);
        }
    }
  }

  __device__ void count() const {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
    assign([&](int row, int cluster) {
      if (cluster == task.clusters) return;
      const uint64_t code = codes[row];
      unsigned* const own = ones + cluster * 32 + g % kCopies * kWords;
#pragma unroll
      for (int i = 0; i < kWords / 4; ++i) {  // lanes of a warp add to 32 banks
        const int word = (4 * (g / kCopies + i) + t) % kWords;
        const auto half = static_cast<unsigned>(code >> (word / 16 * 32));
        atomicAdd(own + word, half >> (word % 16) & 0x10001u);
      }
      if (t == 0) atomicAdd(members + cluster, 1u);
    });
    __syncthreads();
  }

  // A centre takes the bits of most of its members, by a warp; whether any has changed.
  __device__ bool move() const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    bool changed = false;
    for (int c = warp; c < task.clusters; c += kCrowdWarps) {
      const unsigned word = ones[c * 32 + lane], count = members[c];
      unsigned low = word & 0xffffu, high = word >> 16;
      if (kCopies == 2) {
        low += __shfl_xor_sync(0xffffffffu, low, 16);
        high += __shfl_xor_sync(0xffffffffu, high, 16);
      }
      const unsigned lower = __ballot_sync(0xffffffffu, 2 * low > count),
                     upper = __ballot_sync(0xffffffffu, 2 * high > count);
      uint64_t code = (lower & 0xffffu) | upper << 16;
      if (kCopies == 1) code |= uint64_t{lower >> 16 | (upper & 0xffff0000u)} << 32;
      const bool moves = count > 0 && code != centres[c];
      changed = changed || moves;
      __syncwarp();
      ones[c * 32 + lane] = 0;
      if (lane == 0) {
        members[c] = 0;
        if (moves) centres[c] = code;
      }
    }
    return __syncthreads_or(changed) != 0;
  }
};

template <int kSteps>
__global__ void __launch_bounds__(kCrowd) cluster(HammingClusters task) {
  const Crowd<kSteps> crowd(task);
  crowd.begin();
  crowd.spread();
  for (int i = 0; i < task.iterations; ++i) {
    crowd.count();
    if (!crowd.move()) break;
    crowd.spread();
  }
  int64_t* const found = task.cluster + blockIdx.x * task.rows;
  crowd.assign([&](int row, int own) {
    if (threadIdx.x % 4 == 0) found[row] = own;
  });
}

}  // namespace

void hamming_clusters_cuda(const HammingClusters& task, void* stream) noexcept {
  const auto heads = static_cast<unsigned>(task.batch * task.heads);
  const auto spans = static_cast<unsigned>(spans_of(task.rows, task.span));
  const auto hash_in = [&]<class T>() {
    constexpr int kBytes = sizeof(T) * (2 * kPlanes + kTile) * kStride;
    launch(hash<T>, dim3(heads, spans), kThreads, kBytes, stream, task);
  };
  const auto cluster_by = [&]<int kSteps>() {
    launch(cluster<kSteps>, heads, kCrowd, Crowd<kSteps>::bytes(task.clusters), stream, task);
  };
  if (task.type == Element::bfloat16)
    hash_in.template operator()<__nv_bfloat16>();
  else
    hash_in.template operator()<__half>();
  if (task.bits <= 32) return cluster_by.template operator()<2>();
  cluster_by.template operator()<4>();
}

}  // namespace longbow::kernels
