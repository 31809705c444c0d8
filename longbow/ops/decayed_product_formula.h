#pragma once
// The definition of decayed_product in ATen, on any device.
#include <ATen/core/Tensor.h>

namespace longbow {

// What of the sums fades: the rows, one for each feature of y, or the columns, one for each channel
// of z.
enum class Fading { rows, columns };

struct DecayedProduct {
  Fading fading = Fading::rows;
  double scale = 1;       // of what is read
  bool reversed = false;  // from the last token to the first
};

// decayed_product by ATen alone. Pairs within `chunk` tokens, a power of two, are products; the
// sums before each chunk are a scan, so that N tokens take O(log N) operators. The kernel is tested
// against it.
at::Tensor decayed_product_formula(const at::Tensor& x, const at::Tensor& y, const at::Tensor& z,
                                   const at::Tensor& log_decay, const DecayedProduct& how,
                                   at::Tensor& sums, int64_t chunk = 64);

void check_decayed_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& z,
                           const at::Tensor& log_decay, Fading fading);

}  // namespace longbow
