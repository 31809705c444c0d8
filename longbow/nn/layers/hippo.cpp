#include "longbow/nn/layers/hippo.h"

#include <ATen/ATen.h>

#include <cmath>

namespace longbow {

// A_ij = -sqrt(2i + 1) sqrt(2j + 1) below the diagonal and -(i + 1) on it, so that S + 1/2 is
// skew-symmetric and -i (S + 1/2) Hermitian.
HippoModes hippo_modes(int64_t states) {
  TORCH_CHECK(states > 0 && states % 2 == 0, "hippo_modes: ", states,
              " states, not an even number");
  const auto p = (2 * at::arange(states, at::kDouble) + 1).sqrt();
  const auto products = at::outer(p, p) / 2;
  const auto skew = products.triu(1) - products.tril(-1);
  const auto [values, vectors] = at::linalg_eigh(at::complex(at::zeros_like(skew), skew.neg()));
  const auto half = vectors.narrow(1, states / 2, states / 2);
  const auto largest = half.gather(0, half.abs().argmax(0, true));
  return {values.narrow(0, states / 2, states / 2), half * (largest.conj() / largest.abs())};
}

Tensor initial_log_uniform(const Site& site, const std::string& name, at::IntArrayRef shape,
                           double least, double largest) {
  const double middle = (std::log(least) + std::log(largest)) / 2;
  return initial_uniform(site, name, shape, std::log(largest) - middle) + middle;
}

}  // namespace longbow
