// A thread block has a matrix. What is left of x is always x - r - c, with the logarithms r of the
// sums of rows and c of those of columns so far, so that x itself does not change. A warp adds up a
// row, and its share of the rows of every column. Sums are made in one order.
#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/doubly_stochastic.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / 32, kMost = DoublyStochastic::kMost;

__device__ float power(float x) {
  return mma::power_of_two(x * kLog2E);
}

// The matrix of a thread block, and the sums so far.
struct Matrix {
  float* x;  // [rows, columns], in shared memory
  float* row;
  float* column;
  float* part;  // [kWarps, columns]: of columns, by warp
  int rows, columns;

  __device__ Matrix(const DoublyStochastic& task, float* memory)
      : x(memory),
        row(x + task.rows * task.columns),
        column(row + task.rows),
        part(column + task.columns),
        rows(task.rows),
        columns(task.columns) {
    const float* from = task.x + blockIdx.x * int64_t{rows} * columns;
    for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += kThreads) x[i] = from[i];
    for (int i = static_cast<int>(threadIdx.x); i < rows + columns; i += kThreads) row[i] = 0;
    __syncthreads();
  }
  static size_t bytes(const DoublyStochastic& task) {
    return sizeof(float) *
           (task.rows * task.columns + task.rows + task.columns + kWarps * task.columns);
  }
  __device__ float left(int r, int c) const { return x[r * columns + c] - row[r] - column[c]; }

  // f(row, sum of g(row, column) over columns), by one thread for each row.
  template <class G, class F>
  __device__ void over_rows(const G& g, const F& f) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    for (int r = warp; r < rows; r += kWarps) {
      float sum = 0;
      for (int c = lane; c < columns; c += 32) sum += g(r, c);
#pragma unroll
      for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
      __syncwarp();
      if (lane == 0) f(r, sum);
    }
    __syncthreads();
  }
  // f(column, sum of g(row, column) over rows).
  template <class G, class F>
  __device__ void over_columns(const G& g, const F& f) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    for (int c = lane; c < columns; c += 32) {
      float sum = 0;
      for (int r = warp; r < rows; r += kWarps) sum += g(r, c);
      part[warp * columns + c] = sum;
    }
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < columns; c += kThreads) {
      float sum = 0;
      for (int w = 0; w < kWarps; ++w) sum += part[w * columns + c];
      f(c, sum);
    }
    __syncthreads();
  }
};

// Of the numbers of a sum: the largest, and the sum of powers relative to it.
struct Sum {
  float top = -INFINITY, powers = 0;

  // f(i) for i = first, first + step, ...
  template <class F>
  __device__ void add(int first, int end, int step, const F& f) {
    for (int i = first; i < end; i += step) top = fmaxf(top, f(i));
    if (top == -INFINITY) return;  // of nothing, or of zeros
    for (int i = first; i < end; i += step) powers += power(f(i) - top);
  }
  __device__ void add(const Sum& other) {
    const float both = fmaxf(top, other.top);
    if (both == -INFINITY) return;
    powers = powers * power(top - both) + other.powers * power(other.top - both);
    top = both;
  }
  __device__ float log() const { return top + logf(powers); }
};

__global__ void __launch_bounds__(kThreads) balance(DoublyStochasticForward task) {
  __shared__ Sum parts[kWarps][kMost];
  const auto& past = task.past;
  Matrix all(past, reinterpret_cast<float*>(dynamic_memory()));
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int each = all.rows + all.columns;
  float* sums = past.sums + blockIdx.x * int64_t{past.iterations} * each;
  for (int i = 0; i < past.iterations; ++i, sums += each) {
    for (int r = warp; r < all.rows; r += kWarps) {
      Sum sum;
      sum.add(lane, all.columns, 32, [&](int c) { return all.left(r, c); });
#pragma unroll
      for (int far = 16; far > 0; far /= 2)
        sum.add({__shfl_xor_sync(0xffffffffu, sum.top, far),
                 __shfl_xor_sync(0xffffffffu, sum.powers, far)});
      __syncwarp();
      if (lane == 0) all.row[r] += sums[r] = sum.log();
    }
    __syncthreads();
    for (int c = lane; c < all.columns; c += 32) {
      Sum sum;
      sum.add(warp, all.rows, kWarps, [&](int r) { return all.left(r, c); });
      parts[warp][c] = sum;
    }
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < all.columns; c += kThreads) {
      Sum sum;
      for (int w = 0; w < kWarps; ++w) sum.add(parts[w][c]);
      all.column[c] += sums[all.rows + c] = sum.log();
    }
    __syncthreads();
  }
  float* const out = task.out + blockIdx.x * int64_t{all.rows} * all.columns;
  for (int i = static_cast<int>(threadIdx.x); i < all.rows * all.columns; i += kThreads)
    out[i] = power(all.left(i / all.columns, i % all.columns));
}

// From the last division to the first: where y = x - log sum exp x, the gradient of x is that of y
// less exp(y) times its sum. It stays in global memory.
__global__ void __launch_bounds__(kThreads) balance_backward(DoublyStochasticBackward task) {
  const auto& past = task.past;
  Matrix all(past, reinterpret_cast<float*>(dynamic_memory()));
  __shared__ float total[kMost];
  const int each = all.rows + all.columns, size = all.rows * all.columns;
  const float* const sums = past.sums + blockIdx.x * int64_t{past.iterations} * each;
  for (int j = static_cast<int>(threadIdx.x); j < each; j += kThreads)
    for (int i = 0; i < past.iterations; ++i) all.row[j] += sums[i * each + j];
  __syncthreads();
  const float* const dout = task.dout + blockIdx.x * int64_t{size};
  float* const g = task.dx + blockIdx.x * int64_t{size};
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kThreads)
    g[i] = dout[i] * power(all.left(i / all.columns, i % all.columns));
  __syncthreads();
  const auto of = [&](int r, int c) { return g[r * all.columns + c]; };
  const auto keep = [&](int place, float sum) { total[place] = sum; };
  for (int i = past.iterations - 1; i >= 0; --i)
    for (const bool row : {false, true}) {
      if (row)
        all.over_rows(of, keep);
      else
        all.over_columns(of, keep);
      for (int j = static_cast<int>(threadIdx.x); j < size; j += kThreads) {
        const int r = j / all.columns, c = j % all.columns;
        g[j] -= power(all.left(r, c)) * total[row ? r : c];
      }
      __syncthreads();
      const int first = row ? 0 : all.rows, count = row ? all.rows : all.columns;
      for (int j = static_cast<int>(threadIdx.x); j < count; j += kThreads)
        all.row[first + j] -= sums[i * each + first + j];
      __syncthreads();
    }
}

}  // namespace

void doubly_stochastic_cuda(const DoublyStochasticForward& task, void* stream) noexcept {
  launch(balance, static_cast<unsigned>(task.past.count), kThreads, Matrix::bytes(task.past),
         stream, task);
}

void doubly_stochastic_backward_cuda(const DoublyStochasticBackward& task, void* stream) noexcept {
  launch(balance_backward, static_cast<unsigned>(task.past.count), kThreads,
         Matrix::bytes(task.past), stream, task);
}

}  // namespace longbow::kernels
