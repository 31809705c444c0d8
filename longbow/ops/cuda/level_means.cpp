#include "longbow/ops/level_means.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>

#include "longbow/kernels/level_means.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"
#include "longbow/ops/level_means_formula.h"
#include "longbow/ops/level_starts.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using kernels::LevelMeans;

bool fits(const Tensor& x, at::IntArrayRef rows) {
  const auto type = x.scalar_type();
  return (type == at::kBFloat16 || type == at::kHalf) && x.numel() > 0 && x.size(3) % 8 == 0 &&
         x.size(3) <= 256 && rows.size() <= static_cast<size_t>(LevelMeans::kMostLevels);
}

bool fits(const Tensor& x, const Tensor& factors, at::IntArrayRef rows) {
  return factors.scalar_type() == at::kFloat && fits(x, rows);
}

// Of tensors without gaps; x, out and sums are set by the caller.
LevelMeans task_of(const Tensor& x, const Tensor& keep, const Tensor& factors,
                   at::IntArrayRef rows) {
  LevelMeans task = {.type = element_of(x),
                     .batch = x.size(0),
                     .heads = x.size(1),
                     .tokens = x.size(2),
                     .width = x.size(3),
                     .levels = static_cast<int>(rows.size()),
                     .rows = {},
                     .x = {},
                     .keep = keep.defined() ? keep.const_data_ptr<bool>() : nullptr,
                     .factors = factors.const_data_ptr<float>(),
                     .factors_batch = factors.size(0) == 1 ? 0 : factors.size(1),
                     .out = {},
                     .sums = nullptr};
  for (size_t l = 0; l < rows.size(); ++l) task.rows[l] = rows[l];
  return task;
}

// How many sums the stages of the forward pass leave to the next ones, for each head.
int64_t kept_sums(int64_t tokens, int64_t levels) {
  int64_t all = 0;
  for (int64_t done = LevelMeans::kAtOnce; done < levels; done += LevelMeans::kAtOnce) {
    constexpr int64_t kChunk = int64_t{1} << LevelMeans::kAtOnce;
    tokens = (tokens + kChunk - 1) / kChunk;
    all += tokens;
  }
  return all;
}

Tensor forward(const Tensor& given, const Maybe& given_keep, const Tensor& given_factors,
               at::IntArrayRef rows) {
  if (!fits(given, given_factors, rows))
    return level_means_formula(given, given_keep, given_factors, rows);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = with_rows(given), factors = given_factors.contiguous(),
             keep = given_keep ? given_keep->contiguous() : Tensor();
  const auto out =
      at::empty({x.size(0), factors.size(1), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
  const auto sums = at::empty(
      {x.size(0) * x.size(1) * kept_sums(x.size(2), static_cast<int64_t>(rows.size())) * x.size(3)},
      factors.options());
  auto task = task_of(x, keep, factors, rows);
  task.x = rows_of(x);
  task.out = results_of(out);
  task.sums = sums.mutable_data_ptr<float>();
  kernels::level_means_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

Tensor backward(const Tensor& given, const Tensor& x, const Maybe& given_keep,
                const Tensor& given_factors, at::IntArrayRef rows) {
  if (!fits(x, given_factors, rows))
    return level_means_formula_backward(given, x, given_keep, given_factors, rows);
  const c10::cuda::CUDAGuard guard(x.device());
  const auto g = with_rows(given), factors = given_factors.contiguous(),
             keep = given_keep ? given_keep->contiguous() : Tensor(), dx = empty_rows(x, x.size(3));
  kernels::level_means_backward_cuda(
      {.past = task_of(x, keep, factors, rows), .g = rows_of(g), .dx = results_of(dx)},
      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return dx;
}

// From some rows to others, both [B, H, .., D].
kernels::LevelStarts starts_of(const Tensor& from, const Tensor& to, int64_t tokens,
                               at::IntArrayRef rows) {
  kernels::LevelStarts task = {.type = element_of(from),
                               .batch = from.size(0),
                               .heads = from.size(1),
                               .tokens = tokens,
                               .width = from.size(3),
                               .levels = static_cast<int>(rows.size()),
                               .rows = {},
                               .from = rows_of(from),
                               .to = results_of(to)};
  for (size_t l = 0; l < rows.size(); ++l) task.rows[l] = rows[l];
  return task;
}

Tensor starts(const Tensor& given, at::IntArrayRef rows) {
  if (!fits(given, rows)) return level_starts_formula(given, rows);
  const c10::cuda::CUDAGuard guard(given.device());
  int64_t all = 0;
  for (const int64_t count : rows) all += count;
  const auto x = with_rows(given),
             out = at::empty({x.size(0), all, x.size(1), x.size(3)}, x.options()).transpose(1, 2);
  kernels::level_starts_cuda(starts_of(x, out, x.size(2), rows),
                             c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

Tensor starts_backward(const Tensor& given, int64_t tokens, at::IntArrayRef rows) {
  if (tokens == 0 || !fits(given, rows)) return level_starts_formula_backward(given, tokens, rows);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto g = with_rows(given),
             dx = at::empty({g.size(0), tokens, g.size(1), g.size(3)}, g.options()).transpose(1, 2);
  kernels::level_starts_backward_cuda(starts_of(g, dx, tokens, rows),
                                      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return dx;
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("level_starts", starts);
  m.impl("level_starts_backward", starts_backward);
  m.impl("level_means", forward);
  m.impl("level_means_backward", backward);
}

}  // namespace
}  // namespace longbow
