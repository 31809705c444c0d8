#include "longbow/ops/embedding.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>

#include "longbow/kernels/embedding.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor forward(const Tensor& words, const Tensor& tokens, int64_t padding,
               const std::optional<Tensor>& given) {
  const auto positions = given.value_or(Tensor());
  check_embed(words, tokens, positions);
  if (words.numel() == 0 || tokens.numel() == 0 || !at::isFloatingType(words.scalar_type()) ||
      !kernels::embed_fits(element_of(words), words.size(1)))
    return embed_formula(words, tokens, padding, positions);
  const c10::cuda::CUDAGuard guard(words.device());
  const auto table = dense_rows(words), numbers = tokens.contiguous(),
             added = positions.defined() ? dense_rows(positions) : positions;
  auto y = at::empty({tokens.size(0), tokens.size(1), words.size(1)}, words.options());
  kernels::embed_cuda({.type = element_of(table),
                       .words = table.const_data_ptr(),
                       .tokens = numbers.const_data_ptr<int64_t>(),
                       .positions = added.defined() ? added.const_data_ptr() : nullptr,
                       .y = y.mutable_data_ptr(),
                       .rows = tokens.numel(),
                       .length = tokens.size(1),
                       .words_count = words.size(0),
                       .width = words.size(1)},
                      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

// LibTorch adds up to 3072 tokens in the type itself, more of them in float32.
Tensor backward_by_libtorch(const Tensor& dy, const Tensor& tokens, int64_t words,
                            int64_t padding) {
  const bool widened = at::isReducedFloatingType(dy.scalar_type()) && tokens.numel() <= 3072;
  return at::embedding_dense_backward(widened ? dy.to(at::kFloat) : dy, tokens, words, padding,
                                      false)
      .to(dy.scalar_type());
}

// Each part of the tokens has sums of its own; to add those is LibTorch's.
Tensor backward(const Tensor& gradient, const Tensor& tokens, int64_t words, int64_t padding) {
  if (gradient.numel() == 0 || !at::isFloatingType(gradient.scalar_type()) ||
      !kernels::word_sums_fit(element_of(gradient), words, gradient.size(-1)))
    return backward_by_libtorch(gradient, tokens, words, padding);
  const c10::cuda::CUDAGuard guard(gradient.device());
  const auto dy = dense_rows(gradient), numbers = tokens.contiguous();
  const int64_t rows = tokens.numel(), width = dy.size(-1);
  const int64_t parts = kernels::word_sum_parts(rows, words, width);
  auto sums = at::empty({parts, words, width}, dy.options().dtype(at::kFloat));
  kernels::word_sums_cuda({.type = element_of(dy),
                           .dy = dy.const_data_ptr(),
                           .tokens = numbers.const_data_ptr<int64_t>(),
                           .sums = sums.mutable_data_ptr<float>(),
                           .rows = rows,
                           .words = words,
                           .width = width,
                           .padding = padding,
                           .parts = parts},
                          c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return sums.sum(0).to(dy.scalar_type());
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("embed", forward);
  m.impl("embed_backward", backward);
}

}  // namespace
}  // namespace longbow
