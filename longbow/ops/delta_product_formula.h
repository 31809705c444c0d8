#pragma once
// The definition of delta_product in ATen, on any device.
#include <ATen/core/Tensor.h>

namespace longbow {

struct DeltaProduct {
  double scale = 1;       // of what is read
  bool reversed = false;  // from the last token to the first
};

// delta_product by ATen alone. Within `chunk` tokens the corrected values solve a triangular
// system; from chunk to chunk the sums change by a matrix [p, p], and those before each chunk are a
// scan, so that N tokens take O(log N) operators. The kernel is tested against it.
at::Tensor delta_product_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& beta, const at::Tensor& log_decay,
                                 const DeltaProduct& how, at::Tensor& sums, int64_t chunk = 64);

void check_delta_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const at::Tensor& beta, const at::Tensor& log_decay);

}  // namespace longbow
