#pragma once
// Rows that belong to a group of 1 to 32 threads of a warp, each of which has 8 of its numbers.
#ifdef __CUDACC__
#include <cstdint>
#include <type_traits>

#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

// Where a thread stands among rows [B, H, per_head], and the first of its numbers.
struct RowPlace {
  int64_t both, batch, head, row;
  int column;
  bool there;

  template <class Task>
  __device__ RowPlace(const Task& task, int64_t per_head, int lanes) {
    const int64_t group = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) / lanes;
    both = group / per_head;
    row = group % per_head;
    batch = both / task.heads;
    head = both % task.heads;
    column = static_cast<int>(threadIdx.x) % lanes * 8;
    there = batch < task.batch && column < task.width;
  }
  template <class T, class Rows>
  __device__ auto* in(const Rows& x, int64_t token) const {
    using Result = std::conditional_t<std::is_same_v<Rows, HeadResults>, T*, const T*>;
    return static_cast<Result>(x.data) + batch * x.batch + head * x.head + token * x.token + column;
  }
};

}  // namespace longbow::kernels
#endif
