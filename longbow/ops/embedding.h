#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// y[b, n] = words[tokens[b, n]] + positions[n] of words [V, C], tokens [B, N] int64 and positions
// [P >= N, C], which may be undefined. The row `padding` of the words has no gradient; -1: all
// have. The sum is rounded once, as LibTorch's. On a GPU words and positions are read in one pass;
// of half types, up to 1024 words and channels in a multiple of 16 up to 256, the words' gradient
// is a product of tensor cores in place of a sort: the same every time.
at::Tensor embed(const at::Tensor& words, const at::Tensor& tokens, int64_t padding = -1,
                 const at::Tensor& positions = {});

// The same by ATen alone.
at::Tensor embed_formula(const at::Tensor& words, const at::Tensor& tokens, int64_t padding,
                         const at::Tensor& positions);

void check_embed(const at::Tensor& words, const at::Tensor& tokens, const at::Tensor& positions);

}  // namespace longbow
