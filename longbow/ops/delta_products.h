#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// delta_product from the first token to the last of `forth`, and from the last to the first of
// `back`, without sums before them: at once where a GPU has kernels, which for one direction alone
// leave most of it idle. q, k [B, H, N, p], v [B, H, N, q]; beta and log_decay, which may be
// undefined, are those of both.
struct DeltaRows {
  at::Tensor q, k, v;
};
struct DeltaReads {
  at::Tensor forth, back;
};
DeltaReads delta_products(const DeltaRows& forth, const DeltaRows& back, const at::Tensor& beta,
                          const at::Tensor& log_decay, double scale);

// Whether there are kernels for both at once; otherwise they are two products. Kernels have no
// second derivative.
bool has_delta_kernels(const DeltaRows& forth, const DeltaRows& back, const at::Tensor& beta,
                       const at::Tensor& log_decay);

}  // namespace longbow
