#pragma once
// The definition of random_product in ATen, on any device.
#include <ATen/core/Tensor.h>

#include <array>

#include "longbow/kernels/random_product.h"

namespace longbow {

using kernels::RandomMap;

// exponential, with y = scale x: phi_r(x) = exp(omega_r . y - |y|^2 / 2). What all features of a
// query have in common, and all of the keys of a head, cancels and is left out: the largest
// exponent is 0. Under a causal mask that is of the keys which the query sees.
// trigonometric, with y = x / (|x| + 1e-3): phi(x) = scale [sin(omega y), cos(omega y)].
struct RandomProduct {
  RandomMap map = RandomMap::exponential;
  at::Tensor omega;       // [1 or H, P, E], of any type; it has no gradient
  at::Tensor sigma = {};  // [H, E] or undefined: factors of the columns of omega, if trigonometric
  double scale = 1;
  at::Tensor keep = {};   // [B, M] bool, true = a real key; undefined = all
  at::Tensor least = {};  // [B], if causal [B, N], or undefined: 1e-30
  // Queries see the keys up to their own; there are as many of both.
  bool causal = false;
};

void check_random_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const RandomProduct& how);
at::Tensor random_product_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const RandomProduct& how);

// dq, dk, dv, and dsigma where there is a sigma. dlog_sum [B, H, N, 1]: of random_log_sum, if
// somebody reads it.
std::array<at::Tensor, 4> random_product_gradient(const at::Tensor& g, const at::Tensor& q,
                                                  const at::Tensor& k, const at::Tensor& v,
                                                  const RandomProduct& how,
                                                  const at::Tensor& dlog_sum = {});

// Of the exponential map: log of the mean over features of sum_j w_ij, with nothing left out, [B,
// H, N, 1]; -infinity where the output depends on no weight.
at::Tensor random_log_sum(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const RandomProduct& how);

constexpr double kLeastWeights = 1e-30;

}  // namespace longbow
