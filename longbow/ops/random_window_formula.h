#pragma once
// The definition of random_window in ATen, on any device; N x N weights are formed.
#include <ATen/core/Tensor.h>

#include <array>

namespace longbow {

// With y = scale x, rows omega_r and, if `mirrored`, their negatives: phi_r(x) = exp(omega_r . y -
// |y|^2 / 2), and w_ij the mean over r of phi_r(q_i) phi_r(k_j). For normal rows its mean is
// exp(scale^2 q_i . k_j), which is the weight of keys with -ahead <= i - j <= back.
struct RandomWindow {
  at::Tensor omega;  // [1 or H, P, E], of any type; it has no gradient
  bool mirrored = false;
  double scale = 1;
  at::Tensor keep = {};  // [B, N] bool, true = a real key; undefined = all
  int64_t back = 0, ahead = 0;
  bool causal = false;  // keys j <= i alone; then ahead is 0
};

at::Tensor random_window_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const RandomWindow& how);
// dq, dk, dv.
std::array<at::Tensor, 3> random_window_gradient(const at::Tensor& g, const at::Tensor& q,
                                                 const at::Tensor& k, const at::Tensor& v,
                                                 const RandomWindow& how);

void check_random_window(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const RandomWindow& how);

}  // namespace longbow
