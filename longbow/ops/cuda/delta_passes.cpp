#include "longbow/ops/cuda/delta_passes.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "longbow/ops/head_rows.h"

namespace longbow::delta {

using at::Tensor;

namespace {

// [B, H, N, 1], undefined = none.
kernels::TokenNumbers numbers_of(const Tensor& x, bool reversed) {
  if (!x.defined()) return {};
  const auto rows = walked_by_head(x, reversed);
  return {static_cast<float*>(rows.data), rows.batch, rows.head, rows.token};
}

const float* floats_of(const Tensor& t) {
  return t.defined() ? t.const_data_ptr<float>() : nullptr;
}

// The task of each direction, started by `pass`.
template <class Task, class F>
void start(void (*pass)(const kernels::DeltaWays<Task>&, void*) noexcept, const Directions& all,
           const F& task) {
  const size_t last = all.size() - 1;
  const kernels::DeltaWays<Task> tasks = {.way = {task(all[0], 0), task(all[last], last)},
                                          .count = static_cast<int>(all.size())};
  pass(tasks, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

kernels::DeltaHeads Given::heads() const {
  return {.q = rows(q),
          .k = rows(k),
          .beta = numbers_of(beta, reversed),
          .log_decay = numbers_of(log_decay, reversed),
          .scale = scale,
          .batch = q.size(0),
          .heads = q.size(1),
          .tokens = q.size(2),
          .width = q.size(3),
          .depth = v.size(3),
          .inverses = inverses.defined() ? inverses.mutable_data_ptr() : nullptr,
          .decays = decays.defined() ? decays.mutable_data_ptr<float>() : nullptr};
}

Tensor Given::empty_sums() const {
  return at::empty(
      {q.size(0) * q.size(1), heads().chunks() + 1, kernels::kDeltaWidth, kernels::kDeltaWidth},
      q.options());
}

Tensor Given::empty_last() const {
  return at::empty({q.size(0), q.size(1), q.size(3), v.size(3)}, beta.options());
}

Given given(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta,
            const Tensor& log_decay, bool reversed, double scale, const Tensor& inverses,
            const Tensor& decays) {
  Given made = {.q = readable_by_head(q),
                .k = readable_by_head(k),
                .v = readable_by_head(v),
                .beta = beta,
                .log_decay = log_decay,
                .reversed = reversed,
                .scale = static_cast<float>(scale),
                .inverses = inverses,
                .decays = decays};
  if (inverses.defined()) return made;
  const int64_t groups = q.size(0) * q.size(1), chunks = made.heads().chunks();
  made.inverses =
      at::empty({groups, chunks, kernels::kDeltaChunk, kernels::kDeltaWidth}, q.options());
  made.decays = at::empty({groups, chunks, kernels::kDeltaChunk}, beta.options());
  return made;
}

void invert(const Directions& all) {
  start(kernels::delta_inverse_cuda, all, [](const Given& of, size_t) { return of.heads(); });
}

std::vector<Reads> read(const Directions& all, const Tensor& first) {
  std::vector<Reads> found;
  for (const auto& of : all)
    found.push_back({empty_by_head(of.v, of.v.size(3)), empty_by_head(of.v, of.v.size(3)),
                     of.empty_sums(), of.empty_last()});
  start(kernels::delta_walk_cuda, all, [&](const Given& of, size_t i) {
    return kernels::DeltaWalk{.heads = of.heads(),
                              .v = of.rows(of.v),
                              .u = of.rows(found[i].written),
                              .sums = found[i].before.mutable_data_ptr(),
                              .first = floats_of(first),
                              .last = found[i].last.mutable_data_ptr<float>()};
  });
  start(kernels::delta_read_cuda, all, [&](const Given& of, size_t i) {
    return kernels::DeltaRead{.heads = of.heads(),
                              .u = of.rows(found[i].written),
                              .out = of.rows(found[i].out),
                              .sums = found[i].before.const_data_ptr()};
  });
  return found;
}

std::vector<Gradients> gradients(const Directions& all, const std::vector<Reads>& reads,
                                 const std::vector<Tensor>& douts, const Tensor& dlast) {
  std::vector<Gradients> found;
  std::vector<Tensor> slopes, dsums;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& of = all[i];
    const auto [dq, dk, dv] = empty_beside(of.q, of.k, of.v);
    found.push_back({dq, dk, dv, empty_by_head(of.beta, 1),
                     of.log_decay.defined() ? empty_by_head(of.log_decay, 1) : Tensor(),
                     of.empty_last()});
    slopes.push_back(readable_by_head(douts[i]));
    dsums.push_back(of.empty_sums());
  }
  start(kernels::delta_walk_back_cuda, all, [&](const Given& of, size_t i) {
    return kernels::DeltaWalkBack{.heads = of.heads(),
                                  .dout = of.rows(slopes[i]),
                                  .dv = of.rows(found[i].dv),
                                  .dsums = dsums[i].mutable_data_ptr(),
                                  .first = floats_of(dlast),
                                  .last = found[i].dfirst.mutable_data_ptr<float>()};
  });
  start(kernels::delta_gradient_cuda, all, [&](const Given& of, size_t i) {
    return kernels::DeltaGradient{.heads = of.heads(),
                                  .v = of.rows(of.v),
                                  .u = of.rows(reads[i].written),
                                  .dout = of.rows(slopes[i]),
                                  .dv = of.rows(found[i].dv),
                                  .sums = reads[i].before.const_data_ptr(),
                                  .dsums = dsums[i].const_data_ptr(),
                                  .dq = of.rows(found[i].dq),
                                  .dk = of.rows(found[i].dk),
                                  .dbeta = numbers_of(found[i].dbeta, of.reversed),
                                  .dlog_decay = numbers_of(found[i].dlog_decay, of.reversed)};
  });
  return found;
}

}  // namespace longbow::delta
