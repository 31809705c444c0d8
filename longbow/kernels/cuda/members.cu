// A row is a member's, or a token's in all clusters.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/eight.h"
#include "longbow/kernels/cuda/row_place.h"
#include "longbow/kernels/members.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256;

struct Place : RowPlace {
  using RowPlace::RowPlace;

  // body(member) for every cluster that a token is in; returns how many these are.
  template <class F>
  __device__ int each_cluster(const Members& task, int64_t token, const F& body) const {
    const int32_t* const place = task.place + both * task.clusters * task.tokens + token;
    int count = 0;
    for (int64_t c = 0; c < task.clusters; ++c) {
      const int32_t member = place[c * task.tokens];
      if (member < 0) continue;
      ++count;
      body(member);
    }
    return count;
  }
};

__device__ float share_of(const Members& task, int count) {
  if (!task.divides) return 1;
  const auto clusters = static_cast<float>(count);
  return 1 / (task.added > 0 ? clusters + task.added : fmaxf(clusters, 1));
}

template <class T>
__global__ void __launch_bounds__(kThreads) take(Members task, int lanes) {
  const Place place(task, task.members, lanes);
  if (!place.there) return;
  const int64_t token = task.token[place.both * task.members + place.row];
  const int count = task.divides ? place.each_cluster(task, token, [](int32_t) {}) : 0;
  Eight row = {};
  add(row, share_of(task, count), read(place.in<T>(task.from, token)));
  write(place.in<T>(task.to, place.row), row);
}

template <class T>
__global__ void __launch_bounds__(kThreads) sum(Members task, int lanes) {
  const Place place(task, task.tokens, lanes);
  if (!place.there) return;
  Eight all = {}, row = {};
  const int count = place.each_cluster(
      task, place.row, [&](int32_t member) { add(all, 1, read(place.in<T>(task.from, member))); });
  add(row, share_of(task, count), all);
  write(place.in<T>(task.to, place.row), row);
}

template <class Kernel>
void run(Kernel bfloat16, Kernel float16, const Members& task, int64_t rows, void* stream) {
  int lanes = 1;
  while (lanes * 8 < task.width) lanes *= 2;
  const int64_t threads = task.batch * task.heads * rows * lanes;
  launch(task.type == Element::bfloat16 ? bfloat16 : float16,
         static_cast<unsigned>((threads + kThreads - 1) / kThreads), kThreads, 0, stream, task,
         lanes);
}

}  // namespace

void take_members_cuda(const Members& task, void* stream) noexcept {
  run(take<__nv_bfloat16>, take<__half>, task, task.members, stream);
}
void sum_members_cuda(const Members& task, void* stream) noexcept {
  run(sum<__nv_bfloat16>, sum<__half>, task, task.tokens, stream);
}

}  // namespace longbow::kernels
