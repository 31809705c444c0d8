// Rows that move have a group of threads for each place; what is summed over orders has one for
// each token.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/eight.h"
#include "longbow/kernels/cuda/row_place.h"
#include "longbow/kernels/orders.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256;

struct Place : RowPlace {
  using RowPlace::RowPlace;

  // Of an order r: the place of this token among [B, H, orders, places].
  __device__ int64_t of_token(const TokenOrders& of, int64_t r) const {
    const int64_t line = both * of.orders + r;
    return line * of.places + of.inverse[line * of.tokens + row];
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) arrange(InOrders task, int lanes) {
  const auto& of = task.of;
  const Place place(of, of.orders * of.places, lanes);
  if (!place.there) return;
  const int64_t line = place.both * of.orders + place.row / of.places, p = place.row % of.places;
  uint4 row = {0, 0, 0, 0};
  if (p < of.tokens)
    row = *reinterpret_cast<const uint4*>(place.in<T>(task.x, of.order[line * of.tokens + p]));
  T* const to = static_cast<T*>(task.rows) + (line * of.places + p) * of.width + place.column;
  *reinterpret_cast<uint4*>(to) = row;
}

template <class T>
__global__ void __launch_bounds__(kThreads) arrange_backward(InOrdersBackward task, int lanes) {
  const auto& of = task.of;
  const Place place(of, of.tokens, lanes);
  if (!place.there) return;
  const T* const rows = static_cast<const T*>(task.rows) + place.column;
  Eight sum = {};
  for (int64_t r = 0; r < of.orders; ++r)
    add(sum, 1, read(rows + place.of_token(of, r) * of.width));
  if (task.all && task.all[place.both * of.tokens + place.row] == -INFINITY)
    add(sum, 1, read(place.in<T>(task.more, place.row)));
  write(place.in<T>(task.dx, place.row), sum);
}

// The logarithm of the sum over all orders of a token, and the share of one in it, which is zero
// where nothing was seen.
struct All {
  float top = -INFINITY, sum = 0;

  __device__ All(const TokenOrders& of, const Place& place, const float* logs) {
    for (int64_t r = 0; r < of.orders; ++r) top = fmaxf(top, logs[place.of_token(of, r)]);
    if (top == -INFINITY) return;
    for (int64_t r = 0; r < of.orders; ++r) sum += expf(logs[place.of_token(of, r)] - top);
  }
  __device__ float log_sum() const { return top == -INFINITY ? top : top + logf(sum); }
  __device__ float share(float one) const { return top == -INFINITY ? 0 : expf(one - top) / sum; }
};

template <class T>
__global__ void __launch_bounds__(kThreads) join(JoinOrders task, int lanes) {
  const auto& of = task.of;
  const Place place(of, of.tokens, lanes);
  if (!place.there) return;
  const T* const parts = static_cast<const T*>(task.parts) + place.column;
  const All all(of, place, task.log_sum);
  Eight y = {};
  for (int64_t r = 0; r < of.orders; ++r) {
    const int64_t at = place.of_token(of, r);
    add(y, all.share(task.log_sum[at]), read(parts + at * of.width));
  }
  if (task.own.data && all.top == -INFINITY) y = read(place.in<T>(task.own, place.row));
  write(place.in<T>(task.out, place.row), y);
  if (place.column == 0) task.all[place.both * of.tokens + place.row] = all.log_sum();
}

// Sums over the threads of a row; all of a warp call it.
__device__ float over_row(float x, int lanes) {
  for (int far = lanes / 2; far > 0; far /= 2) x += __shfl_xor_sync(0xffffffffu, x, far);
  return x;
}

template <class T>
__global__ void __launch_bounds__(kThreads) join_backward(JoinOrdersBackward task, int lanes) {
  const auto& of = task.of;
  Place place(of, of.tokens, lanes);
  const bool there = place.there;
  if (!there) place.both = place.batch = place.head = place.row = place.column = 0;
  const T* const parts = static_cast<const T*>(task.parts) + place.column;
  const All all(of, place, task.log_sum);
  const Eight g = there ? read(place.in<T>(task.dout, place.row)) : Eight{};
  float mean = 0;  // dout . out
  for (int64_t r = 0; r < of.orders; ++r) {
    const int64_t at = place.of_token(of, r);
    if (there) mean += all.share(task.log_sum[at]) * dot(g, read(parts + at * of.width));
  }
  const float shift = task.dall[place.both * of.tokens + place.row] - over_row(mean, lanes);
  for (int64_t r = 0; r < of.orders; ++r) {
    const int64_t at = place.of_token(of, r);
    const float share = all.share(task.log_sum[at]);
    const float own = over_row(there ? dot(g, read(parts + at * of.width)) : 0, lanes);
    if (!there) continue;
    Eight d = {};
    add(d, share, g);
    write(static_cast<T*>(task.dparts) + at * of.width + place.column, d);
    if (place.column == 0) task.dlog_sum[at] = share * (own + shift);
  }
}

// Threads of a row, a power of two, and how many blocks so many rows of each head need.
struct Grid {
  int lanes = 1;
  unsigned blocks;
  Grid(const TokenOrders& of, int64_t per_head) {
    while (lanes * 8 < of.width) lanes *= 2;
    const int64_t threads = of.batch * of.heads * per_head * lanes;
    blocks = static_cast<unsigned>((threads + kThreads - 1) / kThreads);
  }
};

}  // namespace

void in_orders_cuda(const InOrders& task, void* stream) noexcept {
  const Grid grid(task.of, task.of.orders * task.of.places);
  if (task.of.type == Element::bfloat16)
    launch(arrange<__nv_bfloat16>, grid.blocks, kThreads, 0, stream, task, grid.lanes);
  else
    launch(arrange<__half>, grid.blocks, kThreads, 0, stream, task, grid.lanes);
}

void in_orders_backward_cuda(const InOrdersBackward& task, void* stream) noexcept {
  const Grid grid(task.of, task.of.tokens);
  if (task.of.type == Element::bfloat16)
    launch(arrange_backward<__nv_bfloat16>, grid.blocks, kThreads, 0, stream, task, grid.lanes);
  else
    launch(arrange_backward<__half>, grid.blocks, kThreads, 0, stream, task, grid.lanes);
}

void join_orders_cuda(const JoinOrders& task, void* stream) noexcept {
  const Grid grid(task.of, task.of.tokens);
  if (task.of.type == Element::bfloat16)
    launch(join<__nv_bfloat16>, grid.blocks, kThreads, 0, stream, task, grid.lanes);
  else
    launch(join<__half>, grid.blocks, kThreads, 0, stream, task, grid.lanes);
}

void join_orders_backward_cuda(const JoinOrdersBackward& task, void* stream) noexcept {
  const Grid grid(task.of, task.of.tokens);
  if (task.of.type == Element::bfloat16)
    launch(join_backward<__nv_bfloat16>, grid.blocks, kThreads, 0, stream, task, grid.lanes);
  else
    launch(join_backward<__half>, grid.blocks, kThreads, 0, stream, task, grid.lanes);
}

}  // namespace longbow::kernels
