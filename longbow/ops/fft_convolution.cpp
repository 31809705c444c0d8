#include "longbow/ops/fft_convolution.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "longbow/ops/differentiable.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor spectrum(const Tensor& x, int64_t size) {
  return at::fft_rfft(x, size, -2);
}

Tensor rows_of(const Tensor& product, int64_t size, int64_t rows) {
  return at::fft_irfft(product, size, -2).narrow(-2, 0, rows);
}

// y = IFFT(FFT(u) FFT(k)) for a kernel on a circle, k_{-l} at row size - l. The gradients are the
// same with the conjugates: of u with that of k, of k with that of u. Spectra are not kept.
struct Circular : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    const auto &u = inputs[0], &kernel = inputs[1];
    save({u, kernel});
    const int64_t size = kernel.size(-2);
    return {rows_of(spectrum(u, size) * spectrum(kernel, size), size, u.size(-2))};
  }
  TensorVector backward(const TensorVector& gradients) override {
    const auto kept = saved();
    const auto &u = kept[0], &kernel = kept[1];
    const int64_t size = kernel.size(-2);
    const auto g = spectrum(gradients[0], size);
    const auto summed = [&](const Tensor& product, const Tensor& like, int64_t rows) {
      auto shape = like.sizes().vec();  // what was broadcast is summed, before it is transformed
      shape[shape.size() - 2] = size / 2 + 1;
      return rows_of(product.sum_to_size(shape), size, rows);
    };
    TensorVector result(2);
    if (wants_gradient_of(0)) result[0] = summed(g * spectrum(kernel, size).conj(), u, u.size(-2));
    if (wants_gradient_of(1)) result[1] = summed(g * spectrum(u, size).conj(), kernel, size);
    return result;
  }
};

}  // namespace

int64_t fft_size(int64_t least) {
  int64_t size = 1;
  while (size < least) size *= 2;
  for (const int64_t less : {size / 8 * 5, size / 4 * 3})
    if (less >= least) return less;
  return size;
}

Tensor fft_convolution(const Tensor& u, const Tensor& past, const Tensor& ahead, FirstLag first) {
  TORCH_CHECK(past.defined() || ahead.defined(), "fft_convolution: there is no kernel");
  for (const auto& kernel : {past, ahead})
    TORCH_CHECK(!kernel.defined() || kernel.size(-1) == 1 || kernel.size(-1) == u.size(-1),
                "fft_convolution: u is ", u.sizes(), " but a kernel is ", kernel.sizes());
  const auto type = at::promote_types(u.scalar_type(), at::kFloat);
  const int64_t tokens = u.size(-2), size = fft_size(2 * tokens);  // what wraps around has room
  if (u.numel() == 0) return u.to(type);
  const auto on_circle = [&](const Tensor& kernel, int64_t lag) {  // of its first row
    const int64_t rows = std::min(kernel.size(-2), tokens);
    return at::constant_pad_nd(kernel.to(type).narrow(-2, 0, rows), {0, 0, lag, size - lag - rows});
  };
  Tensor circle = past.defined() ? on_circle(past, 0) : Tensor();
  if (ahead.defined()) {  // row l of the circle moves to row -l
    const auto turned = on_circle(ahead, first == FirstLag::one ? 1 : 0).flip(-2).roll(1, -2);
    circle = past.defined() ? circle + turned : turned;
  }
  return applied<Circular>({u.to(type), circle})[0];
}

}  // namespace longbow
